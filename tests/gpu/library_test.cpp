// SPDX-License-Identifier: Apache-2.0
// The probes of libraries, against libraries whose rule is known.
#include "emulation/gpu/probe/library/probes.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "core/read_file.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/gpu/probe/library/capture.hpp"
#include "emulation/gpu/probe/library/claims.hpp"
#include "emulation/gpu/probe/library/layout.hpp"
#include "emulation/gpu/probe/library/match.hpp"
#include "emulation/gpu/probe/library/reveal.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/verify/json_lines.hpp"
#include "emulation/verify/trace.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

using namespace macheps;
using namespace macheps::gpu;

namespace {

/// What a library does, and what it says that it does.
struct Hidden {
    MatmulRule rule{};
    LibraryAlgorithm says{.id = 7};
    bool rounds_words = false;     ///< to tf32, ties away from zero
    bool drops_last = false;       ///< forgets the last term of k
    bool nudges_specials = false;  ///< +0 becomes -0
    bool is_restless = false;      ///< its order changes after a few runs
    bool is_exchanged = false;     ///< computes b^T a^T by its rule
    const char* architecture = "sm_90";
    bool is_row_major = false;
};

std::vector<float> columns_of(const std::vector<std::byte>& codes, const Format& f, std::int64_t rows,
                              std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    const std::size_t size = codes.size() / values.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t code = 0;
        std::memcpy(&code, &codes[i * size], size);
        values[i] = size == 4 ? bit_cast<float>(code) : decode(f, code);
    }
    return values;
}

/// A library that keeps its matrices as BLAS does, column after column, and computes by a hidden rule.
class FakePlan final : public LibraryPlan {
  public:
    FakePlan(const LibraryProblem& problem, const Hidden& hidden) : p_(problem), hidden_(hidden) {}
    LibraryAlgorithm algorithm() const override { return hidden_.says; }

    void upload(const LibraryOperands& x) override { x_ = x; }
    void launch() override { out_ = product(x_); }
    std::vector<float> download() override { return out_; }

  private:
    std::vector<float> product(const LibraryOperands& x) {
        // op(A) is A [m,k], or A^T of A [k,m]; both column-major, which this backend reads as the other's transpose.
        std::vector<float> a = columns_of(packed_values(x.a, p_.a, p_.m, p_.k, p_.a_by_rows), p_.a, p_.m, p_.k);
        std::vector<float> b = columns_of(packed_values(x.b, p_.b, p_.k, p_.n, !p_.b_by_columns), p_.b, p_.k, p_.n);
        if (hidden_.rounds_words) {
            for (std::vector<float>* values : {&a, &b}) {
                for (float& v : *values) v = decode(tf32, encode(tf32, v, Round::nearest_away, Overflow::nonsaturate));
            }
        }
        std::vector<float> out(static_cast<std::size_t>(p_.m * p_.n));
        Matmul args;
        args.m = p_.m;
        args.n = p_.n;
        args.k = hidden_.drops_last ? p_.k - 1 : p_.k;
        args.a = {.data = a.data(), .ld = p_.a_by_rows ? p_.k : p_.m, .transposed = !p_.a_by_rows, .format = p_.a};
        args.b = {.data = b.data(), .ld = p_.b_by_columns ? p_.k : p_.n, .transposed = p_.b_by_columns, .format = p_.b};
        args.rule = hidden_.rule;
        if (hidden_.is_restless && ++runs_ > 1) args.rule.machine = find_machine("fp32.pairwise");
        args.out = out.data();
        args.ld_out = p_.n;
        args.out_cast = {.format = p_.out, .overflow = p_.out.bits == 8 ? Overflow::saturate : Overflow::nonsaturate};
        const std::int64_t blocks = blocks_of_128(p_.k);
        if (!x.a_scales.empty()) {
            args.a.scales = {.data = x.a_scales.data()};
            args.b.scales = {.data = x.b_scales.data()};
        }
        if (p_.scaling == LibraryScaling::outer) args.a.scales.outer_stride = args.b.scales.outer_stride = 1;
        if (p_.scaling == LibraryScaling::blocks_1x1 || p_.scaling == LibraryScaling::blocks_1x2) {
            args.a.scales.k_block = args.b.scales.k_block = 128;
            args.a.scales.k_stride = args.b.scales.k_stride = 1;
            args.a.scales.outer_stride = args.b.scales.outer_stride = blocks;
            if (p_.scaling == LibraryScaling::blocks_1x2) args.b.scales.outer_block = 128;
        }
        if (hidden_.is_exchanged) {
            std::swap(args.m, args.n);
            std::swap(args.a, args.b);
            args.ld_out = p_.m;
            for (auto* operand : {&args.a, &args.b}) operand->transposed = !operand->transposed;
        }
        host_.matmul(args);
        if (hidden_.is_exchanged) {
            const std::vector<float> exchanged = out;
            for (std::int64_t i = 0; i < p_.m; ++i) {
                for (std::int64_t j = 0; j < p_.n; ++j)
                    out[static_cast<std::size_t>(i * p_.n + j)] = exchanged[static_cast<std::size_t>(j * p_.m + i)];
            }
        }
        if (hidden_.nudges_specials && x.name == special_class) {
            for (float& v : out) v = v == 0 ? -0.0f : v;
        }
        return unpacked_values(packed_values(out, p_.out, p_.m, p_.n, false), p_.out, p_.m, p_.n);
    }

