// SPDX-License-Identifier: Apache-2.0
// Tests the library probes on fake libraries whose rule is known.
#include "emulation/evidence/library/probes.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/evidence/library/layout.hpp"
#include "emulation/evidence/library/match.hpp"
#include "emulation/evidence/library/reveal.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/gpu/known_library.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <set>

namespace library_test {

using namespace macheps;
using namespace macheps::evidence;

namespace {

/// Checks that the probe finds each named rule in a fake library that follows this rule and has this output format.
void find_named_rules(const Format& out) {
    CpuBackend host(1);
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        if (!named.versions.empty()) continue;  // rules of CPU libraries have versions
        const auto [p, hidden] = served_by(named, out);
        const LibraryFinding found = finding_of(p, hidden);
        CAPTURE(named.name, p.name(), found.closest, found.difference);
        CHECK(is_among(found.equal, named.name));
        CHECK(is_among(found.equal_with_specials, named.name));
        CHECK(found.trials > 1000);
        // All other rules that were found must give the same results on new operands. The only exception is the order
        // in which scales are applied: outputs of 16 bits may hide it.
        FakePlan plan(p, hidden);
        const std::vector<std::int64_t> rows = spread(p.m, 12), columns = spread(p.n, 12);
        for (const std::string_view name : library_classes) {
            const LibraryOperands fresh = library_operands(p, name, 77);
            const std::vector<float> theirs = plan.run(fresh);
            std::vector<float> sample;
            for (const std::int64_t i : rows) {
                for (const std::int64_t j : columns) sample.push_back(theirs[static_cast<std::size_t>(i * p.n + j)]);
            }
            const LibrarySample cut = library_sample(p, fresh, rows, columns);
            for (const LibraryCandidate& candidate : found.equal) {
                if (out == bf16 && candidate.rule.scale_order != hidden.rule.scale_order) continue;
                CAPTURE(name, candidate.names.front(), to_string(candidate.rule));
                CHECK(candidate_results(host, candidate, cut) == sample);
            }
        }
    }
}

}  // namespace

TEST_CASE("the probe finds every named rule that a library follows", "[gpu][library]") { find_named_rules(fp32); }

TEST_CASE("for bf16 outputs, the probe finds every named rule that a library follows", "[gpu][library][slow]") {
    find_named_rules(bf16);
}

TEST_CASE("the probe distinguishes the machine that a library uses from similar machines", "[gpu][library]") {
    struct Case {
        Format format, accumulator, out;
        std::int64_t k;
        const char *machine, *not_machine, *why;
    };
    const auto [format, accumulator, out, k, machine, not_machine, why] =
        GENERATE(table<Format, Format, Format, std::int64_t, const char*, const char*, const char*>(
            {{bf16, fp32, fp32, 1000, "sm90.wgmma.bf16", "sm80.mma.bf16", "25 fraction bits, 16 terms a step"},
             {bf16, fp32, bf16, 1000, "sm90.wgmma.bf16", "fp32.chain", "recognised although the output has 8 bits"},
             {fp16, fp32, fp16, 129, "sm80.mma.fp16", "sm90.mma.fp16", "24 fraction bits, 8 terms a step"},
             {fp16, fp16, fp16, 1000, "sm90.wgmma.fp16.acc16", "fp16.chain", "sums in fp16"},
             {tf32, fp32, fp32, 1000, "sm90.mma.tf32", "fp32.chain", "8 terms a step"},
             {fp32, fp32, fp32, 1000, "fp32.chain", "fp32.pairwise", "an fma at a time"},
             {fp32, fp32, fp32, 1000, "sm90.mma.tf32", "fp32.chain", "tf32 although it is not allowed"},
             {e4m3fn, fp32, fp32, 1000, "sm90.wgmma.fp8", "sm90.mma.fp8", "13 fraction bits"},
             {e4m3fn, fp32, bf16, 1000, "sm100.tcgen05.fp8", "sm90.wgmma.fp8", "25 fraction bits"}}));
    const LibraryProblem p{.m = 33, .n = 40, .k = k, .a = format, .b = format, .out = out, .accumulator = accumulator};
    const LibraryFinding found = finding_of(p, {.rule = {.machine = find_machine(machine)}});
    CAPTURE(why, p.name(), found.closest, found.difference);
    CHECK(is_among(found.equal, machine));
    CHECK_FALSE(is_among(found.equal, not_machine));
}

