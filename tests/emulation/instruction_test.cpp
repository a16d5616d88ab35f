// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/instruction.hpp"

#include "core/error.hpp"
#include "emulation/cpu/matmul/machine/instruction_grid.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/machine/words.hpp"
#include "tests/json.hpp"
#include "tests/test.hpp"

#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

namespace instruction_test {

using namespace macheps;
using nlohmann::json;

namespace {

struct Line {
    InstructionOperands operands;
    std::string d;
    std::vector<std::string> alt;
};

std::uint64_t code(const json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

std::vector<std::uint64_t> codes(const json& object, const char* key) {
    std::vector<std::uint64_t> list;
    if (object.contains(key)) {
        for (const json& text : object[key]) list.push_back(code(text));
    }
    return list;
}

/// Returns the lines of a file of test vectors, grouped by instruction.
std::map<std::string, std::pair<Instruction, std::vector<Line>>> read(const std::filesystem::path& path) {
    std::map<std::string, std::pair<Instruction, std::vector<Line>>> lines;
    std::ifstream in(path);
    for (std::string text; std::getline(in, text);) {
        const json j = json::parse(text);
        const Instruction instruction =
            find_instruction(j["arch"].get<std::string>(), j["instr"].get<std::string>(), j["qual"].get<std::string>());
        Line line{{codes(j, "a"), codes(j, "b"), code(j["c"]), codes(j, "sa"), codes(j, "sb")}, j["d"], {}};
        if (j.contains("alt")) {
            for (const auto& [name, bits] : j["alt"].items()) line.alt.push_back(bits);
        }
        auto& entry = lines[instruction.name];
        entry.first = instruction;
        entry.second.push_back(line);
    }
    return lines;
}

bool is_nan(const Format& f, std::uint64_t bits) { return (bits & f.magnitude_mask()) > f.inf_code(); }

bool agrees(const Format& f, std::uint64_t bits, const std::string& d) {
    if (d == "nan") return is_nan(f, bits);
    if (d == "zero") return (bits & f.magnitude_mask()) == 0;
    return bits == std::stoull(d, nullptr, 16);
}

}  // namespace

TEST_CASE("every published test vector of an instruction agrees with the definition and with every engine",
          "[emulation][machine]") {
    const auto folder = test::shared_folder();
    if (folder.empty()) SKIP_TEST("no shared vectors");
    for (const auto& [file, instructions, total] :
         {std::tuple{"tc_vectors_public.jsonl", 58, 1972}, std::tuple{"tc_hw_captures.jsonl", 23, 1980}}) {
        const auto path = folder / "vectors" / file;
        if (!std::filesystem::exists(path)) SKIP_TEST("no " + path.string());
        const auto all = read(path);
        CAPTURE(file);
        CHECK(static_cast<int>(all.size()) == instructions);
        int count = 0;
        for (const auto& [name, entry] : all) {
            const auto& [instruction, lines] = entry;
            const Format result = instruction.machine->result;
            std::vector<InstructionOperands> operands;
            int wrong = 0;
            for (const Line& line : lines) {
                operands.push_back(line.operands);
                const std::uint64_t d = evaluate_instruction(instruction, line.operands);
                bool right = agrees(result, d, line.d);
                for (const std::string& alt : line.alt) right = right || agrees(result, d, alt);
                wrong += right ? 0 : 1;
                ++count;
            }
            CAPTURE(name);
            CHECK(wrong == 0);
            if (!has_instruction_grid(instruction)) continue;
            // Every test vector has a row of a and a column of b. Multiplies the rows of all test vectors by the
            // columns of all test vectors. A panel of the vector code then contains ordinary and special numbers.
            for (const Simd level : available_simd()) {
                if (level == Simd::scalar) continue;
                const auto grid = instruction_grid(level, instruction, operands, operands);
                for (std::size_t i = 0; i < operands.size(); ++i) {
                    for (std::size_t j = 0; j < operands.size(); ++j) {
                        InstructionOperands pair = operands[i];
                        pair.b = operands[j].b;
                        pair.b_scale = operands[j].b_scale;
                        wrong += grid[i * operands.size() + j] == evaluate_instruction(instruction, pair) ? 0 : 1;
                    }
                }
                CAPTURE(simd_name(level));
                CHECK(wrong == 0);
            }
        }
        CHECK(count == total);
    }
}

namespace {

/// Results of one machine that were captured on GPUs, and which operands they cover.
struct Captures {
    std::vector<std::pair<Instruction, Line>> lines;
    std::set<std::string> gpus;
    int live_terms = 0;  ///< all products from this index on are zero
    bool has_addend = false;
};

std::map<std::string, Captures> captures_of_machines(const std::filesystem::path& path) {
    std::map<std::string, Captures> machines;
    std::ifstream in(path);
    for (std::string text; std::getline(in, text);) {
        const json j = json::parse(text);
        const Instruction instruction =
            find_instruction(j["arch"].get<std::string>(), j["instr"].get<std::string>(), j["qual"].get<std::string>());
        Captures& captures = machines[std::string(instruction.machine->name)];
        const Line line{{codes(j, "a"), codes(j, "b"), code(j["c"]), {}, {}}, j["d"], {}};
        for (int i = 0; i < instruction.k; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const bool is_live = (line.operands.a[at] & instruction.a.magnitude_mask()) != 0 &&
                                 (line.operands.b[at] & instruction.b.magnitude_mask()) != 0;
            if (is_live) captures.live_terms = std::max(captures.live_terms, i + 1);
        }
        captures.has_addend = captures.has_addend || line.operands.c != 0;
        captures.gpus.insert(j["gpu"].get<std::string>());
        captures.lines.emplace_back(instruction, line);
    }
    return machines;
}

/// Returns whether every capture agrees with its machine if each step of the machine is changed to have `terms`
/// products.
bool agree_with_steps_of(const Captures& captures, int terms) {
    for (const auto& [instruction, line] : captures.lines) {
        Machine other = *instruction.machine;
        other.sum.terms = terms;
        Instruction changed = instruction;
        changed.machine = &other;
        if (!agrees(other.result, evaluate_instruction(changed, line.operands), line.d)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("the stated evidence of a machine claims exactly what its captured results show", "[emulation][machine]") {
    const auto path = test::shared_folder() / "vectors/tc_hw_captures.jsonl";
    if (!std::filesystem::exists(path)) SKIP_TEST("no " + path.string());
    for (const auto& [name, captures] : captures_of_machines(path)) {
        const Machine& machine = *find_machine(name);
        const std::string words = evidence_words(machine);
        CAPTURE(name, words);
        CHECK(machine.evidence == Evidence::hardware);
        CHECK(machine.captured_terms == captures.live_terms);
        for (const std::string& gpu : captures.gpus) CHECK(machine.measured.find(gpu) != std::string_view::npos);
        CHECK((machine.measured.find("(C = 0)") == std::string_view::npos) == captures.has_addend);
        const bool is_whole = captures.live_terms == machine.k;
        CHECK((words.find("cannot be distinguished") == std::string::npos) == is_whole);
        CHECK((measured_words(machine).find(" products)") == std::string::npos) == is_whole);
        if (machine.sum.model != SumModel::truncated) continue;
        const int terms = machine.sum.terms, live = captures.live_terms;
        CHECK(agree_with_steps_of(captures, terms));
        // The captures refute steps of half the length. If the captures have fewer nonzero products than a step, they
        // refute steps of half the number of nonzero products.
        CHECK_FALSE(agree_with_steps_of(captures, std::min(terms, live) / 2));
        if (is_whole && terms < machine.k) CHECK_FALSE(agree_with_steps_of(captures, machine.k));
        // If evidence_words() says that two lengths of a step cannot be distinguished, the captures agree with both
        // lengths.
        if (!is_whole) CHECK(agree_with_steps_of(captures, terms <= live ? machine.k : live));
    }
}

TEST_CASE("a machine with captured results names the GPUs and the number of products that were not zero",
          "[emulation][machine]") {
    for (const Machine* machine : all_machines) {
        CAPTURE(machine->name);
        const bool captured = machine->evidence == Evidence::hardware || machine->evidence == Evidence::emulated;
        CHECK(captured == !machine->measured.empty());
        CHECK((machine->captured_terms > 0) == !machine->measured.empty());
        CHECK(machine->captured_terms <= machine->k);
    }
    struct Case {
        const char *machine, *says;
    };
    for (const Case& c : {Case{"sm80.mma.fp16",
                               "A100, A2. Only the first 8 of 16 products are nonzero in them, so 2 chained steps of 8 "
                               "and 1 step of 16 cannot be distinguished"},
                          Case{"sm90.mma.tf32",
                               "H100, H200. Only the first 4 of 8 products are nonzero in them, so 1 step of 8 and 2 "
                               "chained steps of 4 cannot be distinguished"},
                          Case{"sm89.mma.bf16", "RTX 1000 Ada, L40S. Only the first 8 of 16"},
                          Case{"sm89.mma.tf32", "RTX 1000 Ada, L40S. Only the first 4 of 8"},
                          Case{"sm89.mma.fp16.acc16", "RTX 1000 Ada, L40S. Only the first 8 of 16"}}) {
        CAPTURE(c.machine);
        const std::string words = evidence_words(*find_machine(c.machine));
        CHECK(words.find(c.says) != std::string::npos);
    }
    CHECK(evidence_words(*find_machine("sm90.mma.fp16")) == "reproduces published captures of hardware: H100, H200");
    CHECK(measured_words(*find_machine("sm100.mma.tf32")) == "B200 (4 of 8 products)");
}

TEST_CASE("an instruction is found by its name", "[emulation][machine]") {
    struct Case {
        const char *arch, *instr, *qual, *machine;
        Format a, b;
        int k;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"sm_90", "wgmma", "m64n8k32.f32.e5m2.e4m3", "sm90.wgmma.fp8", e5m2, e4m3fn, 32, "wgmma has no c type"},
             {"sm_90", "wgmma", "m64n256k32.f16.e4m3.e4m3", "sm90.wgmma.fp8.acc16", e4m3fn, e4m3fn, 32, "any n"},
             {"sm_86", "mma", "m16n8k16.f32.bf16.bf16.f32", "sm80.mma.bf16", bf16, bf16, 16, "sm_86 is sm_80"},
             {"sm_80", "mma", "m16n8k8.f32.bf16.bf16.f32", "sm80.mma.bf16", bf16, bf16, 8, "the smaller shape"},
             {"sm_70", "mma", "m8n8k4.f32.f16.f16.f16", "sm70.mma.fp16.c16", fp16, fp16, 4, "C fp16, D fp32"},
             {"sm_70", "mma", "m8n8k4.f16.f16.f16.f32", "sm70.mma.fp16.d16", fp16, fp16, 4, "the reverse"},
             {"sm_90", "mma", "m16n8k8.f64.f64.f64.f64", "sm90.mma.fp64", fp64, fp64, 8, "between k16 and k4"},
             {"sm_120", "mma", "m16n8k32.f32.e4m3.e4m3.f32", "sm120.mma.fp8", e4m3fn, e4m3fn, 32, "the fp8 row"},
             {"sm_120", "mma", "m16n8k32.f32.e4m3.e2m1.f32", "sm120.mma.f8f6f4", e4m3fn, e2m1fn, 32, "fp8 and fp4"},
             {"sm_100", "tcgen05.mxf4nvf4", "m128n8k64.block32.f32.e2m1.e2m1.ue8m0", "sm100.tcgen05.nvfp4.ue8m0",
              e2m1fn, e2m1fn, 64, "by scale type"},
             {"CDNA3", "mfma", "f32_16x16x32_bf8_fp8", "cdna3.mfma.fp8", e5m2fnuz, e4m3fnuz, 32, "AMD's fp8"},
             {"CDNA3", "mfma", "f32_4x4x4_16b_f16", "cdna3.mfma.fp16", fp16, fp16, 4, "blocks change no bit"},
             {"CDNA2", "mfma", "f32_16x16x16bf16_1k", "cdna2.mfma.bf16_1k", bf16, bf16, 16, "two bf16 forms"},
             {"CDNA1", "mfma", "f32_32x32x1f32", "cdna.mfma.fp32", fp32, fp32, 1, "one product"}}) {
        CAPTURE(c.arch, c.qual, c.why);
        const Instruction instruction = find_instruction(c.arch, c.instr, c.qual);
        CHECK(instruction.machine->name == c.machine);
        CHECK(instruction.a == c.a);
        CHECK(instruction.b == c.b);
        CHECK(instruction.k == c.k);
    }
}

TEST_CASE("an unknown instruction is refused, and the error suggests the nearest one", "[emulation][machine]") {
    struct Case {
        const char *arch, *instr, *qual, *says;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"sm_91", "wgmma", "m64n8k32.f32.e4m3.e4m3", "sm_90"},
             {"sm_90", "wgma", "m64n8k32.f32.e4m3.e4m3", "did you mean 'wgmma'"},
             {"sm_90", "wgmma", "m64n8k32.f32.e4m3.e4m4", "did you mean 'm64n8k32.f32.e4m3.e4m3'"},
             {"sm_90", "wgmma", "m64n8k64.f32.e4m3.e4m3", "did you mean 'm64n8k32.f32.e4m3.e4m3'"},
             {"sm_90", "wgmma", "m64n8k32.f32.e4m3.e4m3.f32", "m64n8k32.f32.e4m3.e4m3"},
             {"sm_80", "mma", "m16n8k16.f32.f16.f16.f16", "m16n8k16.f32.f16.f16.f32"},
             {"sm_120", "mma.block_scale", "m16n8k64.block32.f32.e2m1.e2m1.f32.ue4m3", "m16n8k64.block"},
             {"CDNA3", "mfma", "f32_16x16x16f15", "f32_16x16x16f16"},
             {"CDNA3", "mfma", "", "f32_16x16x"},
             {"", "", "", "sm_70"}}) {
        CAPTURE(c.arch, c.instr, c.qual);
        try {
            find_instruction(c.arch, c.instr, c.qual, "vectors.jsonl:7");
            FAIL("found");
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(error.parts().where == "vectors.jsonl:7");
            CHECK(error.parts().fix.find(c.says) != std::string::npos);
            CHECK(error.exit() == Exit::bad_input);
        }
    }
}

TEST_CASE("every matrix unit is found by the name of one of its instructions", "[emulation][machine]") {
    std::set<std::string_view> found;
    for (const Machine* machine : all_machines) {
        if (machine->instruction.empty() || is_cpu_unit(*machine)) continue;
        // Builds a valid qualifier for each type of operand that the machine reads.
        const std::string_view name = machine->name;
        const bool half = machine->result == fp16;
        const std::string d = machine->result == fp64 ? "f64" : half ? "f16" : "f32";
        const std::string c = machine->addend == fp64 ? "f64" : machine->addend == fp16 ? "f16" : "f32";
        static const std::map<std::string_view, Format> types{{"f16", fp16},   {"bf16", bf16},   {"tf32", tf32},
                                                              {"f64", fp64},   {"e4m3", e4m3fn}, {"e2m3", e2m3fn},
                                                              {"e2m1", e2m1fn}};
        const std::string arch{machine->arch.substr(0, machine->arch.find(' '))};
        for (const auto& [type, format] : types) {
            if (machine->instruction == "mfma" || !machine->operands.contains(format)) continue;
            std::string qual = "m16n8k" + std::to_string(machine->k);
            if (machine->has_scales()) qual += ".block" + std::to_string(machine->scale_block);
            qual += "." + d + "." + std::string(type) + "." + std::string(type);
            if (machine->instruction.starts_with("mma")) qual += "." + c;
            if (machine->has_scales()) qual += machine->scale == e4m3fn ? ".ue4m3" : ".ue8m0";
            CAPTURE(name, qual);
            found.insert(find_instruction(arch, machine->instruction, qual).machine->name);
        }
        if (machine->instruction == "mfma") {
            const std::string tail = name.ends_with("bf16_1k") ? "bf16_1k"
                                     : name.ends_with("bf16")  ? "bf16"
                                     : name.ends_with("fp16")  ? "f16"
                                     : name.ends_with("xf32")  ? "xf32"
                                     : name.ends_with("fp8")   ? "_fp8_fp8"
                                     : name.ends_with("fp64")  ? "f64"
                                                               : "f32";
            CAPTURE(name, tail);
            found.insert(
                find_instruction(arch, "mfma", d + "_16x16x" + std::to_string(machine->k) + tail).machine->name);
        }
        CAPTURE(name);
        CHECK(found.count(name) == 1);
    }
}

TEST_CASE("an instruction with too few operands or scales is refused", "[emulation][machine]") {
    const Instruction instruction = find_instruction("sm_100", "tcgen05.mxf4", "m128n8k64.block32.f32.e2m1.e2m1.ue8m0");
    CHECK(instruction.scale_count() == 2);
    InstructionOperands operands{.a = std::vector<std::uint64_t>(64), .b = std::vector<std::uint64_t>(64)};
    CHECK_THROWS_AS(evaluate_instruction(instruction, operands), Error);
    operands.a_scale = operands.b_scale = {127, 127};
    CHECK(evaluate_instruction(instruction, operands) == 0);
    operands.a[3] = 2;  // 1 times 1.5 times 2^3 times 2^-1
    operands.b[3] = 3;
    operands.a_scale[0] = 130;
    operands.b_scale[0] = 126;
    CHECK(evaluate_instruction(instruction, operands) == 0x40c00000);
    operands.b.pop_back();
    CHECK_THROWS_AS(evaluate_instruction(instruction, operands), Error);
}

TEST_CASE("the sign of a ue4m3 scale is ignored", "[emulation][machine]") {
    const Instruction instruction =
        find_instruction("sm_100", "tcgen05.mxf4nvf4", "m128n8k64.block16.f32.e2m1.e2m1.ue4m3");
    InstructionOperands operands{.a = std::vector<std::uint64_t>(64, 2),
                                 .b = std::vector<std::uint64_t>(64, 2),
                                 .a_scale = {0xb8, 0x38, 0x38, 0x38},
                                 .b_scale = {0x38, 0x38, 0x38, 0x38}};
    CHECK(evaluate_instruction(instruction, operands) == 0x42800000);
    operands.a_scale[0] = 0xff;
    CHECK(evaluate_instruction(instruction, operands) == 0x7fffffff);
}

TEST_CASE("a FormatSet refuses a format that it cannot hold", "[emulation][machine]") {
    constexpr Format e3m4{.bits = 8, .precision = 5, .exponent_bias = 3};
    CHECK_THROWS_AS(FormatSet({fp16, e3m4}), std::invalid_argument);
    CHECK_FALSE(FormatSet::of_values().contains(e3m4));
    for (const Format& format : FormatSet::known) {
        CHECK(FormatSet({format}).contains(format));
        CHECK(FormatSet::of_values().contains(format) == !(format == fp64));
    }
}

TEST_CASE("every machine describes its model, its steps and its evidence", "[emulation][machine]") {
    std::set<std::string_view> models;
    for (const Machine* machine : all_machines) {
        CAPTURE(machine->name);
        models.insert(to_string(machine->sum.model));
        CHECK(describe(machine->sum.model).words.size() > 20);
        CHECK(describe(machine->sum.model).formula.size() > 10);
        CHECK(evidence_words(*machine).size() > 20);
        CHECK_FALSE(step_words(*machine).empty());
        CHECK(disputed_points(*machine).empty() ==
              (machine->sum.model == SumModel::fma_chain || machine->sum.model == SumModel::flushed_pairs ||
               machine->instruction.empty() || is_cpu_unit(*machine) || machine->arch == "sm_90"));
        if (machine->evidence == Evidence::hardware) {
            CHECK_FALSE(machine->measured.empty());
        }
    }
    CHECK(models.size() == all_sum_models().size());
    CHECK(step_words(*find_machine("sm80.mma.fp16")) == "2 chained steps of 8");
    CHECK(step_words(*find_machine("sm90.wgmma.fp8")) == "1 step of 32");
    CHECK(step_words(*find_machine("sm100.tcgen05.nvfp4")) == "1 step of 4 groups of 16");
}

}  // namespace instruction_test