    LibraryProblem p_;
    Hidden hidden_;
    LibraryOperands x_;
    std::vector<float> out_;
    CpuBackend host_{1};
    int runs_ = 0;
};

class FakeLibrary final : public MatmulLibrary {
  public:
    explicit FakeLibrary(Hidden hidden) : hidden_(hidden) {}
    std::string name() const override { return "fake 1.0"; }
    std::string architecture() const override { return hidden_.architecture; }
    bool is_row_major() const override { return hidden_.is_row_major; }
    LibraryAnswer plan(const LibraryProblem& problem, int choice) override {
        if (choice > 0) return {nullptr, "no more"};
        if (problem.m == 65) return {nullptr, "an odd shape (15)"};
        return {std::make_unique<FakePlan>(problem, hidden_), {}};
    }

  private:
    Hidden hidden_;
};

LibraryFinding find(const LibraryProblem& problem, const Hidden& hidden, bool fault = false) {
    FakePlan plan(problem, hidden);
    CpuBackend host(1);
    return match_library(plan, problem, host, {.fault = fault, .products = 1 << 19});
}

bool is_among(const std::vector<LibraryCandidate>& candidates, std::string_view name) {
    return std::any_of(candidates.begin(), candidates.end(), [&](const LibraryCandidate& c) {
        return std::find(c.names.begin(), c.names.end(), name) != c.names.end();
    });
}

/// A problem whose scales and types the named rule takes, and the library that follows it.
std::pair<LibraryProblem, Hidden> served_by(const NamedMatmulRule& named, const Format& out) {
    LibraryProblem p{.m = 32, .n = 24, .k = 720, .a = e4m3fn, .b = e4m3fn, .out = out};
    Hidden hidden{.rule = named.rule};
    if (named.rule.machine == nullptr) {
        p.a = p.b = bf16;
        hidden.rule.machine = find_machine("sm90.wgmma.bf16");
        hidden.rule.slices = hidden.says.slices = 4;
        hidden.says.reduction = named.rule.join == SliceJoin::serial              ? Reduction::in_place
                                : named.rule.join == SliceJoin::rounded_workspace ? Reduction::output_type
                                                                                  : Reduction::compute_type;
    } else if (named.rule.promotion == Promotion::fma_joint || named.rule.promotion == Promotion::fma_left) {
        p.k = 640;
        p.n = 160;  // two blocks of b, one of them short
        p.scaling = named.name == "deepgemm.sm90.1d1d" ? LibraryScaling::blocks_1x1 : LibraryScaling::blocks_1x2;
    } else {
        p.scaling = named.rule.scale_order == ScaleOrder::joint ? LibraryScaling::tensor : LibraryScaling::outer;
    }
    return {p, hidden};
}