TEST_CASE("a library that uses the smaller shape of an instruction is recognised", "[gpu][library]") {
    Machine small = *find_machine("sm90.mma.bf16");
    small.k = small.sum.terms = 8;
    const LibraryProblem p{.m = 32, .n = 40, .k = 256, .a = bf16, .b = bf16, .out = fp32};
    const LibraryFinding found = finding_of(p, {.rule = {.machine = &small}});
    CHECK(is_among(found.equal, "sm90.mma.bf16.k8"));
    CHECK_FALSE(is_among(found.equal, "sm90.mma.bf16"));
}

TEST_CASE("a library that truncates fp32 operands is distinguished from one that rounds them", "[gpu][library]") {
    const LibraryProblem p{.m = 32, .n = 40, .k = 256, .a = tf32, .b = tf32, .out = fp32, .whole_words = true};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.tf32")}};
    CHECK(is_among(finding_of(p, hidden).equal, "sm90.mma.tf32, low 13 bits cut off"));
    hidden.rounds_words = true;
    const LibraryFinding rounded = finding_of(p, hidden);
    REQUIRE(rounded.equal.size() == 1);
    CHECK(rounded.equal.front().conversion == Round::nearest_away);
}

TEST_CASE("the probe finds the boundaries of slices and how their sums are joined", "[gpu][library]") {
    LibraryProblem p{.m = 32, .n = 40, .k = 1000, .a = bf16, .b = bf16, .out = bf16};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16"), .slices = 3, .slice_granule = 32}};
    hidden.says.slices = 3;
    hidden.says.reduction = Reduction::compute_type;
    for (const SliceJoin join : {SliceJoin::workspace, SliceJoin::rounded_workspace, SliceJoin::serial}) {
        hidden.rule.join = join;
        const LibraryFinding found = finding_of(p, hidden);
        CAPTURE(to_string(join), found.closest, found.difference);
        REQUIRE(!found.equal.empty());
        for (const LibraryCandidate& c : found.equal) {
            // If the sums of the three slices are normal numbers, the joins `workspace` and `stream_k` give the same
            // result.
            CHECK((c.rule.join == join || (join == SliceJoin::workspace && c.rule.join == SliceJoin::stream_k)));
            CHECK(definition::slice_length(c.rule, p.k) == definition::slice_length(hidden.rule, p.k));
        }
    }
    hidden.rule.slices = 1;  // the library reports three slices and uses one
    const LibraryFinding whole = finding_of(p, hidden);
    REQUIRE(!whole.equal.empty());
    CHECK(whole.equal.front().rule.slices == 1);
}

TEST_CASE("wrong libraries and wrong rules are detected", "[gpu][library]") {
    const LibraryProblem p{.m = 32, .n = 40, .k = 144, .a = bf16, .b = bf16, .out = fp32};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16")}};
    CHECK(finding_of(p, hidden, true).equal.empty());  // with an intentional fault
    hidden.drops_last = true;
    const LibraryFinding dropped = finding_of(p, hidden);
    CHECK(dropped.equal.empty());
    CHECK(dropped.mismatches > 0);
    CHECK_FALSE(dropped.difference.empty());
    hidden.drops_last = false;
    hidden.nudges_specials = true;
    const LibraryFinding nudged = finding_of(p, hidden);
    CHECK_FALSE(nudged.equal.empty());
    CHECK(nudged.equal_with_specials.empty());
    CHECK_FALSE(nudged.special_difference.empty());
    hidden.nudges_specials = false;
    hidden.is_restless = true;
    CHECK(finding_of(p, hidden).varies);
}

TEST_CASE("every storage order of the operands gives the same product", "[gpu][library]") {
    for (int layout = 0; layout < 4; ++layout) {
        LibraryProblem p{.m = 17, .n = 9, .k = 40, .a = fp16, .b = bf16, .out = fp32};
        p.a_by_rows = (layout & 1) == 0;
        p.b_by_columns = (layout & 2) == 0;
        const LibraryOperands x = library_operands(p, "wide", 3);
        const std::vector<float> out = FakePlan(p, {}).run(x);
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) {
                const float expected = fp32_chain_dot(&x.a[static_cast<std::size_t>(i * p.k)], 1,
                                                      &x.b[static_cast<std::size_t>(j)], p.n, p.k);
                CHECK(out[static_cast<std::size_t>(i * p.n + j)] == expected);
            }
        }
    }
}

