// SPDX-License-Identifier: Apache-2.0
// Tests that captured outputs of libraries can be written, read and judged without a GPU. The captures of cuBLASLt on
// an H100 are included.
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "emulation/evidence/library/capture.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/trace.hpp"
#include "tests/gpu/known_library.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace library_captures_test {

using namespace macheps;
using namespace macheps::evidence;

TEST_CASE("the rule of a library is found from outputs that were recorded in a file", "[gpu][library]") {
    CpuBackend host(1);
    for (const Format& out : {fp32, bf16}) {
        for (const NamedMatmulRule& named : all_matmul_rules()) {
            if (!named.versions.empty()) continue;                           // rules of CPU libraries have versions
            if (out == bf16 && named.name != "cublaslt.fp8.fast") continue;  // one 16-bit output format is enough
            const auto [p, hidden] = served_by(named, out);
            FakeLibrary library(hidden);
            const CapturedProblem captured = capture_library(library, p, 1, {.outputs = 128});
            CAPTURE(named.name, p.name());
            REQUIRE(captured.algorithms == 1);
            Json header = Json::parse(captured.capture.header);
            for (const char* key : {"gpu", "driver", "toolkit", "date"}) header[key] = "fake";
            const std::string text = evidence::json_lines_text(header, captured.capture.lines);
            CHECK(text.size() < 60'000);
            const RecordedLibrary recorded = parse_library_capture(text, "file");
            CHECK(recorded.problem.name() == p.name());
            CHECK(recorded.problem.accumulator == p.accumulator);
            REQUIRE(recorded.algorithms.size() == 1);
            CHECK(recorded.algorithms.front().algorithm == hidden.says);
            CHECK_FALSE(recorded.algorithms.front().varies);
            const std::unique_ptr<LibraryPlan> plan = recorded_plan(recorded, 0);
            const LibraryFinding found = match_library(*plan, recorded.problem, host, {.seed = recorded.seed});
            CAPTURE(found.closest, found.difference);
            CHECK(is_among(found.equal, named.name));
            CHECK(is_among(found.equal_with_specials, named.name));
            CHECK(found.trials >= 128 * std::size(library_classes));

            std::string changed = text;
            const std::size_t last = changed.rfind('"') - 1;
            changed[last] = changed[last] == '0' ? '1' : '0';
            CHECK_THROWS_AS(parse_library_capture(changed, "file"), Error);
        }
    }
}

TEST_CASE("cuBLASLt on an H100 follows the rules that are named after its kernels", "[gpu][library]") {
    const std::filesystem::path folder =
        std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces/h100-80gb-hbm3/library";
    struct Case {
        const char *problem, *rule;
    };
    // Other problems take longer. The slow test below judges all of them.
    constexpr Case cases[] = {{"e4m3fn.e4m3fn.bf16.fast.tn.64x48x1008", "cublaslt.fp8.fast"},
                              {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.tensor", "cublaslt.fp8.split"},
                              {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.outer", "cublaslt.fp8.outer, operands exchanged"},
                              {"e4m3fn.e4m3fn.fp32.tn.256x256x1024.blocks1x1", "cublaslt.fp8.1d1d, operands exchanged"},
                              {"bf16.bf16.bf16.nt.128x64x1000", "sm90.wgmma.bf16"},
                              {"fp16.fp16.fp32.tn.128x64x1000", "sm90.wgmma.fp16"}};
    for (const Case& c : cases) {
        CAPTURE(c.problem);
        const std::filesystem::path file =
            folder / fmt::format("cublasLt.{}.jsonl{}", c.problem, evidence::has_zstd() ? ".zst" : "");
        if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
        const RecordedLibrary recorded = parse_library_capture(evidence::read_json_lines(file), file.string());
        CHECK(recorded.gpu == "NVIDIA H100 80GB HBM3");
        CHECK(recorded.library == "cuBLASLt 13.1.0");
        std::vector<std::string> models;
        replay_library(recorded, [&](const evidence::ProbeResult& row) {
            CAPTURE(row.operands, row.model, row.note);
            CHECK(row.kind == "replay");
            CHECK(row.verdict == evidence::Verdict::equal);
            models.push_back(row.model);
        });
        CHECK(std::count(models.begin(), models.end(), c.rule) >= 2);
    }
}

TEST_CASE("no capture of cuBLASLt on an H100 contradicts the rule claimed for it, and docs/gpu.md has the right counts",
          "[gpu][library][slow]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    int trees = 0, algorithms = 0, claimed = 0, reproduced = 0, fp8 = 0, fp8_reproduced = 0;
    for (const auto& file :
         evidence::trace_files(std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces/h100-80gb-hbm3/library")) {
        const std::string text = evidence::read_json_lines(file);
        const auto sink = [&](const evidence::ProbeResult& row) {
            CAPTURE(row.instruction, row.note);
            CHECK(row.verdict != evidence::Verdict::differs);
            if (row.instruction.starts_with("reveal:")) return;
            const bool is_special = row.operands == special_class;
            algorithms += !is_special;
            claimed += !is_special && row.verdict == evidence::Verdict::equal;
            // Each algorithm has one row for finite and one for special operands. The algorithm agrees with the rule in
            // every bit if the row for special operands has no mismatch either.
            reproduced += is_special && row.mismatches == 0;
            const bool is_fp8 =
                row.instruction.starts_with("cublasLt.e4m3fn.") || row.instruction.starts_with("cublasLt.e5m2.");
            fp8 += is_fp8 && !is_special;
            fp8_reproduced += is_fp8 && is_special && row.mismatches == 0;
        };
        if (!is_library_capture(evidence::parse_json_line(text.substr(0, text.find('\n')), file.string()))) {
            replay_tree(parse_tree_capture(text, file.string()), sink);
            ++trees;
            continue;
        }
        replay_library(parse_library_capture(text, file.string()), sink);
    }
    std::printf("%d algorithms, %d claimed, %d reproduced; fp8 %d of %d; %d trees\n", algorithms, claimed, reproduced,
                fp8_reproduced, fp8, trees);
    CHECK(trees == 15);
    CHECK(algorithms == 581);
    CHECK(fp8 == 144);
    CHECK(fp8_reproduced == 144);
    const std::string page = read_file(std::filesystem::path(MACHEPS_SOURCE_DIR) / "docs/gpu.md");
    for (const std::string& words :
         {fmt::format("| {} of {} algorithms of 202 problems agree with a rule in every bit", reproduced, algorithms),
          fmt::format("among them all {} fp8 algorithms. Rules are claimed for {} algorithms |", fp8, claimed),
          fmt::format("no rule reproduces {} algorithms of cuBLASLt", algorithms - reproduced)}) {
        CAPTURE(words);
        CHECK(page.find(words) != std::string::npos);
    }
}

TEST_CASE("a capture reports results that vary from run to run, and the reason for a declined problem",
          "[gpu][library]") {
    const LibraryProblem p{.m = 32, .n = 24, .k = 720, .a = bf16, .b = bf16, .out = fp32};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16")}, .is_restless = true};
    FakeLibrary restless(hidden);
    const Json header = Json::parse(capture_library(restless, p, 1).capture.header);
    CHECK(header["algorithms"][0]["varies"] == true);
    CHECK(header["algorithms"][1]["as"] == 0);  // half of the workspace gives the same algorithm
    LibraryProblem odd = p;
    odd.m = 65;
    CHECK(capture_library(restless, odd, 1).declined == "an odd shape (15)");
}

}  // namespace library_captures_test
