// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/gpu/matrix/replay.hpp"

#include "emulation/evidence/gpu/matrix/tiles.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/machine/instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace macheps::evidence {

namespace {

using evidence::bad_json_lines;
using evidence::json_field;

/// Returns the likely causes if outputs of this variant differ from the model, but outputs of the plain form do not.
std::string cause_of(const InstructionForm& form) {
    std::string text;
    const auto add = [&](bool is_so, const char* words) {
        if (is_so) text += (text.empty() ? "" : "; ") + std::string(words);
    };
    add(form.chain > 1,
        "the accumulator keeps more bits between the instructions of a group (certain only if the probe was built "
        "without MACHEPS_CUDA_QUICK)");
    add(form.transposes_a || form.transposes_b, "strides of transposed operands");
    add(form.a_in_registers, "the registers of operand a");
    add(form.negates_a || form.negates_b, "the negation of an operand");
    add(form.ignores_addend, "the ignored addend");
    add(form.n > 8, "strides of instruction shapes with more than 8 columns");
    return text.empty() ? "no cause is specific to this variant" : text;
}

std::uint64_t code_in(const Json& value, const std::string& where) {
    std::uint64_t code = 0;
    const std::string text = value.is_string() ? value.string() : "";
    const char* const end = text.data() + text.size();
    if (text.empty() || std::from_chars(text.data(), end, code, 16).ptr != end)
        bad_json_lines("a value is not a hexadecimal code", where);
    return code;
}

/// Returns the codes of the operand that the JSON object `row` stores under `key`, in the layout that
/// reference_output() reads.
std::vector<std::byte> codes_in(const Json& row, const char* key, int count, int bytes, const std::string& where) {
    const Json* found = row.find(key);
    if (found == nullptr || !found->is_array() || static_cast<int>(found->size()) != count)
        bad_json_lines(fmt::format("\"{}\" does not contain {} codes", key, count), where);
    std::vector<std::byte> memory(static_cast<std::size_t>(count * bytes));
    std::size_t at = 0;
    for (const Json& value : *found) {
        store_code(&memory[at], bytes, code_in(value, where));
        at += static_cast<std::size_t>(bytes);
    }
    return memory;
}

}  // namespace

bool is_variant_capture(const Json& header) {
    return header.contains("macheps_capture") && header.contains("instruction");
}

std::string variant_of(const Json& header, const std::string& where) {
    return json_field<std::string>(header, "instruction", where);
}

void replay_variant(std::string_view text, const std::string& where, const evidence::ProbeSink& sink) {
    const std::string first = where + ":1";
    const Json header = evidence::json_lines_header(text, where);
    const std::string name = variant_of(header, first);
    const int index = find_instruction_form(name);
    if (index < 0) bad_json_lines(fmt::format("unknown form '{}'", name), first);
    const InstructionForm& form = instruction_form(index);
    const Instruction instruction =
        find_instruction(json_field<std::string>(header, "arch", first), form.instruction(), form.qualifier(), first);
    FormData data{.form = form};
    data.rule = data.truth = instruction.machine->sum;
    data.canonical_nan = instruction.machine->fixes_nan();
    data.shape.a = format_of(form.a);
    data.shape.b = format_of(form.b);
    data.shape.c = instruction.machine->result;
    std::vector<evidence::ProbeResult> rows;
    std::string_view rest = text.substr(text.find('\n') + 1);
    for (int number = 2; !rest.empty(); ++number) {
        const std::string here = fmt::format("{}:{}", where, number);
        const std::size_t stop = std::min(rest.find('\n'), rest.size() - 1);
        const std::string_view line = rest.substr(0, stop);
        const Json row = evidence::parse_json_line(line, here);
        rest.remove_prefix(stop + 1);
        const std::string cls = json_field<std::string>(row, "cls", here);
        auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.operands == cls; });
        if (found == rows.end()) {
            rows.push_back({.kind = "replay",
                            .instruction = name,
                            .operands = cls,
                            .model = std::string(instruction.machine->name),
                            .note = {}});
            found = rows.end() - 1;
        }
        const std::vector<std::byte> a = codes_in(row, "a", form.products(), bytes_of(form.a), here);
        const std::vector<std::byte> b = codes_in(row, "b", form.products(), bytes_of(form.b), here);
        const auto value_of = [&](const char* key) { return row.contains(key) ? row[key] : Json(); };
        const std::uint64_t c = code_in(value_of("c"), here);
        const std::uint64_t d = value_of("d") == "nan" ? data.shape.c.nan_code() : code_in(value_of("d"), here);
        const std::uint64_t want = reference_output(data, data.rule, a.data(), b.data(), c);
        ++found->trials;
        if (same_output(data, want, d) || found->mismatches++ > 0) continue;
        found->verdict = evidence::Verdict::differs;
        found->note = fmt::format("scalar gives {}; {}; cause: {}", evidence::hex_digits(data.shape.c, want), line,
                                  cause_of(form));
    }
    for (evidence::ProbeResult& row : rows) {
        if (row.note.empty()) row.note = json_field<std::string>(header, "gpu", first);
        sink(row);
    }
}

}  // namespace macheps::evidence