/// Hides every named rule behind a library with this output format and finds it again.
void find_named_rules(const Format& out) {
    CpuBackend host(1);
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        if (!named.versions.empty()) continue;  // a CPU library's
        const auto [p, hidden] = served_by(named, out);
        const LibraryFinding found = find(p, hidden);
        CAPTURE(named.name, p.name(), found.closest, found.difference);
        CHECK(is_among(found.equal, named.name));
        CHECK(is_among(found.equal_with_specials, named.name));
        CHECK(found.trials > 1000);
        // All other rules that were found compute the same on new operands. Only the last bit of
        // the order in which scales meet the sum drowns in a 16-bit output.
        FakePlan plan(p, hidden);
        const std::vector<std::int64_t> rows = spread(p.m, 12), columns = spread(p.n, 12);
        for (const std::string_view name : library_classes) {
            const LibraryOperands fresh = library_operands(p, name, 77);
            const std::vector<float> theirs = plan.run(fresh);
            std::vector<float> sample;
            for (const std::int64_t i : rows) {
                for (const std::int64_t j : columns)
                    sample.push_back(theirs[static_cast<std::size_t>(i * p.n + j)]);
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

TEST_CASE("every named rule is found where a library hides it", "[gpu][library]") { find_named_rules(fp32); }

TEST_CASE("every named rule is found where a library hides it and rounds to bf16", "[gpu][library][slow]") {
    find_named_rules(bf16);
}

TEST_CASE("a library's machine is told from its siblings", "[gpu][library]") {
    struct Case {
        Format format, accumulator, out;
        std::int64_t k;
        const char *machine, *not_machine, *why;
    };
    const auto [format, accumulator, out, k, machine, not_machine, why] =
        GENERATE(table<Format, Format, Format, std::int64_t, const char*, const char*, const char*>(
            {{bf16, fp32, fp32, 1000, "sm90.wgmma.bf16", "sm80.mma.bf16", "25 fraction bits, 16 terms a step"},
             {bf16, fp32, bf16, 1000, "sm90.wgmma.bf16", "fp32.chain", "told although the output has 8 bits"},
             {fp16, fp32, fp16, 129, "sm80.mma.fp16", "sm90.mma.fp16", "24 fraction bits, 8 terms a step"},
             {fp16, fp16, fp16, 1000, "sm90.wgmma.fp16.acc16", "fp16.chain", "sums in fp16"},
             {tf32, fp32, fp32, 1000, "sm90.mma.tf32", "fp32.chain", "8 terms a step"},
             {fp32, fp32, fp32, 1000, "fp32.chain", "fp32.pairwise", "an fma at a time"},
             {fp32, fp32, fp32, 1000, "sm90.mma.tf32", "fp32.chain", "tf32 that nobody allowed"},
             {e4m3fn, fp32, fp32, 1000, "sm90.wgmma.fp8", "sm90.mma.fp8", "13 fraction bits"},
             {e4m3fn, fp32, bf16, 1000, "sm100.tcgen05.fp8", "sm90.wgmma.fp8", "25 fraction bits"}}));
    const LibraryProblem p{.m = 33, .n = 40, .k = k, .a = format, .b = format, .out = out, .accumulator = accumulator};
    const LibraryFinding found = find(p, {.rule = {.machine = find_machine(machine)}});
    CAPTURE(why, p.name(), found.closest, found.difference);
    CHECK(is_among(found.equal, machine));
    CHECK_FALSE(is_among(found.equal, not_machine));
}

TEST_CASE("a library's instructions of the smaller shape are found", "[gpu][library]") {
    Machine small = *find_machine("sm90.mma.bf16");
    small.k = small.sum.terms = 8;
    const LibraryProblem p{.m = 32, .n = 40, .k = 256, .a = bf16, .b = bf16, .out = fp32};
    const LibraryFinding found = find(p, {.rule = {.machine = &small}});
    CHECK(is_among(found.equal, "sm90.mma.bf16.k8"));
    CHECK_FALSE(is_among(found.equal, "sm90.mma.bf16"));
}

TEST_CASE("what a library makes of fp32 words is told apart", "[gpu][library]") {
    const LibraryProblem p{.m = 32, .n = 40, .k = 256, .a = tf32, .b = tf32, .out = fp32, .whole_words = true};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.tf32")}};
    CHECK(is_among(find(p, hidden).equal, "sm90.mma.tf32, low 13 bits cut"));
    hidden.rounds_words = true;
    const LibraryFinding rounded = find(p, hidden);
    REQUIRE(rounded.equal.size() == 1);
    CHECK(rounded.equal.front().conversion == Round::nearest_away);
}

TEST_CASE("slices are told by their join and their boundaries", "[gpu][library]") {
    LibraryProblem p{.m = 32, .n = 40, .k = 1000, .a = bf16, .b = bf16, .out = bf16};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16"), .slices = 3, .slice_granule = 32}};
    hidden.says.slices = 3;
    hidden.says.reduction = Reduction::compute_type;
    for (const SliceJoin join : {SliceJoin::workspace, SliceJoin::rounded_workspace, SliceJoin::serial}) {
        hidden.rule.join = join;
        const LibraryFinding found = find(p, hidden);
        CAPTURE(to_string(join), found.closest, found.difference);
        REQUIRE(!found.equal.empty());
        for (const LibraryCandidate& c : found.equal) {
            // Three normal sums join alike whether the last adds the others or they add it.
            CHECK((c.rule.join == join || (join == SliceJoin::workspace && c.rule.join == SliceJoin::stream_k)));
            CHECK(definition::slice_length(c.rule, p.k) == definition::slice_length(hidden.rule, p.k));
        }
    }
    hidden.rule.slices = 1;  // the library says three, and takes one
    const LibraryFinding whole = find(p, hidden);
    REQUIRE(!whole.equal.empty());
    CHECK(whole.equal.front().rule.slices == 1);
}

TEST_CASE("a wrong library and wrong rules are seen", "[gpu][library]") {
    const LibraryProblem p{.m = 32, .n = 40, .k = 144, .a = bf16, .b = bf16, .out = fp32};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16")}};
    CHECK(find(p, hidden, true).equal.empty());  // the fault on purpose
    hidden.drops_last = true;
    const LibraryFinding dropped = find(p, hidden);
    CHECK(dropped.equal.empty());
    CHECK(dropped.mismatches > 0);
    CHECK_FALSE(dropped.difference.empty());
    hidden.drops_last = false;
    hidden.nudges_specials = true;
    const LibraryFinding nudged = find(p, hidden);
    CHECK_FALSE(nudged.equal.empty());
    CHECK(nudged.equal_with_specials.empty());
    CHECK_FALSE(nudged.special_difference.empty());
    hidden.nudges_specials = false;
    hidden.is_restless = true;
    CHECK(find(p, hidden).varies);
}

TEST_CASE("outputs that a library gave are judged from a file", "[gpu][library]") {
    CpuBackend host(1);
    for (const Format& out : {fp32, bf16}) {
        for (const NamedMatmulRule& named : all_matmul_rules()) {
            if (!named.versions.empty()) continue;  // a CPU library's
            if (out == bf16 && named.name != "cublaslt.fp8.fast") continue;  // one 16-bit output format is enough
            const auto [p, hidden] = served_by(named, out);
            FakeLibrary library(hidden);
            const CapturedProblem captured = capture_library(library, p, 1, {.outputs = 128});
            CAPTURE(named.name, p.name());
            REQUIRE(captured.algorithms == 1);
            Json header = Json::parse(captured.capture.header);
            for (const char* key : {"gpu", "driver", "toolkit", "date"}) header[key] = "fake";
            const std::string text = verify::json_lines_text(header, captured.capture.lines);
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
    const std::filesystem::path folder = std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces/h100-80gb-hbm3/library";
    struct Case {
        const char *problem, *rule;
    };
    // Others take longer: the slow test judges all.
    constexpr Case cases[] = {{"e4m3fn.e4m3fn.bf16.fast.tn.64x48x1008", "cublaslt.fp8.fast"},
                              {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.tensor", "cublaslt.fp8.split"},
                              {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.outer", "cublaslt.fp8.outer, operands exchanged"},
                              {"e4m3fn.e4m3fn.fp32.tn.256x256x1024.blocks1x1", "cublaslt.fp8.1d1d, operands exchanged"},
                              {"bf16.bf16.bf16.nt.128x64x1000", "sm90.wgmma.bf16"},
                              {"fp16.fp16.fp32.tn.128x64x1000", "sm90.wgmma.fp16"}};
    for (const Case& c : cases) {
        CAPTURE(c.problem);
        const std::filesystem::path file =
            folder / fmt::format("cublasLt.{}.jsonl{}", c.problem, verify::has_zstd() ? ".zst" : "");
        if (!verify::has_zstd()) SKIP_TEST("this build reads no .zst");
        const RecordedLibrary recorded = parse_library_capture(verify::read_json_lines(file), file.string());
        CHECK(recorded.gpu == "NVIDIA H100 80GB HBM3");
        CHECK(recorded.library == "cuBLASLt 13.1.0");
        std::vector<std::string> models;
        replay_library(recorded, [&](const verify::ProbeResult& row) {
            CAPTURE(row.operands, row.model, row.note);
            CHECK(row.kind == "replay");
            CHECK(row.verdict == verify::Verdict::equal);
            models.push_back(row.model);
        });
        CHECK(std::count(models.begin(), models.end(), c.rule) >= 2);
    }
}

TEST_CASE("every capture of cuBLASLt on an H100 is judged", "[gpu][library][slow]") {
    if (!verify::has_zstd()) SKIP_TEST("this build reads no .zst");
    int trees = 0, algorithms = 0, claimed = 0, reproduced = 0, fp8 = 0, fp8_reproduced = 0;
    for (const auto& file : verify::trace_files(std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces/h100-80gb-hbm3/library")) {
        const std::string text = verify::read_json_lines(file);
        const auto sink = [&](const verify::ProbeResult& row) {
            CAPTURE(row.instruction, row.note);
            CHECK(row.verdict != verify::Verdict::differs);
            if (row.instruction.starts_with("reveal:")) return;
            const bool is_special = row.operands == special_class;
            algorithms += !is_special;
            claimed += !is_special && row.verdict == verify::Verdict::equal;
            // With its row about special values, an algorithm has every bit of a rule.
            reproduced += is_special && row.mismatches == 0;
            const bool is_fp8 = row.instruction.starts_with("cublasLt.e4m3fn.") || row.instruction.starts_with("cublasLt.e5m2.");
            fp8 += is_fp8 && !is_special;
            fp8_reproduced += is_fp8 && is_special && row.mismatches == 0;
        };
        if (!is_library_capture(verify::parse_json_line(text.substr(0, text.find('\n')), file.string()))) {
            replay_tree(parse_tree_capture(text, file.string()), sink);
            ++trees;
            continue;
        }
        replay_library(parse_library_capture(text, file.string()), sink);
    }
    std::printf("%d algorithms, %d claimed, %d reproduced; fp8 %d of %d; %d trees\n", algorithms, claimed, reproduced, fp8_reproduced, fp8, trees);
    CHECK(trees == 15);
    CHECK(algorithms == 581);
    CHECK(fp8 == 144);
    CHECK(fp8_reproduced == 144);
    const std::string page = read_file(std::filesystem::path(MACHEPS_SOURCE_DIR) / "docs/gpu.md");
    for (const std::string& words : {fmt::format("| {} of {} algorithms of 202 problems have every bit of a rule", reproduced, algorithms),
                                     fmt::format("of fp8, all {}. Rules are claimed for {} of them |", fp8, claimed),
                                     fmt::format("no rule reproduces {} algorithms of cuBLASLt", algorithms - reproduced)}) {
        CAPTURE(words);
        CHECK(page.find(words) != std::string::npos);
    }
}

TEST_CASE("a capture reports results that vary from run to run, and the reason for a declined problem", "[gpu][library]") {
    const LibraryProblem p{.m = 32, .n = 24, .k = 720, .a = bf16, .b = bf16, .out = fp32};
    Hidden hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16")}, .is_restless = true};
    FakeLibrary restless(hidden);
    const Json header = Json::parse(capture_library(restless, p, 1).capture.header);
    CHECK(header["algorithms"][0]["varies"] == true);
    CHECK(header["algorithms"][1]["as"] == 0);  // half of the workspace, the same algorithm
    LibraryProblem odd = p;
    odd.m = 65;
    CHECK(capture_library(restless, odd, 1).declined == "an odd shape (15)");
}

TEST_CASE("every storage of the operands gives the same product", "[gpu][library]") {
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

TEST_CASE("operands lie on their grids, and scales where cuBLAS wants them", "[gpu][library]") {
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
    // Three rows of k = 600: five blocks.
    const std::vector<float> scales{1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25};
    CHECK(packed_scales(scales, LibraryScaling::blocks_1x1, 600, false) ==
          std::vector<float>{1, 11, 21, 2, 12, 22, 3, 13, 23, 4, 14, 24, 5, 15, 25});
    CHECK(packed_scales(scales, LibraryScaling::blocks_1x2, 600, true) ==
          std::vector<float>{1, 2, 3, 4, 5, 0, 0, 0, 11, 12, 13, 14, 15, 0, 0, 0, 21, 22, 23, 24, 25, 0, 0, 0});
    CHECK(packed_scales({7}, LibraryScaling::tensor, 600, false) == std::vector<float>{7});
    CHECK(spread(1000, 3) == std::vector<std::int64_t>{0, 499, 999});
    CHECK(spread(2, 9) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("FPRev names the order of a library", "[gpu][library]") {
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
        if (p.k <= 64) CHECK(reveal_library(plan, p, host, {.fault = true}).rules.empty());  // the fault on purpose
    }
}

TEST_CASE("sums that have no order are recorded so", "[gpu][library]") {
    const LibraryProblem p{.m = 16, .n = 16, .k = 64, .a = bf16, .b = bf16, .out = fp32};
    FakePlan plan(p, {.rule = {.machine = find_machine("exact")}});
    CpuBackend host(1);
    CHECK_FALSE(reveal_library(plan, p, host).no_tree.empty());
}

TEST_CASE("probes of a library are rows", "[gpu][library]") {
    std::set<std::string> names;
    std::size_t count = 0;
    for (const verify::ProbeGroup& group : library_probe_groups(0)) {
        CHECK(group.kind == "library");
        count += group.instructions.size();
        names.insert(group.instructions.begin(), group.instructions.end());
        for (const std::string& name : group.instructions) CHECK(name.find_first_of(", \"") == std::string::npos);
    }
    CHECK(count > 150);
    CHECK(names.size() == count);

    int loads = 0;
    const auto fake = std::make_shared<FakeLibrary>(Hidden{.rule = {.machine = find_machine("sm90.wgmma.bf16")}});
    const std::vector<verify::ProbeGroup> groups = library_probe_groups([&] {
        ++loads;
        return LoadedLibrary{fake, {}};
    });
    const auto rows_of = [&](const std::vector<verify::ProbeGroup>& probes, const std::string& name,
                             verify::ProbeOptions options = {}) {
        std::vector<verify::ProbeResult> rows;
        for (const verify::ProbeGroup& group : probes) {
            if (std::find(group.instructions.begin(), group.instructions.end(), name) == group.instructions.end())
                continue;
            group.run(name, 10, options, [&](const verify::ProbeResult& row) { rows.push_back(row); });
        }
        return rows;
    };
    const std::string matmul = "cublasLt.bf16.bf16.fp32.tn.128x64x48",
                      reveal = "reveal:cublasLt.bf16.bf16.fp32.tn.128x128x256";
    std::vector<verify::ProbeResult> rows = rows_of(groups, matmul);
    REQUIRE(rows.size() == 2);  // finite operands and special ones
    for (const verify::ProbeResult& row : rows) {
        CAPTURE(row.note);
        CHECK(row.verdict == verify::Verdict::equal);
        CHECK(row.instruction == matmul);
        CHECK(row.trials > 0);
        CHECK(row.note.find("sm90.wgmma.bf16") != std::string::npos);
        CHECK(row.note.find("algo 7 tile 0 stages 0 splitk 1, fake 1.0") != std::string::npos);
    }
    rows = rows_of(groups, reveal);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].verdict == verify::Verdict::equal);
    CHECK(rows[0].note.find("256 terms in 16 sums (1 of 16, 15 of 17)") == 0);
    for (const std::string& name : {matmul, reveal}) {
        rows = rows_of(groups, name, {.only = {}, .fault = true});
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].verdict == verify::Verdict::differs);
    }
    CHECK(loads == 1);

    const std::vector<verify::ProbeGroup> missing = library_probe_groups([] {
        return LoadedLibrary{nullptr, "no library"};
    });
    for (const std::string& name : {matmul, reveal}) {
        rows = rows_of(missing, name);
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].verdict == verify::Verdict::declined);
        CHECK(rows[0].note == "no library");
    }
    CHECK_THROWS_AS(missing[0].run("cublasLt.none", 1, {}, [](const verify::ProbeResult&) {}), Error);
}

namespace {

/// The rows of one probe of a library.
std::vector<verify::ProbeResult> rows_of(const Hidden& hidden, const std::string& name) {
    const auto fake = std::make_shared<FakeLibrary>(hidden);
    std::vector<verify::ProbeResult> rows;
    bool is_known = false;
    for (const verify::ProbeGroup& group : library_probe_groups([&] { return LoadedLibrary{fake, {}}; })) {
        if (std::find(group.instructions.begin(), group.instructions.end(), name) == group.instructions.end()) continue;
        is_known = true;
        group.run(name, 1, {}, [&](const verify::ProbeResult& row) { rows.push_back(row); });
    }
    REQUIRE(is_known);
    return rows;
}

MatmulRule rule_of(const char* name) {
    const NamedMatmulRule* named = find_matmul_rule(name);
    return named != nullptr ? named->rule : MatmulRule{.machine = find_machine(name)};
}

}  // namespace

TEST_CASE("a rule that is claimed for a problem is equal or differs, whichever other rules agree", "[gpu][library]") {
    struct Case {
        const char *problem, *claim, *other;
        bool has_roles;
        const char* why;
    };
    constexpr Case cases[] = {
        {"e4m3fn.e4m3fn.fp32.fast.tn.64x48x1008", "cublaslt.fp8.fast", "cublaslt.fp8.split", false, "promoted after all"},
        {"e4m3fn.e4m3fn.fp32.tn.64x48x1008", "cublaslt.fp8.split", "cublaslt.fp8.fast", false, "not promoted"},
        {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.tensor", "cublaslt.fp8.split", "torch.rowwise.sm90", false, "two factors"},
        {"e4m3fn.e4m3fn.fp32.tn.64x48x1008.outer", "cublaslt.fp8.outer", "torch.rowwise.sm90", true, "the other scale first"},
        {"e4m3fn.e4m3fn.fp32.fast.tn.64x48x1008.outer", "cublaslt.fp8.outer.fast", "torch.rowwise.sm90.fast", true, "the other scale first"},
        {"e4m3fn.e4m3fn.fp32.tn.256x256x1024.blocks1x1", "cublaslt.fp8.1d1d", "deepgemm.sm90.1d1d", true, "the scales as one factor"},
        {"e4m3fn.e4m3fn.fp32.tn.256x256x1024.blocks1x2", "cublaslt.fp8.1d2d", "cutlass.fp8.blockwise", false, "one scale after the other"},
        {"bf16.bf16.fp32.tn.128x64x100", "", "sm80.mma.bf16", false, "a k that 8 does not divide"},
        {"tf32.tf32.fp32.tn.128x64x100", "", "fp32.chain", false, "a k that 8 does not divide"},
        {"bf16.bf16.fp32.tn.128x64x1000", "sm90.wgmma.bf16", "sm80.mma.bf16", false, "the instruction of another GPU"},
        {"fp16.fp16.fp16.tn.128x64x1000", "sm90.wgmma.fp16", "sm80.mma.fp16", false, "the instruction of another GPU"},
        {"fp16.fp16.fp16.acc16.tn.128x64x1000", "sm90.wgmma.fp16.acc16", "fp16.chain", false, "a rounding for every product"},
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
                const std::vector<verify::ProbeResult> rows = rows_of(hidden, name);
                REQUIRE(rows.size() == 2);
                for (const verify::ProbeResult& row : rows) {
                    CAPTURE(row.note);
                    CHECK(row.verdict == verify::Verdict::equal);
                    CHECK(row.model == model);
                }
            }
            hidden.rule = rule_of(c.other);
            const verify::ProbeResult row = rows_of(hidden, name).front();
            CAPTURE(row.note);
            CHECK(row.verdict == (claim.empty() ? verify::Verdict::recorded : verify::Verdict::differs));
            if (claim.empty()) continue;
            CHECK(row.model == model);
            CHECK(row.mismatches > 0);
            CHECK(row.note.starts_with("not " + model + ": cancelling ["));
            CHECK(row.note.find(std::string("equal to ")) != std::string::npos);
        }
    }
    // Nothing is claimed for another architecture, and for slices, whose lengths are the library's choice.
    Hidden hidden{.rule = rule_of("cublaslt.fp8.split"), .architecture = "sm_100"};
    const std::string fp8 = "cublasLt.e4m3fn.e4m3fn.fp32.tn.64x48x1008";
    CHECK(rows_of(hidden, fp8).front().verdict == verify::Verdict::recorded);
    CHECK(rows_of(hidden, fp8).front().note.starts_with("nothing is claimed; equal to cublaslt.fp8.split"));
    hidden.architecture = "sm_90";
    hidden.says.slices = 2;
    CHECK(rows_of(hidden, fp8).front().verdict == verify::Verdict::recorded);
    // A claimed rule that the library follows only sometimes.
    const Hidden restless{.rule = rule_of("sm90.wgmma.bf16"), .is_restless = true};
    const verify::ProbeResult varies = rows_of(restless, "cublasLt.bf16.bf16.fp32.tn.128x64x1000").front();
    CHECK(varies.verdict == verify::Verdict::differs);
    CHECK(varies.note.find("results vary from run to run; ") == 0);
    // Every claim is of a rule or a machine that there is.
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

TEST_CASE("an order of summation that is not the claimed rule's differs, live and from a file", "[gpu][library]") {
    const std::string problem = "cublasLt.e4m3fn.e4m3fn.fp32.tn.128x128x256";
    for (const char* name : {"cublaslt.fp8.split", "cublaslt.fp8.fast"}) {
        CAPTURE(name);
        const bool agrees = std::string(name) == "cublaslt.fp8.split";
        const Hidden hidden{.rule = rule_of(name)};
        const verify::Verdict verdict = agrees ? verify::Verdict::equal : verify::Verdict::differs;
        const verify::ProbeResult live = rows_of(hidden, "reveal:" + problem).front();
        CAPTURE(live.note);
        CHECK(live.verdict == verdict);
        CHECK(live.model == "cublaslt.fp8.split");
        // Captured, written, read, and judged.
        verify::ProbeOptions options{.only = {}, .only_captures = true};
        std::vector<verify::Capture> kept;
        options.keep = [&](const verify::Capture& capture) { kept.push_back(capture); };
        for (const verify::ProbeGroup& group :
             library_probe_groups([&] { return LoadedLibrary{std::make_shared<FakeLibrary>(hidden), {}}; })) {
            if (group.instructions.front().starts_with("reveal:"))
                group.run("reveal:" + problem, 1, options, [](const verify::ProbeResult& row) { CHECK(row.verdict == verify::Verdict::recorded); });
        }
        REQUIRE(kept.size() == 1);
        Json header = Json::parse(kept.front().header);
        for (const char* key : {"gpu", "driver", "toolkit", "date"}) header[key] = "fake";
        const RecordedTree recorded = parse_tree_capture(verify::json_lines_text(header, kept.front().lines), "file");
        CHECK(recorded.problem == problem);
        CHECK(recorded.tree.terms == 256);
        int rows = 0;
        replay_tree(recorded, [&](const verify::ProbeResult& row) {
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

TEST_CASE("an instruction that fails is a row, and a missing device ends the run", "[gpu]") {
    Exit exit = Exit::check_failed;
    const verify::ProbeGroup group{
        .kind = "matrix",
        .instructions = {"mma"},
        .run = [&](const std::string& name, double, const verify::ProbeOptions&, const verify::ProbeSink& sink) {
            sink({.kind = "matrix", .instruction = name, .operands = "normal", .model = {}, .note = {}});
            throw Error({.what = "an illegal memory access", .where = "mma.cu:7", .exit = exit});
        }};
    const std::vector<verify::ProbeResult> rows = verify::run_probe(group, "mma", 1, {});
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].verdict == verify::Verdict::equal);
    CHECK(rows[1].verdict == verify::Verdict::failed);
    CHECK(rows[1].instruction == "mma");
    CHECK(rows[1].note == "mma.cu:7: an illegal memory access");
    for (const Exit ending : {Exit::no_device, Exit::cannot_write}) {
        exit = ending;
        CHECK_THROWS_AS(verify::run_probe(group, "mma", 1, {}), Error);
    }
}
