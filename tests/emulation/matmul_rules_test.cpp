// SPDX-License-Identifier: Apache-2.0
// Compares the results of named matmul rules with the computations that their sources describe. An expected result is
// computed from partial sums, each of which is one chain of instructions.
#include "core/codec.hpp"
#include "core/error.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/emulation/backends.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>

namespace matmul_rules_test {

using namespace macheps;
using namespace macheps::test;

namespace {

constexpr std::int64_t m = 3, n = 5, k = 300;
constexpr std::int64_t blocks = (k + 127) / 128;

const Machine* machine(std::string_view name) { return find_machine(name); }

/// Operands of a matmul, with scales for rows and for blocks. Their values are chosen so that every sum rounds.
struct Operands8 {
    std::vector<float> a = std::vector<float>(m * k), b = std::vector<float>(k * n), bias = std::vector<float>(n);
    std::vector<float> a_scales = std::vector<float>(m * blocks), b_scales = std::vector<float>(n * blocks);

    explicit Operands8(Format format = e4m3fn) {
        std::uint64_t i = 0;
        const auto draw = [&] { return static_cast<float>(random_bits({7, 0, 0}, i++)) * 0x1p-32f; };
        const auto fill = [&](std::vector<float>& values, float low, float high) {
            for (float& x : values) x = low + (high - low) * draw();
        };
        fill(a, -6, 9);
        fill(b, -6, 9);
        for (float& x : a) x = quantize(format, x, Round::nearest_even, Overflow::saturate);
        for (float& x : b) x = quantize(format, x, Round::nearest_even, Overflow::saturate);
        fill(bias, -1, 1);
        fill(a_scales, 0.01f, 0.1f);
        fill(b_scales, 0.01f, 0.1f);
    }
};

enum class Scales { none, outer, blocks };

Matmul matmul_of(const Operands8& x, const MatmulRule& rule, Scales scales, float* out, Format format = e4m3fn) {
    Matmul args{.m = m, .n = n, .k = k};
    args.a = {.data = x.a.data(), .ld = k, .format = format};
    args.b = {.data = x.b.data(), .ld = n, .format = format};
    if (scales == Scales::outer) {
        args.a.scales = {x.a_scales.data(), 1, 1, 1, 0};
        args.b.scales = {x.b_scales.data(), 1, 1, 1, 0};
    } else if (scales == Scales::blocks) {
        args.a.scales = {x.a_scales.data(), 1, 128, blocks, 1};
        args.b.scales = {x.b_scales.data(), 1, 128, blocks, 1};
    }
    args.rule = rule;
    args.out = out;
    args.ld_out = n;
    return args;
}

/// Returns the accumulators of one chain of instructions over terms [first, last), starting from +0.
std::vector<float> chain(const Operands8& x, const Machine& on, std::int64_t first, std::int64_t last, Format format) {
    std::vector<float> sums(m * n);
    Matmul args = matmul_of(x, {.machine = &on}, Scales::none, sums.data(), format);
    args.a.data += first;
    args.b.data += first * n;
    args.k = last - first;
    CpuBackend(1, Simd::scalar).matmul(args);
    return sums;
}

float rounded(float x) { return quantize(bf16, x, Round::nearest_even, Overflow::nonsaturate); }

/// A rule, and the result of one element as the rule's source describes it. The result is rounded to bf16 if there are
/// slices, and otherwise is fp32. `partial(s, length)` is the chain over terms [s length, (s + 1) length).
using Partial = std::function<float(std::int64_t, std::int64_t)>;
struct Description {
    const char* rule;
    Scales scales;
    std::function<float(const Partial&, const float* sa, const float* sb)> result;
};

float promoted(const Partial& partial) {
    float main = 0;
    for (std::int64_t s = 0; s < blocks; ++s) main = main + partial(s, 128);
    return main;
}
float whole(const Partial& partial) { return partial(0, k); }

/// Number of slices into which k = 300 is split. Slices consist of groups of 64 terms. The 300 terms are 5 groups (the
/// last is incomplete), so a slice has ceil(5 / 3) = 2 groups, which are 128 terms.
constexpr int slices = 3;

const Description descriptions[] = {
    {"cutlass.fp8.default", Scales::none, [](const Partial& p, auto, auto) { return promoted(p); }},
    {"cutlass.fp8.fast", Scales::none, [](const Partial& p, auto, auto) { return whole(p); }},
    {"cutlass.fp8.blockwise", Scales::blocks,
     [](const Partial& p, const float* sa, const float* sb) {
         float main = 0;
         for (std::int64_t s = 0; s < blocks; ++s) main = std::fma(p(s, 128) * sa[s], sb[s], main);
         return main;
     }},
    {"deepgemm.sm90.1d2d", Scales::blocks,
     [](const Partial& p, const float* sa, const float* sb) {
         float main = 0;
         for (std::int64_t s = 0; s < blocks; ++s) main = std::fma(sa[s] * sb[s], p(s, 128), main);
         return main;
     }},
    {"deepgemm.sm90.1d1d", Scales::blocks,
     [](const Partial& p, const float* sa, const float* sb) {
         float main = 0;
         for (std::int64_t s = 0; s < blocks; ++s) main = std::fma(sa[s] * sb[s], p(s, 128), main);
         return main;
     }},
    {"torch.rowwise.sm90", Scales::outer,
     [](const Partial& p, const float* sa, const float* sb) { return *sb * (*sa * promoted(p)); }},
    {"torch.rowwise.sm90.fast", Scales::outer,
     [](const Partial& p, const float* sa, const float* sb) { return *sb * (*sa * whole(p)); }},
    {"vllm.cutlass", Scales::outer,
     [](const Partial& p, const float* sa, const float* sb) { return *sa * (*sb * whole(p)); }},
    {"cublaslt.fp8.fast", Scales::none, [](const Partial& p, auto, auto) { return whole(p); }},
    {"cublaslt.fp8.split", Scales::none, [](const Partial& p, auto, auto) { return promoted(p); }},
    {"cublaslt.fp8.outer", Scales::outer,
     [](const Partial& p, const float* sa, const float* sb) { return *sa * (*sb * promoted(p)); }},
    {"cublaslt.fp8.outer.fast", Scales::outer,
     [](const Partial& p, const float* sa, const float* sb) { return *sa * (*sb * whole(p)); }},
    {"cublaslt.fp8.1d2d", Scales::blocks,
     [](const Partial& p, const float* sa, const float* sb) {
         float main = 0;
         for (std::int64_t s = 0; s < blocks; ++s) main = std::fma(sa[s] * sb[s], p(s, 128), main);
         return main;
     }},
    {"cublaslt.fp8.1d1d", Scales::blocks,
     [](const Partial& p, const float* sa, const float* sb) {
         float main = 0;
         for (std::int64_t s = 0; s < blocks; ++s) main = std::fma(p(s, 128) * sa[s], sb[s], main);
         return main;
     }},
    {"cublaslt.fp8.sm100", Scales::none, [](const Partial& p, auto, auto) { return whole(p); }},
    {"triton.fp8", Scales::none, [](const Partial& p, auto, auto) { return whole(p); }},
    {"cutlass2.splitk.serial", Scales::none,
     [](const Partial& p, auto, auto) {
         float d = rounded(p(0, 128));
         for (std::int64_t s = 1; s < slices; ++s) d = rounded(p(s, 128) + d);
         return d;
     }},
    {"cutlass2.splitk.parallel", Scales::none,
     [](const Partial& p, auto, auto) {
         float sum = 0;
         for (std::int64_t s = 0; s < slices; ++s) sum += p(s, 128);
         return rounded(sum);
     }},
    {"cutlass3.streamk", Scales::none,
     [](const Partial& p, auto, auto) { return rounded(p(2, 128) + (p(0, 128) + p(1, 128))); }},
    {"cublaslt.splitk.inplace", Scales::none,
     [](const Partial& p, auto, auto) {
         float d = rounded(p(0, 128));
         for (std::int64_t s = 1; s < slices; ++s) d = rounded(p(s, 128) + d);
         return d;
     }},
    {"cublaslt.splitk.compute", Scales::none,
     [](const Partial& p, auto, auto) {
         float sum = 0;
         for (std::int64_t s = 0; s < slices; ++s) sum += p(s, 128);
         return rounded(sum);
     }},
    {"cublaslt.splitk.output", Scales::none,
     [](const Partial& p, auto, auto) {
         float sum = 0;
         for (std::int64_t s = 0; s < slices; ++s) sum += rounded(p(s, 128));
         return rounded(sum);
     }},
};

/// Returns the rule on its own machine, or on the machine `on` if the rule does not name a machine.
MatmulRule applied(const NamedMatmulRule& named, std::string_view on = "sm90.wgmma.fp8") {
    MatmulRule rule = named.rule;
    if (rule.machine == nullptr) rule.machine = machine(on);
    if (rule.slices == 0) rule.slices = slices;
    return rule;
}

MatmulRule on(std::string_view name) { return {.machine = machine(name)}; }

template <class Change>
MatmulRule changed(MatmulRule rule, Change change) {
    change(rule);
    return rule;
}

constexpr ScaleLayout by_tensor{.kind = ScaleLayout::Kind::tensor}, by_row{.kind = ScaleLayout::Kind::outer};
constexpr ScaleLayout by_128{.kind = ScaleLayout::Kind::blocks, .k_block = 128};
constexpr ScaleLayout by_32{.kind = ScaleLayout::Kind::blocks, .k_block = 32, .format = e8m0fnu};

}  // namespace

TEST_CASE("every named rule combines its partial sums as its source describes", "[emulation][rules]") {
    const Operands8 x;
    std::set<std::string_view> described;
    for (const Description& each : descriptions) {
        described.insert(each.rule);
        const NamedMatmulRule* named = find_matmul_rule(each.rule);
        CAPTURE(each.rule);
        REQUIRE(named != nullptr);
        // Rules that do not name a machine are tested with bf16 operands on the bf16 instruction.
        const bool is_own = named->rule.machine != nullptr;
        const Format format = is_own ? e4m3fn : bf16;
        const MatmulRule rule = applied(*named, "sm90.wgmma.bf16");
        std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>> chains;
        std::vector<float> expected(m * n);
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                const Partial partial = [&](std::int64_t s, std::int64_t length) {
                    auto& sums = chains[{s, length}];
                    const std::int64_t first = s * length, last = std::min(first + length, k);
                    if (sums.empty()) sums = chain(x, *rule.machine, first, last, format);
                    return sums[static_cast<std::size_t>(i * n + j)];
                };
                const bool by_block = each.scales == Scales::blocks;
                expected[static_cast<std::size_t>(i * n + j)] =
                    each.result(partial, &x.a_scales[static_cast<std::size_t>(i * (by_block ? blocks : 1))],
                                &x.b_scales[static_cast<std::size_t>(j * (by_block ? blocks : 1))]);
            }
        }
        for (const auto& backend : backends({1, 2})) {
            std::vector<float> out(m * n);
            Matmul args = matmul_of(x, rule, each.scales, out.data(), format);
            args.out_cast = {.format = rule.slices > 1 ? bf16 : fp32};
            backend->matmul(args);
            CAPTURE(backend->name());
            CHECK(differences(out, expected) == "");
        }
    }
    // Other tests compare the rules of CPU libraries with the libraries' own results.
    const auto rules = all_matmul_rules();
    CHECK(std::ssize(described) ==
          std::count_if(rules.begin(), rules.end(), [](const NamedMatmulRule& each) { return each.versions.empty(); }));
}

