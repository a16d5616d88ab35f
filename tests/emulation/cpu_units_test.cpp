// SPDX-License-Identifier: Apache-2.0
// Tests the models of the multiply-and-add instructions of CPUs. The models must give known results and reproduce
// results that were recorded on CPUs. The recorded results must refute wrong models.
#include "core/error.hpp"
#include "core/profile_table.hpp"
#include "core/text/json.hpp"
#include "emulation/cpu/matmul/machine/instruction_grid.hpp"
#include "emulation/evidence/operands/mutants.hpp"
#include "emulation/machine/instruction.hpp"
#include "emulation/machine/step.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/machine/words.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <map>

namespace cpu_units_test {

using namespace macheps;

namespace {

std::uint64_t pair_on(const char* arch, const char* instr, std::uint64_t a0, std::uint64_t a1, std::uint64_t b0,
                      std::uint64_t b1, std::uint64_t c) {
    return evaluate_instruction(find_instruction(arch, instr, "k2.f32.bf16.bf16.f32"),
                                {.a = {a0, a1}, .b = {b0, b1}, .c = c});
}

std::filesystem::path captures() { return test::shared_folder() / "vectors/cpu_captures.jsonl"; }

struct Captured {
    Instruction instruction;
    InstructionOperands operands;
    std::uint64_t d = 0;

