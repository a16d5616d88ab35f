// SPDX-License-Identifier: Apache-2.0
// Tests the rules that are claimed for the matrix products of a library. Only the claimed rule decides whether the
// verdict of a row is `equal` or `differs`.
#include "core/text/json.hpp"
#include "emulation/evidence/library/capture.hpp"
#include "emulation/evidence/library/claims.hpp"
#include "emulation/evidence/library/probes.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "tests/gpu/known_library.hpp"
#include "tests/test.hpp"

#include <set>

namespace library_claims_test {

using namespace macheps;
using namespace macheps::evidence;

namespace {

/// Runs the probe `name` on a fake library, and returns its rows.
std::vector<evidence::ProbeResult> rows_of(const Hidden& hidden, const std::string& name) {
    const auto fake = std::make_shared<FakeLibrary>(hidden);
    std::vector<evidence::ProbeResult> rows;
    bool is_known = false;
    for (const evidence::ProbeGroup& group : library_probe_groups([&] { return LoadedLibrary{fake, {}}; })) {
        if (std::find(group.instructions.begin(), group.instructions.end(), name) == group.instructions.end()) continue;
        is_known = true;
        group.run(name, 1, {}, [&](const evidence::ProbeResult& row) { rows.push_back(row); });
    }
    REQUIRE(is_known);
    return rows;
}

MatmulRule rule_of(const char* name) {
    const NamedMatmulRule* named = find_matmul_rule(name);
    return named != nullptr ? named->rule : MatmulRule{.machine = find_machine(name)};
}

}  // namespace

TEST_CASE("the verdict depends only on the claimed rule, even if the library agrees with another rule",
          "[gpu][library]") {
    struct Case {
        const char *problem, *claim, *other;
        bool has_roles;
        const char* why;
    };
    constexpr Case cases[] = {
        {"e4m3fn.e4m3fn.fp32.fast.tn.64x48x1008", "cublaslt.fp8.fast", "cublaslt.fp8.split", false,
         "promoted after all"},
        {"e4m3fn.e4m3fn.fp32.tn.64x48x1008", "cublaslt.fp8.split", "cublaslt.fp8.fast", false, "not promoted"},
        {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.tensor", "cublaslt.fp8.split", "torch.rowwise.sm90", false, "two factors"},
        {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.outer", "cublaslt.fp8.outer", "torch.rowwise.sm90", true,
         "the other scale first"},
        {"e4m3fn.e4m3fn.fp32.fast.tn.64x48x1008.outer", "cublaslt.fp8.outer.fast", "torch.rowwise.sm90.fast", true,
         "the other scale first"},
        {"e4m3fn.e4m3fn.fp32.tn.256x256x1024.blocks1x1", "cublaslt.fp8.1d1d", "deepgemm.sm90.1d1d", true,
         "the scales as one factor"},
        {"e4m3fn.e4m3fn.fp32.tn.256x256x1024.blocks1x2", "cublaslt.fp8.1d2d", "cutlass.fp8.blockwise", false,
         "one scale after the other"},
        {"bf16.bf16.fp32.tn.128x64x100", "", "sm80.mma.bf16", false, "a k that 8 does not divide"},
        {"tf32.tf32.fp32.tn.128x64x100", "", "fp32.chain", false, "a k that 8 does not divide"},
        {"bf16.bf16.fp32.tn.128x64x1000", "sm90.wgmma.bf16", "sm80.mma.bf16", false, "the instruction of another GPU"},
        {"fp16.fp16.fp16.tn.128x64x1000", "sm90.wgmma.fp16", "sm80.mma.fp16", false, "the instruction of another GPU"},
        {"fp16.fp16.fp16.acc16.tn.128x64x1000", "sm90.wgmma.fp16.acc16", "fp16.chain", false,
         "a rounding for every product"},
        {"tf32.tf32.fp32.tn.128x64x1000", "sm90.wgmma.tf32", "fp32.chain", false, "no tensor core"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.problem, c.why);
        const std::string name = std::string("cublasLt.") + c.problem, claim = c.claim;
        for (const bool is_row_major : {false, true}) {
            if (is_row_major && !c.has_roles) continue;
            const std::string model = claim + (c.has_roles && !is_row_major ? ", operands exchanged" : "");
            Hidden hidden{.is_exchanged = c.has_roles && !is_row_major, .is_row_major = is_row_major};
            if (!claim.empty()) {
                hidden.rule = rule_of(c.claim);
                const std::vector<evidence::ProbeResult> rows = rows_of(hidden, name);
                REQUIRE(rows.size() == 2);
                for (const evidence::ProbeResult& row : rows) {
                    CAPTURE(row.note);
                    CHECK(row.verdict == evidence::Verdict::equal);
                    CHECK(row.model == model);
                }
            }
            hidden.rule = rule_of(c.other);
            const evidence::ProbeResult row = rows_of(hidden, name).front();
            CAPTURE(row.note);
            CHECK(row.verdict == (claim.empty() ? evidence::Verdict::recorded : evidence::Verdict::differs));
            if (claim.empty()) continue;
            CHECK(row.model == model);
            CHECK(row.mismatches > 0);
            CHECK(row.note.starts_with("not " + model + ": cancelling ["));
            CHECK(row.note.find(std::string("equal to ")) != std::string::npos);
        }
    }
    // No rule is claimed for sm_100. No rule is claimed for products in slices on any architecture, because the library
    // chooses the lengths of the slices.
    Hidden hidden{.rule = rule_of("cublaslt.fp8.split"), .architecture = "sm_100"};
    const std::string fp8 = "cublasLt.e4m3fn.e4m3fn.fp32.tn.64x48x1008";
    CHECK(rows_of(hidden, fp8).front().verdict == evidence::Verdict::recorded);
    CHECK(rows_of(hidden, fp8).front().note.starts_with("nothing is claimed; equal to cublaslt.fp8.split"));
    hidden.architecture = "sm_90";
    hidden.says.slices = 2;
    CHECK(rows_of(hidden, fp8).front().verdict == evidence::Verdict::recorded);
    // The library follows the claimed rule only sometimes.
    const Hidden restless{.rule = rule_of("sm90.wgmma.bf16"), .is_restless = true};
    const evidence::ProbeResult varies = rows_of(restless, "cublasLt.bf16.bf16.fp32.tn.128x64x1000").front();
    CHECK(varies.verdict == evidence::Verdict::differs);
    CHECK(varies.note.find("results vary from run to run; ") == 0);
    // Every claim names a rule or a machine that exists.
    std::set<std::string> names;
    for (const LibraryProblem& p : library_problems()) {
        const std::string claim = claimed_rule(p, {}, {.architecture = "sm_90", .is_row_major = true});
        names.insert(claim.substr(0, claim.find(',')));
    }
    for (const std::string& name : names) {
        CAPTURE(name);
        CHECK((name.empty() || find_matmul_rule(name) != nullptr || find_machine(name) != nullptr));
    }
    CHECK(names.size() == 11);
}

TEST_CASE(
    "a library that does not sum in the order of the claimed rule gets the verdict 'differs', live and from a file",
    "[gpu][library]") {
    const std::string problem = "cublasLt.e4m3fn.e4m3fn.fp32.tn.128x128x256";
    for (const char* name : {"cublaslt.fp8.split", "cublaslt.fp8.fast"}) {
        CAPTURE(name);
        const bool agrees = std::string(name) == "cublaslt.fp8.split";
        const Hidden hidden{.rule = rule_of(name)};
        const evidence::Verdict verdict = agrees ? evidence::Verdict::equal : evidence::Verdict::differs;
        const evidence::ProbeResult live = rows_of(hidden, "reveal:" + problem).front();
        CAPTURE(live.note);
        CHECK(live.verdict == verdict);
        CHECK(live.model == "cublaslt.fp8.split");
        // The probe captures the order of summation without judging it. The capture is then written as text, read again
        // and judged.
        evidence::ProbeOptions options{.only = {}, .only_captures = true};
        std::vector<evidence::Capture> kept;
        options.keep = [&](const evidence::Capture& capture) { kept.push_back(capture); };
        for (const evidence::ProbeGroup& group : library_probe_groups([&] {
                 return LoadedLibrary{std::make_shared<FakeLibrary>(hidden), {}};
             })) {
            if (group.instructions.front().starts_with("reveal:"))
                group.run("reveal:" + problem, 1, options,
                          [](const evidence::ProbeResult& row) { CHECK(row.verdict == evidence::Verdict::recorded); });
        }
        REQUIRE(kept.size() == 1);
        Json header = Json::parse(kept.front().header);
        for (const char* key : {"gpu", "driver", "toolkit", "date"}) header[key] = "fake";
        const RecordedTree recorded = parse_tree_capture(evidence::json_lines_text(header, kept.front().lines), "file");
        CHECK(recorded.problem == problem);
        CHECK(recorded.tree.terms == 256);
        int rows = 0;
        replay_tree(recorded, [&](const evidence::ProbeResult& row) {
            CAPTURE(row.note);
            ++rows;
            CHECK(row.kind == "replay");
            CHECK(row.instruction == "reveal:" + problem);
            CHECK(row.verdict == verdict);
            CHECK(row.model == "cublaslt.fp8.split");
            if (!agrees) CHECK(row.note.starts_with("not the order of cublaslt.fp8.split; 256 terms"));
        });
        CHECK(rows == 1);
    }
}

}  // namespace library_claims_test