TEST_CASE("named rules whose sources describe different kernels give different bits", "[emulation][rules]") {
    // The rules of a pair differ in promotion, in the order in which scales are multiplied, or in the way in which
    // slices are joined.
    const Operands8 x;
    const auto run = [&](const char* name, Scales scales, Format out_format) {
        std::vector<float> out(m * n);
        Matmul args = matmul_of(x, applied(*find_matmul_rule(name)), scales, out.data());
        args.out_cast = {.format = out_format};
        CpuBackend(1).matmul(args);
        return out;
    };
    CHECK(run("cutlass.fp8.fast", Scales::none, fp32) != run("cutlass.fp8.default", Scales::none, fp32));
    CHECK(run("torch.rowwise.sm90.fast", Scales::outer, fp32) != run("vllm.cutlass", Scales::outer, fp32));
    CHECK(run("cutlass.fp8.blockwise", Scales::blocks, fp32) != run("deepgemm.sm90.1d1d", Scales::blocks, fp32));
    CHECK(run("cutlass2.splitk.serial", Scales::none, bf16) != run("cutlass2.splitk.parallel", Scales::none, bf16));
    CHECK(run("cublaslt.splitk.output", Scales::none, bf16) != run("cublaslt.splitk.compute", Scales::none, bf16));
}