    bool holds(std::uint64_t result) const {
        const Machine& machine = *instruction.machine;
        const auto nan = [&](std::uint64_t x) { return matrix_unit::is_nan_code(machine.result, x); };
        return result == d || (!machine.fixes_nan() && nan(result) && nan(d));
    }
};

std::uint64_t hex_of(const Json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

std::vector<std::uint64_t> codes(const Json& list) {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < list.size(); ++i) all.push_back(hex_of(list[i]));
    return all;
}

/// Calls f(arch.instr, qual, line) for every line of the file of recorded results.
void for_each_line(const std::function<void(const std::string&, const std::string&, const Json&)>& f) {
    std::ifstream in(captures());
    for (std::string text; std::getline(in, text);) {
        const Json line = Json::parse(text);
        f(line["arch"].get<std::string>() + "." + line["instr"].get<std::string>(), line["qual"].get<std::string>(),
          line);
    }
}

/// Returns the recorded results of floating-point sums, grouped by `arch.instr`.
std::map<std::string, std::vector<Captured>> captured_lines() {
    std::map<std::string, std::vector<Captured>> lines;
    for_each_line([&](const std::string& unit, const std::string& qual, const Json& line) {
        if (!line.contains("b") || qual.find(".s32.") != std::string::npos) return;
        const std::size_t dot = unit.find('.');
        lines[unit].push_back({find_instruction(unit.substr(0, dot), unit.substr(dot + 1), qual),
                               {.a = codes(line["a"]), .b = codes(line["b"]), .c = hex_of(line["c"])},
                               hex_of(line["d"])});
    });
    return lines;
}

/// Returns the number of recorded results that the machine does not reproduce after `change` to its rule.
int refuting(const std::vector<Captured>& lines, const std::function<void(SumRule&)>& change) {
    int count = 0;
    for (const Captured& line : lines) {
        Machine wrong = *line.instruction.machine;
        change(wrong.sum);
        Captured changed = line;
        changed.instruction.machine = &wrong;
        count += changed.holds(evaluate_instruction(changed.instruction, line.operands)) ? 0 : 1;
    }
    return count;
}

}  // namespace

TEST_CASE("sums of two bf16 products and an addend differ between x86, Arm and POWER10 in the documented cases",
          "[emulation][cpu_units]") {
    struct Case {
        std::uint64_t a0, a1, b0, b1, c, x86, arm, power10;
        const char* why;
    };
    for (const Case& t : std::initializer_list<Case>{
             {0x3f80, 0x0000, 0x3f80, 0x0000, 0x4b800000, 0x4b800000, 0x4b800001, 0x4b800000, "2^24 + 1"},
             {0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x4b800000, 0x4b800000, 0x4b800001, 0x4b800001, "2^24 + 1 + 1"},
             {0xcb80, 0x3f80, 0x3f80, 0x3f80, 0x4b800000, 0x00000000, 0x3f800000, 0x3f800000, "odd first"},
             {0x2180, 0x0000, 0x3f80, 0x0000, 0x3f800000, 0x3f800000, 0x3f800001, 0x3f800000, "sticky"},
             {0x7f7f, 0xff7f, 0x7f7f, 0x7f7f, 0x00000000, 0xff800000, 0x7fc00000, 0x00000000, "overflow inside"},
             {0x0000, 0x0000, 0x0000, 0x0000, 0x00000001, 0x00000000, 0x00000000, 0x00000001, "subnormal addend"},
             {0x0040, 0x0000, 0x7180, 0x0000, 0x00000000, 0x00000000, 0x00000000, 0x32000000, "subnormal operand"},
             {0x0080, 0x0000, 0xb280, 0x0000, 0x00800000, 0x00800000, 0x00800000, 0x00800000, "flushed after"},
             {0x0080, 0x0000, 0xb300, 0x0000, 0x00800000, 0x00800000, 0x00800000, 0x00800000, "a tie"},
             {0x00c0, 0x0000, 0xb300, 0x0000, 0x00800000, 0x00000000, 0x00800000, 0x00800000, "unbounded exponent"},
             {0x7f80, 0x0000, 0x0000, 0x0000, 0x00000000, 0xffc00000, 0x7fc00000, 0x7fc00000, "Inf * 0"},
             {0x7fc1, 0xffc3, 0x3f80, 0x3f80, 0x7fc00005, 0x7fc10000, 0x7fc00000, 0x7fc10000, "NaN priorities"},
             {0x8000, 0x8000, 0x3f80, 0x3f80, 0x80000000, 0x80000000, 0x80000000, 0x80000000, "-0 everywhere"},
             {0x3f80, 0xbf80, 0x3f80, 0x3f80, 0x80000000, 0x00000000, 0x00000000, 0x00000000, "1 - 1 - 0"}}) {
        CAPTURE(t.why);
        CHECK(pair_on("x86", "vdpbf16ps", t.a0, t.a1, t.b0, t.b1, t.c) == t.x86);
        const std::uint64_t arm = pair_on("arm", "bfdot", t.a0, t.a1, t.b0, t.b1, t.c);
        CHECK(arm == t.arm);
        const std::uint64_t power = pair_on("power10", "xvbf16ger2pp", t.a0, t.a1, t.b0, t.b1, t.c);
        const bool any_nan = (t.power10 & 0x7fffffff) > 0x7f800000;
        CHECK((any_nan ? (power & 0x7fffffff) > 0x7f800000 : power == t.power10));
    }
}

TEST_CASE("AMX adds C to the sum of the products, and AVX-512 adds each product to C, where small products are lost",
          "[emulation][cpu_units]") {
    const InstructionOperands ones{
        .a = {0x3f80, 0x3f80, 0x3f80, 0x3f80}, .b = {0x3f80, 0x3f80, 0x3f80, 0x3f80}, .c = 0x4b800000};
    CHECK(evaluate_instruction(find_instruction("x86", "tdpbf16ps", "k4.f32.bf16.bf16.f32"), ones) == 0x4b800002);
    std::uint64_t c = ones.c;
    for (int i = 0; i < 2; ++i) c = pair_on("x86", "vdpbf16ps", 0x3f80, 0x3f80, 0x3f80, 0x3f80, c);
    CHECK(c == 0x4b800000);
    // For fp8, an instruction adds four products.
    const Instruction fp8 = find_instruction("x86", "tdphf8ps", "k4.f32.e4m3.e4m3.f32");
    CHECK(evaluate_instruction(fp8, {.a = {0x38, 0x38, 0x38, 0x38}, .b = {0x38, 0x38, 0x38, 0x38}, .c = 0}) ==
          0x40800000);
}

TEST_CASE("every recorded sum of a CPU's unit is reproduced on every engine", "[emulation][cpu_units]") {
    if (!std::filesystem::exists(captures()))
        SKIP_TEST("no cpu_captures.jsonl in ../shared/vectors, nor in MACHEPS_SHARED");
    std::size_t total = 0;
    for (const auto& [unit, lines] : captured_lines()) {
        CAPTURE(unit);
        std::size_t wrong = 0;
        for (const Captured& line : lines) {
            wrong += line.holds(evaluate_instruction(line.instruction, line.operands)) ? 0 : 1;
            const std::vector<InstructionOperands> one{line.operands};
            for (const Simd level : available_simd()) {
                for (const std::uint64_t d : instruction_grid(level, line.instruction, one, one))
                    wrong += line.holds(d) ? 0 : 1;
            }
        }
        CHECK(wrong == 0);
        total += lines.size();
    }
    CHECK(total == 2496);
}

TEST_CASE("recorded results refute wrong models of a CPU's unit", "[emulation][cpu_units]") {
    if (!std::filesystem::exists(captures()))
        SKIP_TEST("no cpu_captures.jsonl in ../shared/vectors, nor in MACHEPS_SHARED");
    const auto lines = captured_lines();
    struct Case {
        const char* unit;
        const char* why;
        int refute;
        std::function<void(SumRule&)> change;
    };
    // NanRule::any makes all NaNs count as equal. It is used because these wrong models do not determine the code of a
    // NaN result.
    const auto one_rounding = [](SumRule& r) {
        r.model = SumModel::exact_step;
        r.nan = NanRule::any;
    };
    const auto x86_order = [](SumRule& r) {
        r.model = SumModel::fma_chain;
        r.order = ProductOrder::odd_first;
        r.rounding = Round::nearest_even;
        r.flush_results = ResultFlush::after_rounding;
    };
    const auto nearest = [](SumRule& r) { r.rounding = Round::nearest_even; };
    for (const Case& t : std::initializer_list<Case>{
             {"x86.vdpbf16ps", "even first", 64, [](SumRule& r) { r.order = ProductOrder::ascending; }},
             {"x86.vdpbf16ps", "operands not flushed", 10, [](SumRule& r) { r.flush_operands = false; }},
             {"x86.vdpbf16ps", "results not flushed", 9, [](SumRule& r) { r.flush_results = ResultFlush::no; }},
             {"x86.vdpbf16ps", "early flush", 7, [](SumRule& r) { r.flush_results = ResultFlush::before_rounding; }},
             {"x86.vdpbf16ps", "subnormal", 3, [](SumRule& r) { r.flush_results = ResultFlush::subnormal; }},
             {"x86.vdpbf16ps", "one rounding", 39, one_rounding},
             {"x86.vdpbf16ps", "Arm's", 134,
              [](SumRule& r) {
                  r.model = SumModel::odd_pairs;
                  r.rounding = Round::to_odd;
                  r.nan = NanRule::any;
              }},
             {"arm.bfdot", "nearest", 88, nearest},
             {"arm.bfdot", "x86", 123, x86_order},
             {"arm.bfmmla", "nearest", 112, nearest},
             {"arm.bfmmla", "x86", 152, x86_order},
             {"arm.fmopa", "one rounding", 11, one_rounding},
             {"power10.xvbf16ger2pp", "one rounding", 7, one_rounding},
             {"power10.xvf16ger2pp", "one rounding", 6, one_rounding}}) {
        CAPTURE(t.unit, t.why);
        CHECK(refuting(lines.at(t.unit), [](SumRule&) {}) == 0);
        CHECK(refuting(lines.at(t.unit), t.change) == t.refute);
    }
    // The recorded results also refute each wrong model in evidence::mutants().
    for (const auto& [unit, of_unit] : lines) {
        const Machine& machine = *of_unit.front().instruction.machine;
        // Some results were not recorded on hardware but on an emulator of the architecture. Their inputs do not test
        // every flush to zero, so they need not refute every wrong model.
        if (machine.evidence != Evidence::hardware) continue;
        for (const evidence::Mutant& mutant : evidence::mutants(machine.sum, machine.k)) {
            CAPTURE(unit, mutant.name);
            CHECK(refuting(of_unit, [&](SumRule& rule) { rule = mutant.rule; }) >= 2);
        }
    }
}

TEST_CASE("the conversion to bf16 flushes subnormal numbers to zero on x86 and keeps them on Arm",
          "[emulation][cpu_units]") {
    const auto code = [](const char* profile, std::uint32_t x, const Format& to, Round mode = Round::nearest_even) {
        return encode64(profile_named(profile), to, bit_cast<float>(x), mode);
    };
    CHECK(code("x86.vcvtneps2bf16", 0x007fffff, bf16) == 0x0000);
    CHECK(code("x86.vcvtneps2bf16", 0x807fffff, bf16) == 0x8000);
    CHECK(code("arm.bfcvtn", 0x007fffff, bf16) == 0x0080);
    CHECK(code("x86.vcvtneps2bf16", 0x7f800001, bf16) == 0x7fc0);
    CHECK(code("x86.vcvtneps2bf16", 0x7fbfffff, bf16) == 0x7fff);
    CHECK(code("x86.vcvtneps2bf16", 0x7f7fffff, bf16) == 0x7f80);
    CHECK(code("x86.vcvtps2ph", 0x00001000, fp16, Round::up) == 0x0001);
    CHECK(code("x86.vcvtps2ph", 0x47800000, fp16, Round::toward_zero) == 0x7bff);
    CHECK(code("x86.vcvtps2ph", 0xff802000, fp16) == 0xfe01);
    if (!std::filesystem::exists(captures())) return;
    // The results recorded on each CPU refute the profile of the other CPU.
    int kept = 0, flushed = 0, wrong = 0, lines = 0;
    for_each_line([&](const std::string& unit, const std::string&, const Json& line) {
        const bool is_x86 = unit == "x86.vcvtneps2bf16";
        if (!is_x86 && unit != "arm.bfcvtn") return;
        const auto x = static_cast<std::uint32_t>(codes(line["a"])[0]);
        const std::uint64_t d = hex_of(line["d"]), cut = code("x86.vcvtneps2bf16", x, bf16),
                            whole = code("arm.bfcvtn", x, bf16);
        ++lines;
        wrong += (is_x86 ? cut : whole) != d ? 1 : 0;
        (is_x86 ? kept : flushed) += (is_x86 ? whole : cut) != d ? 1 : 0;
    });
    CHECK(lines == 512);
    CHECK(wrong == 0);
    CHECK(kept == 12);
    CHECK(flushed == 11);
}

TEST_CASE("every CPU unit delivers a sum unchanged if the format of the result can represent it",
          "[emulation][cpu_units]") {
    int rules = 0;
    for (const Machine* machine : all_machines) {
        const SumRule& rule = machine->sum;
        if (rule.model != SumModel::fma_chain && rule.model != SumModel::odd_pairs &&
            rule.model != SumModel::pair_then_add && rule.model != SumModel::parted_chain)
            continue;
        if (rule.delivery == Delivery::fp64_nearest_even) continue;
        ++rules;
        const Format f = matrix_unit::delivered_format(rule.delivery);
        CAPTURE(machine->name);
        for (const std::uint64_t code :
             {f.max_finite_code(), f.max_finite_code() - 1, f.min_normal_code(), f.min_normal_code() + 1,
              encode64(f, 1.0, Round::nearest_even, Overflow::nonsaturate)}) {
            for (const std::uint64_t sign : {std::uint64_t{0}, f.sign_bit()}) {
                CHECK(matrix_unit::round_result(rule, decode64(f, code | sign)) == (code | sign));
            }
        }
        // Rounding to odd turns a number just above the largest finite value of the format (the next fp64 number) into
        // infinity.
        const double most = decode64(f, f.max_finite_code());
        if (rule.rounding == Round::to_odd)
            CHECK(matrix_unit::round_result(rule, std::nextafter(most, HUGE_VAL)) == f.inf_code());
    }
    CHECK(rules > 5);
}

TEST_CASE("an instruction of a CPU is found by its name", "[emulation][cpu_units]") {
    for (const Machine* machine : all_machines) {
        if (!is_cpu_unit(*machine)) continue;
        CAPTURE(machine->name);
        CHECK(evidence_words(*machine).size() > 20);
        const bool fp8 = machine->operands.contains(e5m2), half = machine->result == fp16;
        const std::string a = fp8                                ? "e5m2"
                              : machine->operands.contains(bf16) ? "bf16"
                                                                 : "f16",
                          d = half ? "f16" : "f32";
        std::string_view words = machine->instruction;
        while (!words.empty()) {
            const std::string instr(words.substr(0, words.find(' ')));
            words.remove_prefix(std::min(words.size(), instr.size() + 1));
            const std::string qual = fmt::format("k{}.{}.{}.{}.{}", machine->k, d, a, a, d);
            CAPTURE(instr, qual);
            CHECK(find_instruction(std::string(machine->arch), instr, qual).machine == machine);
        }
    }
    CHECK_THROWS_AS(find_instruction("x86", "tdpbf16ps", "k3.f32.bf16.bf16.f32"), Error);
    CHECK_THROWS_AS(find_instruction("x86", "vdpbf16ps", "k4.f32.bf16.bf16.f32"), Error);
}

}  // namespace cpu_units_test