TEST_CASE("operands are exact in their formats, and scales are laid out as cuBLAS expects them", "[gpu][library]") {
    for (const Format& f : {fp16, bf16, e4m3fn, e5m2, tf32}) {
        const LibraryProblem p{.m = 8, .n = 8, .k = 64, .a = f, .b = f, .out = fp32};
        for (const std::string_view name : library_classes) {
            const LibraryOperands x = library_operands(p, name, 5);
            int nonzero = 0;
            for (const float a : x.a) {
                CHECK(decode(f, encode(f, a, Round::toward_zero, Overflow::nonsaturate)) == a);
                nonzero += a != 0;
            }
            CHECK(nonzero > 400);
            CHECK(library_operands(p, name, 5).b == x.b);
            CHECK(library_operands(p, name, 6).b != x.b);
        }
    }
    // These are the scales of three rows with k = 600. Each row has five blocks of 128, so it has five scales.
    const std::vector<float> scales{1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25};
    CHECK(packed_scales(scales, LibraryScaling::blocks_1x1, 600, false) ==
          std::vector<float>{1, 11, 21, 2, 12, 22, 3, 13, 23, 4, 14, 24, 5, 15, 25});
    CHECK(packed_scales(scales, LibraryScaling::blocks_1x2, 600, true) ==
          std::vector<float>{1, 2, 3, 4, 5, 0, 0, 0, 11, 12, 13, 14, 15, 0, 0, 0, 21, 22, 23, 24, 25, 0, 0, 0});
    CHECK(packed_scales({7}, LibraryScaling::tensor, 600, false) == std::vector<float>{7});
    CHECK(spread(1000, 3) == std::vector<std::int64_t>{0, 499, 999});
    CHECK(spread(2, 9) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("FPRev finds the order of summation of a library", "[gpu][library]") {
    struct Case {
        Format a, b, accumulator;
        MatmulRule rule;
        std::int64_t k;
        const char *summary, *rule_name;
    };
    const MatmulRule tensor{.machine = find_machine("sm90.wgmma.bf16")};
    MatmulRule split = tensor;
    split.slices = 4;
    MatmulRule fp8{.machine = find_machine("sm90.wgmma.fp8")}, promoted = fp8;
    promoted.promotion = Promotion::add;
    promoted.promotion_interval = 128;
    const MatmulRule half{.machine = find_machine("sm90.mma.fp16.acc16")};
    CpuBackend host(1);
    for (const Case& c : {
             Case{bf16, bf16, fp32, tensor, 128,
                  "128 terms in 8 sums (1 of 16, 7 of 17), depth 8: a chain; s1 = 0-15; s2 = s1 + 16-31",
                  "sm80.mma.bf16.k8"},
             Case{bf16, bf16, fp32, split, 256, "", ""},
             Case{fp32, fp32, fp32, {}, 64, "64 terms in 63 sums (63 of 2), depth 63: a chain", "fp32.chain"},
             Case{e4m3fn, e4m3fn, fp32, fp8, 128, "", "cublaslt.fp8.fast"},
             Case{e4m3fn, e4m3fn, fp32, promoted, 192, "", "cublaslt.fp8.split"},
             Case{fp16, fp16, fp16, half, 64, "64 terms in 4 sums (1 of 16, 3 of 17), depth 4: a chain", ""},
         }) {
        const LibraryProblem p{
            .m = 40, .n = 32, .k = c.k, .a = c.a, .b = c.b, .out = c.accumulator, .accumulator = c.accumulator};
        Hidden hidden{.rule = c.rule};
        hidden.says.slices = c.rule.slices;
        hidden.says.reduction = c.rule.slices > 1 ? Reduction::compute_type : Reduction::none;
        FakePlan plan(p, hidden);
        const LibraryOrder order = reveal_library(plan, p, host);
        CAPTURE(p.name(), order.no_tree, one_line(order.tree));
        const SumTree truth =
            reveal_tree(static_cast<int>(p.k), matmul_pair_sizes(host, c.rule, p.a, p.b, static_cast<int>(p.k)));
        CHECK(order.tree == truth);
        CHECK(order.candidates > 0);
        const auto has = [&](std::string_view name) {
            return std::find(order.rules.begin(), order.rules.end(), name) != order.rules.end();
        };
        CHECK_FALSE(order.rules.empty());
        if (*c.rule_name != '\0' && p.a.bits != 16) CHECK(has(c.rule_name));
        if (p.a == bf16) CHECK_FALSE(has(c.rule_name));
        if (*c.summary != '\0') CHECK(one_line(order.tree).find(c.summary) == 0);
        if (p.k <= 64) CHECK(reveal_library(plan, p, host, {.fault = true}).rules.empty());  // intentional fault
    }
}

TEST_CASE("an exact sum, which has no order, is reported without a tree", "[gpu][library]") {
    const LibraryProblem p{.m = 16, .n = 16, .k = 64, .a = bf16, .b = bf16, .out = fp32};
    FakePlan plan(p, {.rule = {.machine = find_machine("exact")}});
    CpuBackend host(1);
    CHECK_FALSE(reveal_library(plan, p, host).no_tree.empty());
}

TEST_CASE("each probe of a library gives rows of results, and all probes together load the library once",
          "[gpu][library]") {
    std::set<std::string> names;
    std::size_t count = 0;
    for (const evidence::ProbeGroup& group : library_probe_groups(0)) {
        CHECK(group.kind == "library");
        count += group.instructions.size();
        names.insert(group.instructions.begin(), group.instructions.end());
        for (const std::string& name : group.instructions) CHECK(name.find_first_of(", \"") == std::string::npos);
    }
    CHECK(count > 150);
    CHECK(names.size() == count);

    int loads = 0;
    const auto fake = std::make_shared<FakeLibrary>(Hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16")}});
    const std::vector<evidence::ProbeGroup> groups = library_probe_groups([&] {
        ++loads;
        return LoadedLibrary{fake, {}};
    });
    const auto rows_of = [&](const std::vector<evidence::ProbeGroup>& probes, const std::string& name,
                             evidence::ProbeOptions options = {}) {
        std::vector<evidence::ProbeResult> rows;
        for (const evidence::ProbeGroup& group : probes) {
            if (std::find(group.instructions.begin(), group.instructions.end(), name) == group.instructions.end())
                continue;
            group.run(name, 10, options, [&](const evidence::ProbeResult& row) { rows.push_back(row); });
        }
        return rows;
    };
    const std::string matmul = "cublasLt.bf16.bf16.fp32.tn.128x64x48",
                      reveal = "reveal:cublasLt.bf16.bf16.fp32.tn.128x128x256";
    std::vector<evidence::ProbeResult> rows = rows_of(groups, matmul);
    REQUIRE(rows.size() == 2);  // one row for finite and one for special operands
    for (const evidence::ProbeResult& row : rows) {
        CAPTURE(row.note);
        CHECK(row.verdict == evidence::Verdict::equal);
        CHECK(row.instruction == matmul);
        CHECK(row.trials > 0);
        CHECK(row.note.find("sm90.wgmma.bf16") != std::string::npos);
        CHECK(row.note.find("algo 7 tile 0 stages 0 splitk 1, fake 1.0") != std::string::npos);
    }
    rows = rows_of(groups, reveal);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].verdict == evidence::Verdict::equal);
    CHECK(rows[0].note.find("256 terms in 16 sums (1 of 16, 15 of 17)") == 0);
    for (const std::string& name : {matmul, reveal}) {
        rows = rows_of(groups, name, {.only = {}, .fault = true});
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].verdict == evidence::Verdict::differs);
    }
    CHECK(loads == 1);

    const std::vector<evidence::ProbeGroup> missing = library_probe_groups([] {
        return LoadedLibrary{nullptr, "no library"};
    });
    for (const std::string& name : {matmul, reveal}) {
        rows = rows_of(missing, name);
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].verdict == evidence::Verdict::declined);
        CHECK(rows[0].note == "no library");
    }
    CHECK_THROWS_AS(missing[0].run("cublasLt.none", 1, {}, [](const evidence::ProbeResult&) {}), Error);
}

TEST_CASE("an instruction that fails gets the verdict 'failed', and a missing device ends the run", "[gpu]") {
    Exit exit = Exit::check_failed;
    const evidence::ProbeGroup group{
        .kind = "matrix",
        .instructions = {"mma"},
        .run = [&](const std::string& name, double, const evidence::ProbeOptions&, const evidence::ProbeSink& sink) {
            sink({.kind = "matrix", .instruction = name, .operands = "normal", .model = {}, .note = {}});
            throw Error({.what = "an illegal memory access", .where = "mma.cu:7", .exit = exit});
        }};
    const std::vector<evidence::ProbeResult> rows = evidence::run_probe(group, "mma", 1, {});
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].verdict == evidence::Verdict::equal);
    CHECK(rows[1].verdict == evidence::Verdict::failed);
    CHECK(rows[1].instruction == "mma");
    CHECK(rows[1].note == "mma.cu:7: an illegal memory access");
    for (const Exit ending : {Exit::no_device, Exit::cannot_write}) {
        exit = ending;
        CHECK_THROWS_AS(evidence::run_probe(group, "mma", 1, {}), Error);
    }
}

}  // namespace library_test