TEST_CASE("every named rule has a source, and accepts the operands that it is made for", "[emulation][rules]") {
    std::set<std::string_view> names;
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        CAPTURE(std::string(named.name));
        CHECK(names.insert(named.name).second);
        CHECK_FALSE(named.source.empty());
        CHECK_FALSE(named.summary.empty());
        CHECK(find_matmul_rule(named.name) == &named);
        const bool is_of_cpu = !named.versions.empty();
        CHECK(is_of_cpu == !named.depends_on.empty());
        if (is_of_cpu) continue;  // has its own machine; other tests compare it with recorded results
        CHECK((named.evidence == Evidence::hardware || named.evidence == Evidence::published ||
               named.evidence == Evidence::inferred));
        const MatmulRule rule = applied(named);
        const bool by_block = rule.promotion == Promotion::fma_joint || rule.promotion == Promotion::fma_left;
        const ScaleLayout scales = by_block ? by_128 : rule.scale_order != ScaleOrder::joint ? by_row : ScaleLayout{};
        const std::string open =
            check_matmul_rule(rule, {.a = e4m3fn, .b = e4m3fn, .a_scales = scales, .b_scales = scales}, "here", &named);
        CAPTURE(open);
        CHECK(open.empty() == (named.evidence != Evidence::inferred));
    }
    CHECK(find_matmul_rule("cutlass.fp8") == nullptr);
}

