// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/machine/eval.hpp"

#include "core/error.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace machine_eval_test {

using namespace macheps;
using namespace macheps::study;

namespace {

/// Returns a line that records one result of an instruction that adds eight products. The sum of the products and c is
/// 1 * 1 + 0, and `d` is the recorded result. `more` is appended to the members of the JSON object.
std::string line_with(const std::string& d, const std::string& more = "") {
    std::string one = R"(["3c00")";
    for (int i = 1; i < 8; ++i) one += R"(,"0000")";
    one += "]";
    return fmt::format(R"({{"arch":"sm_80","instr":"mma","qual":"m16n8k8.f32.f16.f16.f32","a":{},"b":{},)"
                       R"("c":"00000000","d":"{}"{}}})",
                       one, one, d, more);
}

MachineEvaluation evaluate(const std::string& text, std::size_t most = 10) {
    std::istringstream in(text);
    return evaluate_machine_lines(in, "t", instruction_engines(), most);
}

}  // namespace

TEST_CASE("recorded results are compared with every engine of this CPU", "[experiments][machine_eval]") {
    const std::size_t engines = instruction_engines().size();
    const std::string right = line_with("3f800000"), wrong = line_with("3f800001"),
                      disputed = line_with("40000000", R"(,"cls":"normal","alt":{"other":"3f800000"})");
    const MachineEvaluation found = evaluate("{\"macheps_trace\":1}\n\n" + right + "\n" + wrong + "\n" + disputed);
    CHECK(found.lines == 3);
    CHECK(found.wrong == 1);
    REQUIRE(found.counts.size() == 1);
    CHECK(found.counts[0].machine == "sm80.mma.fp16");
    CHECK(found.counts[0].agree == 2);
    CHECK(found.counts[0].alternative == 1);
    CHECK(found.counts[0].ran == std::vector<std::size_t>(engines, 3));
    CHECK(found.counts[0].agreed == std::vector<std::size_t>(engines, 2));
    // The line with the wrong result is the second of the three lines with results, and line 4 of the text.
    REQUIRE(found.mismatches.size() == engines);
    CHECK(found.mismatches[0].number == 4);
    CHECK(found.mismatches[0].engine == "scalar");
    CHECK(found.mismatches[0].result == 0x3f800000);
    REQUIRE(found.disputed.size() == 1);
    CHECK(found.disputed[0].took == "other");
    CHECK(found.disputed[0].kind == "normal");
    CHECK(evaluate(wrong + "\n" + wrong, 1).mismatches.size() == 1);
}

TEST_CASE("the error about a recorded line that cannot be read names file and line", "[experiments][machine_eval]") {
    try {
        (void)evaluate(line_with("3f800000") + "\nno JSON\n");
        FAIL("a line that is not JSON was read");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("t:2") != std::string::npos);
    }
    CHECK(evaluate("").lines == 0);
}

TEST_CASE("recorded CPU sums agree with machines, recorded conversions with codec profiles; integer units are refused",
          "[experiments][machine_eval]") {
    const auto path = test::shared_folder() / "vectors/cpu_captures.jsonl";
    if (!std::filesystem::exists(path)) SKIP_TEST("no cpu_captures.jsonl in ../shared/vectors, nor in MACHEPS_SHARED");
    std::ifstream in(path);
    const MachineEvaluation found = evaluate_machine_lines(in, "captures", instruction_engines(), 3);
    std::size_t sums = 0, conversions = 0, refused = 0;
    for (const InstructionCount& count : found.counts) {
        INFO(count.instruction);
        CHECK(count.agree == count.lines);
        (count.machine.starts_with("codec ") ? conversions : sums) += count.lines;
    }
    for (const RefusedLines& each : found.refused) {
        CHECK(each.reason == "an integer unit, which is not emulated");
        refused += each.lines;
    }
    CHECK(found.wrong == 0);
    CHECK(sums == 2496);
    CHECK(conversions == 768);
    CHECK(refused == 512);
    CHECK(found.refused.size() == 6);
}

TEST_CASE("a wrong conversion is a mismatch, and an unknown form of conversion is an error",
          "[experiments][machine_eval]") {
    const std::string right =
                          R"({"arch":"x86","instr":"vcvtneps2bf16","qual":"k1.bf16.f32","a":["3f800000"],"d":"3f80"})",
                      wrong =
                          R"({"arch":"x86","instr":"vcvtneps2bf16","qual":"k1.bf16.f32","a":["3f800000"],"d":"3f81"})";
    const MachineEvaluation found = evaluate(right + "\n" + wrong);
    CHECK(found.lines == 2);
    CHECK(found.wrong == 1);
    REQUIRE(found.conversion_mismatches.size() == 1);
    CHECK(found.conversion_mismatches[0].number == 2);
    CHECK(found.conversion_mismatches[0].line.result == 0x3f80);
    CHECK_THROWS_AS(
        evaluate(R"({"arch":"x86","instr":"vcvtps2ph","qual":"k1.f16.f32.away","a":["3f800000"],"d":"3c00"})"), Error);
}

}  // namespace machine_eval_test
