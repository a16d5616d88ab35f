// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/instruction.hpp"

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/machine/step.hpp"
#include "emulation/machine/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace macheps {

namespace {

struct NamedType {
    std::string_view name;
    Format format;
};

constexpr NamedType nvidia_types[] = {
    {"f16", fp16},  {"bf16", bf16},   {"tf32", tf32},   {"f32", fp32},    {"f64", fp64},      {"e4m3", e4m3fn},
    {"e5m2", e5m2}, {"e2m3", e2m3fn}, {"e3m2", e3m2fn}, {"e2m1", e2m1fn}, {"ue8m0", e8m0fnu}, {"ue4m3", e4m3fn},
};
/// One variant of AMD's instructions: `tail` is the end of the mnemonic, and `machine` the last word of the machine's
/// name. The formats of a and b differ only in some fp8 variants.
struct AmdForm {
    std::string_view tail, machine;
    Format a, b;
};
constexpr AmdForm amd_forms[] = {
    {"f64", "fp64", fp64, fp64},
    {"f32", "fp32", fp32, fp32},
    {"xf32", "xf32", tf32, tf32},
    {"f16", "fp16", fp16, fp16},
    {"bf16", "bf16", bf16, bf16},
    {"bf16_1k", "bf16_1k", bf16, bf16},
    {"fp8_fp8", "fp8", e4m3fnuz, e4m3fnuz},
    {"fp8_bf8", "fp8", e4m3fnuz, e5m2fnuz},
    {"bf8_fp8", "fp8", e5m2fnuz, e4m3fnuz},
    {"bf8_bf8", "fp8", e5m2fnuz, e5m2fnuz},
};

const Format* nvidia_type(std::string_view name) {
    for (const NamedType& type : nvidia_types) {
        if (type.name == name) return &type.format;
    }
    return nullptr;
}

std::string_view nvidia_type_name(const Format& format, bool is_scale = false) {
    if (is_scale && format == e4m3fn) return "ue4m3";
    for (const NamedType& type : nvidia_types) {
        if (type.format == format) return type.name;
    }
    return "?";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> words;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

/// Removes a positive number from the front of `text` and returns it. Returns nullopt if `text` does not begin with a
/// positive number.
std::optional<int> take_number(std::string_view& text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number <= 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

bool take(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

/// Returns the k of a shape such as `m64n8k32`. If `may_lack_tile` is set, the shape may also consist of k alone, such
/// as `k2` for a CPU instruction.
std::optional<int> shape_k(std::string_view text, bool may_lack_tile = false) {
    std::optional<int> k;
    const bool has_tile = !may_lack_tile || !text.starts_with("k");
    for (const std::string_view letter : {"m", "n", "k"}) {
        if (!has_tile && letter != "k") continue;
        if (!take(text, letter)) return std::nullopt;
        if (!(k = take_number(text))) return std::nullopt;
    }
    return text.empty() ? k : std::nullopt;
}

bool is_word_of(std::string_view words, std::string_view word) {
    const auto all = split(words, ' ');
    return std::find(all.begin(), all.end(), word) != all.end();
}

bool serves(const Machine& machine, std::string_view arch) { return is_word_of(machine.arch, arch); }

bool is_cpu(std::string_view arch) { return is_cpu_unit({.arch = arch}); }

/// Parsed qualifier of an instruction.
struct Form {
    Format a = fp32, b = fp32, c = fp32, d = fp32, scale{};
    int k = 0, block = 0;
    std::string_view machine{};  ///< the last word of the machine's name; empty: the name may be any
};

/// Parses the qualifier of an instruction of NVIDIA or of a CPU. Qualifiers of CPUs use the same names of types, and
/// always contain the type of C.
std::optional<Form> nvidia_form(std::string_view arch, std::string_view instr, std::string_view qual) {
    const auto words = split(qual, '.');
    const std::optional<int> k = shape_k(words.front(), is_cpu(arch));
    if (!k) return std::nullopt;
    Form form;
    form.k = *k;
    std::size_t at = 1;
    if (at < words.size() && words[at].starts_with("block")) {
        std::string_view digits = words[at++].substr(5);
        const std::optional<int> block = take_number(digits);
        if (!block || !digits.empty()) return std::nullopt;
        form.block = *block;
    }
    std::vector<Format> types;
    for (; at < words.size(); ++at) {
        const Format* type = nvidia_type(words[at]);
        if (type == nullptr) return std::nullopt;
        types.push_back(*type);
    }
    const bool has_addend = instr.starts_with("mma") || is_cpu(arch);
    if (types.size() != 3u + (has_addend ? 1 : 0) + (form.block != 0 ? 1 : 0)) return std::nullopt;
    form.d = types[0];
    form.a = types[1];
    form.b = types[2];
    form.c = has_addend ? types[3] : form.d;
    if (form.block != 0) form.scale = types.back();
    return form;
}

/// Parses qualifiers such as `f32_32x32x8f16`, `f32_16x16x32_fp8_fp8` and `f32_32x32x4_2b_f16`.
std::optional<Form> amd_form(std::string_view qual) {
    Form form;
    if (!take(qual, "f32_")) {
        if (!take(qual, "f64_")) return std::nullopt;
        form.c = form.d = fp64;
    }
    const std::optional<int> m = take_number(qual);
    if (!m || !take(qual, "x")) return std::nullopt;
    const std::optional<int> n = take_number(qual);
    if (!n || !take(qual, "x")) return std::nullopt;
    const std::optional<int> k = take_number(qual);
    if (!k) return std::nullopt;
    form.k = *k;
    take(qual, "_");
    std::string_view rest = qual;
    if (take_number(rest) && take(rest, "b_")) qual = rest;  // skip the number of independent blocks
    for (const AmdForm& known : amd_forms) {
        if (known.tail != qual) continue;
        form.a = known.a;
        form.b = known.b;
        form.machine = known.machine;
        return form;
    }
    return std::nullopt;
}

bool has_shape(const Machine& machine, int k) {
    if (k == machine.k || k == machine.small_k) return true;
    // An AMX tile may have fewer rows than the largest tile, so k may be a smaller multiple of 2, or of 4 for fp8.
    if (machine.sum.model == SumModel::parted_chain) return k < machine.k && k % (2 * machine.sum.joined_products) == 0;
    if (is_cpu_unit(machine)) return false;
    const bool is_amd = machine.instruction == "mfma";
    if (!is_amd && machine.sum.model != SumModel::fma_chain) return false;
    // The k of AMD's smaller shapes divides machine.k and is at least the number of products of one step. On CDNA3 a
    // step shrinks with the instruction, so k may be as small as 4.
    const int least = machine.sum.model == SumModel::floored ? 4 : machine.sum.terms;
    return k >= least && k <= machine.k && machine.k % k == 0;
}

bool fits(const Machine& machine, const Form& form) {
    const bool is_form = machine.operands.contains(form.a) && machine.operands.contains(form.b) &&
                         machine.result == form.d && machine.addend == form.c && has_shape(machine, form.k) &&
                         machine.scale_block == form.block && (form.block == 0 || machine.scale == form.scale);
    return is_form && (form.machine.empty() || machine.name.ends_with(fmt::format(".{}", form.machine)));
}

/// Appends the qualifiers of a machine to `names`. Each qualifier has the rows and columns of `shape`.
void add_qualifiers(const Machine& machine, std::string_view instr, std::string_view shape,
                    std::vector<std::string>& names) {
    if (instr == "mfma") {
        for (const AmdForm& form : amd_forms) {
            if (machine.name.ends_with(fmt::format(".{}", form.machine))) {
                names.push_back(fmt::format("{}_16x16x{}{}{}", machine.result == fp64 ? "f64" : "f32", machine.k,
                                            form.tail.find("8") == std::string_view::npos ? "" : "_", form.tail));
            }
        }
        return;
    }
    const bool cpu = is_cpu_unit(machine);
    const std::string_view rows = shape.substr(0, shape.find('k'));
    for (const int k : {machine.k, machine.small_k}) {
        if (k == 0) continue;
        for (const Format& a : FormatSet::known) {
            for (const Format& b : FormatSet::known) {
                if (!machine.operands.contains(a) || !machine.operands.contains(b)) continue;
                std::string name = fmt::format("{}k{}", rows.starts_with("m") ? rows : cpu ? "" : "m16n8", k);
                if (machine.has_scales()) name += fmt::format(".block{}", machine.scale_block);
                name += fmt::format(".{}.{}.{}", nvidia_type_name(machine.result), nvidia_type_name(a),
                                    nvidia_type_name(b));
                if (instr.starts_with("mma") || cpu) name += fmt::format(".{}", nvidia_type_name(machine.addend));
                if (machine.has_scales()) name += fmt::format(".{}", nvidia_type_name(machine.scale, true));
                names.push_back(std::move(name));
            }
        }
    }
}

void add_once(std::vector<std::string>& names, std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

[[noreturn]] void unknown(const char* what, std::string_view name, const std::vector<std::string>& names,
                          std::string_view where) {
    const std::string near = nearest_name(name, names);
    std::string fix = near.empty() ? "" : fmt::format("did you mean '{}'?", near);
    for (std::size_t i = 0; near.empty() && i < std::min<std::size_t>(names.size(), 12); ++i)
        fix += (i == 0 ? "use one of " : ", ") + names[i];
    throw Error({.what = fmt::format("{} '{}'", what, name), .where = std::string(where), .fix = std::move(fix)});
}

}  // namespace

Instruction find_instruction(std::string_view arch, std::string_view instr, std::string_view qual,
                             std::string_view where) {
    std::vector<std::string> architectures, instructions, qualifiers;
    const std::optional<Form> form = instr == "mfma" ? amd_form(qual) : nvidia_form(arch, instr, qual);
    for (const Machine* machine : all_machines) {
        if (machine->instruction.empty()) continue;
        for (const std::string_view name : split(machine->arch, ' ')) add_once(architectures, name);
        if (!serves(*machine, arch)) continue;
        for (const std::string_view name : split(machine->instruction, ' ')) add_once(instructions, name);
        if (!is_word_of(machine->instruction, instr)) continue;
        if (form && fits(*machine, *form)) {
            return {.name = fmt::format("{} {} {}", arch, instr, qual),
                    .machine = machine,
                    .a = form->a,
                    .b = form->b,
                    .k = form->k};
        }
        add_qualifiers(*machine, instr, qual.substr(0, qual.find('.')), qualifiers);
    }
    if (instructions.empty()) unknown("unknown architecture", arch, architectures, where);
    if (qualifiers.empty())
        unknown(fmt::format("{} does not have the instruction", arch).c_str(), instr, instructions, where);
    unknown(fmt::format("{} {} does not have the form", arch, instr).c_str(), qual, qualifiers, where);
}

std::uint64_t evaluate_instruction(const Instruction& instruction, const InstructionOperands& operands) {
    const auto k = static_cast<std::size_t>(instruction.k),
               scales = static_cast<std::size_t>(instruction.scale_count());
    if (operands.a.size() != k || operands.b.size() != k || operands.a_scale.size() != scales ||
        operands.b_scale.size() != scales) {
        throw Error({.what = fmt::format("a and b have {} and {} numbers, with {} and {} scales", operands.a.size(),
                                         operands.b.size(), operands.a_scale.size(), operands.b_scale.size()),
                     .where = instruction.name,
                     .fix = fmt::format("use {} numbers and {} scales for each operand", k, scales)});
    }
    const auto factors = [](const Format& format, const std::vector<std::uint64_t>& codes) {
        std::vector<Factor> list;
        for (const std::uint64_t code : codes) list.push_back(factor_of_code(format, code));
        return list;
    };
    const auto a = factors(instruction.a, operands.a), b = factors(instruction.b, operands.b);
    // matrix_step ignores the sign of a scale.
    const auto a_scale = factors(instruction.machine->scale, operands.a_scale),
               b_scale = factors(instruction.machine->scale, operands.b_scale);
    return matrix_instruction(instruction.machine->sum, instruction.k, a.data(), b.data(), operands.c,
                              {a_scale.data(), b_scale.data(), instruction.scale_count()});
}

}  // namespace macheps