TEST_CASE("the text of a rule names only settings that differ from the default", "[emulation][rules]") {
    CHECK(to_string(MatmulRule{}) == "fp32.chain");
    CHECK(to_string(find_matmul_rule("cutlass.fp8.default")->rule) == "sm90.wgmma.fp8, promote add 128");
    CHECK(to_string(find_matmul_rule("vllm.cutlass")->rule) == "sm90.wgmma.fp8, scale_order b_first");
    CHECK(to_string(find_matmul_rule("cutlass3.streamk")->rule) == "any machine, split_k stream_k");
    CHECK(to_string(MatmulRule{
              .machine = machine("sm80.mma.fp16"), .join = SliceJoin::serial, .slices = 4, .slice_granule = 32}) ==
          "sm80.mma.fp16, split_k 4 serial of 32");
}

TEST_CASE("a rule that no hardware follows is refused with a reason and a remedy", "[emulation][rules]") {
    const auto fp8 = [](ScaleLayout scales = {}) {
        return MatmulUse{.a = e4m3fn, .b = e4m3fn, .a_scales = scales, .b_scales = scales};
    };
    const auto named = [](const char* name) { return applied(*find_matmul_rule(name)); };
    struct Case {
        MatmulRule rule;
        MatmulUse use;
        const char *what, *fix;
    };
    const Case cases[] = {
        {{.machine = nullptr}, {}, "unknown machine ''", "all_machines"},
        {on("sm90.wgmma.fp8"), {.a = fp32, .b = e4m3fn}, "cannot read operand a, which is fp32", "e4m3fn, e5m2"},
        {on("sm90.wgmma.fp8"), {.a = e4m3fn, .b = e4m3fnuz}, "operand b, which is e4m3fnuz", "e4m3fn, e5m2"},
        {on("cdna3.mfma.fp8"), fp8(), "cannot read operand a", "e4m3fnuz"},
        {on("sm90.wgmma.bf16"), {.a = bf16, .b = fp16}, "operand b, which is fp16", "bf16"},
        {on("sm80.mma.fp64"), {}, "adds in fp64", "fp32.chain"},
        {on("sm70.mma.fp16.c16"), {.a = fp16, .b = fp16}, "reads C as fp16 and writes D as fp32", "the same format"},
        {on("sm70.mma.fp16.d16"), {.a = fp16, .b = fp16}, "reads C as fp32 and writes D as fp16", "the same format"},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.promotion_interval = 100; }), fp8(),
         "every 100 terms of k is not possible on sm90.wgmma.fp8, whose instruction has 32", "multiple of 32"},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.promotion_interval = 0; }), fp8(), "every 0 terms of k",
         "128"},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.machine = &fp32_chain; }), fp8(),
         "fp32.chain does not support promotion", "leave out the promotion"},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.machine = machine("sm100.tcgen05.mxfp8"); }), fp8(),
         "sm100.tcgen05.mxfp8 does not support promotion", "leave out"},
        {on("sm90.wgmma.fp8"), fp8(by_128), "the scales of operand a, which change along k, are not applied",
         "deepgemm.sm90.1d2d"},
        {named("cutlass.fp8.default"), fp8(by_128), "its promotion only adds", "cutlass.fp8.blockwise"},
        {MatmulRule{}, {.b_scales = by_32}, "scales of operand b", "sm100.tcgen05.mxfp8"},
        {named("deepgemm.sm90.1d2d"), fp8(by_32), "does not divide a block of scales, which has 32 terms",
         "promote after every 32"},
        {on("sm100.tcgen05.mxfp8"), fp8({.kind = ScaleLayout::Kind::blocks, .k_block = 16, .format = e8m0fnu}),
         "one scale for every 16 terms of k", "blocks of 32"},
        {on("sm100.tcgen05.mxfp8"), fp8(by_128), "scales in fp32, but sm100.tcgen05.mxfp8 needs scales in e8m0fnu",
         "mx32"},
        {find_matmul_rule("cutlass2.splitk.serial")->rule, fp8(), "unknown machine", "all_machines"},
        {changed(find_matmul_rule("cutlass2.splitk.serial")->rule,
                 [](auto& r) { r.machine = machine("sm90.wgmma.fp8"); }),
         fp8(), "number of k slices", "split_k = 2"},
        {changed(named("cutlass2.splitk.serial"), [](auto& r) { r.slice_granule = 48; }), fp8(),
         "multiples of 48 terms", "multiple of 32"},
        {changed(named("deepgemm.sm90.1d2d"), [](auto& r) { r.slices = 2; }), fp8(by_128),
         "do not match blocks of scales", "slice_granule = 128"},
        {named("cutlass2.splitk.serial"),
         {.a = e4m3fn, .b = e4m3fn, .out_cast = {.round = Round::stochastic}},
         "stochastic",
         "nearest even"},
        {named("cublaslt.splitk.output"),
         {.a = e4m3fn, .b = e4m3fn, .out_cast = {.round = Round::stochastic}},
         "one random number per output",
         "workspace"},
        {MatmulRule{},
         {.has_bias = true, .bias_after = true, .out_cast = {.round = Round::stochastic}},
         "rounds every output twice",
         "bias_after = false"},
        {changed(named("cutlass2.splitk.serial"), [](auto& r) { r.scale_order = ScaleOrder::a_first; }), fp8(by_row),
         "one factor", "joint"},
    };
    for (const Case& c : cases) {
        CAPTURE(to_string(c.rule), c.what);
        try {
            check_matmul_rule(c.rule, c.use, "my.toml:3");
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(error.parts().where == "my.toml:3");
            CHECK(error.parts().what.find(c.what) != std::string::npos);
            CHECK(error.parts().fix.find(c.fix) != std::string::npos);
        }
    }
}

TEST_CASE("an undocumented combination is accepted, and the reason is reported", "[emulation][rules]") {
    const auto fp8 = [](ScaleLayout scales = {}, bool has_bias = false) {
        return MatmulUse{.a = e4m3fn, .b = e4m3fn, .a_scales = scales, .b_scales = scales, .has_bias = has_bias};
    };
    const MatmulUse half{.a = fp16, .b = fp16};
    const auto named = [](const char* name) { return applied(*find_matmul_rule(name)); };
    const auto sliced = [&](const char* name, const char* where) {
        return changed(applied(*find_matmul_rule(name)), [&](auto& r) { r.machine = machine(where); });
    };
    struct Case {
        MatmulRule rule;
        MatmulUse use;
        const char *name, *why;  ///< why: part of the expected objection; nullptr if the rule is documented
    };
    const Case cases[] = {
        {MatmulRule{}, {}, nullptr, nullptr},
        {MatmulRule{}, {.a = e4m3fn, .b = e5m2, .a_scales = by_tensor}, nullptr, nullptr},
        {on("sm90.wgmma.tf32"), {}, nullptr, nullptr},
        {on("sm90.wgmma.fp8"), fp8(), nullptr, nullptr},
        {named("cutlass.fp8.default"), fp8(by_tensor), "cutlass.fp8.default", nullptr},
        {named("cublaslt.fp8.fast"), fp8(), "cublaslt.fp8.fast", nullptr},
        {named("cublaslt.fp8.fast"), fp8(by_tensor), "cublaslt.fp8.fast", nullptr},
        {named("cublaslt.fp8.split"), fp8(by_tensor), "cublaslt.fp8.split", nullptr},
        {named("cublaslt.fp8.outer"), fp8(by_row), "cublaslt.fp8.outer", nullptr},
        {named("cublaslt.fp8.1d2d"), fp8(by_128), "cublaslt.fp8.1d2d", nullptr},
        {named("cublaslt.fp8.sm100"), fp8(), "cublaslt.fp8.sm100", "promotion is not needed"},
        {on("sm100.tcgen05.f8f6f4"), {.a = e2m1fn, .b = e4m3fn}, nullptr, "follows related machines"},
        {on("sm100.tcgen05.mxfp8"), fp8(by_32), nullptr, nullptr},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.machine = machine("sm89.mma.fp8"); }), fp8(), nullptr,
         "not for sm89.mma.fp8"},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.machine = machine("sm100.tcgen05.fp8"); }), fp8(),
         nullptr, "no library is known to promote on sm100.tcgen05.fp8"},
        {changed(named("cutlass.fp8.default"), [](auto& r) { r.promotion_interval = 64; }), fp8(), nullptr,
         "not every 64"},
        {named("deepgemm.sm90.1d2d"), fp8(by_tensor), nullptr, "without block scales"},
        {on("sm90.wgmma.fp8"), fp8(by_row), nullptr, "first multiplies the scales of row and column"},
        {named("torch.rowwise.sm90"), fp8(by_row), nullptr, nullptr},
        {sliced("cutlass2.splitk.serial", "sm80.mma.fp16"), half, "cutlass2.splitk.serial", nullptr},
        {sliced("cutlass2.splitk.serial", "sm80.mma.fp16"), {.a = fp16, .b = fp16, .has_bias = true}, nullptr, "bias"},
        {sliced("cutlass2.splitk.parallel", "sm90.wgmma.fp8"), fp8(by_row), nullptr, "row-scaled"},
        {sliced("cublaslt.splitk.compute", "sm80.mma.fp16"), half, "cublaslt.splitk.compute", "reconstructed"},
        {sliced("cutlass2.splitk.parallel", "fp32.chain"), {}, nullptr, nullptr},
        {sliced("cutlass2.splitk.parallel", "fp32.kahan"), {}, nullptr, "no library has a kernel"},
    };
    for (const Case& c : cases) {
        const NamedMatmulRule* name = c.name == nullptr ? nullptr : find_matmul_rule(c.name);
        const std::string open = check_matmul_rule(c.rule, c.use, "here", name);
        CAPTURE(to_string(c.rule), open, c.why);
        CHECK(open.empty() == (c.why == nullptr));
        if (c.why != nullptr) CHECK(open.find(c.why) != std::string::npos);
    }
}

TEST_CASE("a tf32 machine ignores the low 13 bits of fp32 operands, and other machines refuse fp32 operands",
          "[emulation][rules]") {
    Operands8 x(fp32), cut = x;
    for (std::vector<float>* values : {&cut.a, &cut.b}) {
        for (float& v : *values) v = bit_cast<float>(bit_cast<std::uint32_t>(v) & ~0x1fffu);
    }
    CHECK(cut.a != x.a);
    for (const auto& backend : backends({1})) {
        for (const char* name : {"sm80.mma.tf32", "sm90.wgmma.tf32", "cdna3.mfma.xf32"}) {
            std::vector<float> words(m * n), whole_numbers(m * n);
            backend->matmul(matmul_of(x, on(name), Scales::none, words.data(), fp32));
            backend->matmul(matmul_of(cut, on(name), Scales::none, whole_numbers.data(), tf32));
            CAPTURE(backend->name(), name);
            CHECK(differences(words, whole_numbers) == "");
        }
        std::vector<float> out(m * n);
        for (const char* name : {"sm90.wgmma.bf16", "sm90.wgmma.fp8", "sm90.mma.fp64", "sm70.mma.fp16.c16"}) {
            CAPTURE(name);
            CHECK_THROWS_AS(backend->matmul(matmul_of(x, on(name), Scales::none, out.data(), fp32)), Error);
        }
        const MatmulRule oddly{
            .machine = machine("sm90.wgmma.fp8"), .promotion = Promotion::add, .promotion_interval = 48};
        CHECK_THROWS_AS(backend->matmul(matmul_of(x, oddly, Scales::none, out.data())), Error);
        CHECK_THROWS_AS(backend->matmul(matmul_of(x, on("sm90.wgmma.fp8"), Scales::blocks, out.data())), Error);
        CHECK_THROWS_AS(backend->matmul(matmul_of(x, {}, Scales::blocks, out.data())), Error);
    }
}

}  // namespace matmul_rules_test
