// SPDX-License-Identifier: Apache-2.0
// Tests the machine fp32.chain with scales. If a scale changes along k, the chain is cut at each change, and each part
// is multiplied by its scales. Otherwise the whole sum is multiplied by the scales at the end.
#include "core/error.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/emulation/backends.hpp"

#include <cmath>
#include <random>
#include <vector>

namespace chain_scales_test {

using namespace macheps;

namespace {

struct Shapes {
    std::int64_t m, n, k;
};

/// An operand of shape [outer, k]: its codes, and one scale for each group of its granularity. Both are outer-major.
struct Operand {
    std::vector<float> codes, scales;
    const Granularity* granularity;
    std::int64_t outer, k;

    Operand(const char* name, std::int64_t outer_count, std::int64_t terms, std::mt19937& random)
        : granularity(find_granularity(name)), outer(outer_count), k(terms) {
        for (std::int64_t i = 0; i < outer * k; ++i) {
            codes.push_back(static_cast<float>(static_cast<int>(random() % 29) - 14) * 0.125f);
        }
        for (std::int64_t i = 0; i < groups_down() * groups_across(); ++i) {
            scales.push_back(
                std::ldexp(1 + static_cast<float>(random() % 1000) / 1024, static_cast<int>(random() % 9) - 4));
        }
    }
    std::int64_t groups_down() const {
        return granularity->outer == 0 ? 1 : (outer + granularity->outer - 1) / granularity->outer;
    }
    std::int64_t groups_across() const { return granularity->k == 0 ? 1 : (k + granularity->k - 1) / granularity->k; }
    float scale(std::int64_t i, std::int64_t p) const {
        const std::int64_t row = granularity->outer == 0 ? 0 : i / granularity->outer;
        return scales[static_cast<std::size_t>(row * groups_across() + (granularity->k == 0 ? 0 : p / granularity->k))];
    }
    float code(std::int64_t i, std::int64_t p) const { return codes[static_cast<std::size_t>(i * k + p)]; }
    OperandScales on(const float* data) const {
        if (!granularity->is_scaled()) return {};
        return {.data = data,
                .outer_block = max_of(granularity->outer, std::int64_t{1}),
                .k_block = max_of(granularity->k, std::int64_t{1}),
                .outer_stride = granularity->outer == 0 ? 0 : groups_across(),
                .k_stride = granularity->k == 0 ? 0 : 1};
    }
    /// Returns the codes as they are stored in memory: [outer, k], or its transpose.
    std::vector<float> stored(bool transposed) const {
        if (!transposed) return codes;
        std::vector<float> out(codes.size());
        for (std::int64_t i = 0; i < outer; ++i) {
            for (std::int64_t p = 0; p < k; ++p) out[static_cast<std::size_t>(p * outer + i)] = code(i, p);
        }
        return out;
    }
};

/// Computes one output as the rule is documented. Each partial sum takes one fma per term. Then another fma multiplies
/// the partial sum by its scales and adds it to the main sum.
float expected(const Operand& a, const Operand& b, std::int64_t i, std::int64_t j, int interval, Promotion promotion) {
    float main = 0;
    const std::int64_t length = interval == 0 ? max_of(a.k, std::int64_t{1}) : interval;
    for (std::int64_t first = 0; first < a.k; first += length) {
        float partial = 0;
        for (std::int64_t p = first; p < min_of(first + length, a.k); ++p) {
            partial = std::fma(a.code(i, p), b.code(j, p), partial);
        }
        const float sa = a.scale(i, first), sb = b.scale(j, first);
        if (interval == 0) return partial * (sa * sb);
        main = promotion == Promotion::fma_joint ? std::fma(partial, sa * sb, main) : std::fma(partial * sa, sb, main);
    }
    return main;
}

}  // namespace

TEST_CASE("a chain that starts a new partial sum where scales change gives the bits of its definition, on every engine",
          "[emulation][scale]") {
    struct Kind {
        const char *a, *b;
        int interval;
        Promotion promotion;
    };
    const Kind kinds[] = {{"1x128", "128x128", 128, Promotion::fma_joint},
                          {"1x128", "1x128", 128, Promotion::fma_left},
                          {"mx32", "mx32", 32, Promotion::fma_joint},
                          {"nvfp4", "nvfp4_16x16", 16, Promotion::fma_joint},
                          {"mx32", "mx32_32x32", 32, Promotion::fma_joint},
                          {"mx32", "tensor", 32, Promotion::fma_joint},
                          {"row", "column", 0, Promotion::none},
                          {"row", "tensor", 0, Promotion::none},
                          {"1x128", "1x128", 32, Promotion::fma_joint}};
    const auto engines = test::backends({1, 2});
    std::mt19937 random(7);
    for (const Kind& kind : kinds) {
        for (const Shapes s :
             {Shapes{1, 1, 1}, {13, 37, 200}, {64, 70, 512}, {130, 33, 47}, {5, 600, 801}, {3, 4, 0}}) {
            const Operand a(kind.a, s.m, s.k, random), b(kind.b, s.n, s.k, random);
            std::vector<float> want;
            for (std::int64_t i = 0; i < s.m; ++i) {
                for (std::int64_t j = 0; j < s.n; ++j) {
                    want.push_back(expected(a, b, i, j, kind.interval, kind.promotion) * 0.375f);
                }
            }
            for (const auto& engine : engines) {
                for (const int layout : {0, 1, 2, 3}) {
                    CAPTURE(kind.a, kind.b, s.m, s.n, s.k, engine->name(), layout);
                    const bool at = (layout & 1) != 0, bt = (layout & 2) != 0;
                    const auto up = [&](std::vector<float> values) {
                        values.resize(values.empty() ? 1 : values.size());
                        return test::uploaded(*engine, values, {static_cast<std::int64_t>(values.size())});
                    };
                    const Tensor ta = up(a.stored(at));
                    const Tensor tb = up(b.stored(!bt));
                    const Tensor sa = up(a.scales), sb = up(b.scales);
                    const Tensor out = engine->empty({s.m, s.n});
                    Matmul args{.m = s.m, .n = s.n, .k = s.k};
                    args.a = {.data = ta.data(), .ld = at ? s.m : s.k, .transposed = at, .scales = a.on(sa.data())};
                    args.b = {.data = tb.data(), .ld = bt ? s.k : s.n, .transposed = bt, .scales = b.on(sb.data())};
                    args.out = out.data();
                    args.ld_out = s.n;
                    args.rule.promotion = kind.promotion;
                    args.rule.promotion_interval = kind.interval;
                    args.out_scale = 0.375f;
                    engine->matmul(args);
                    CHECK(test::differences(test::downloaded(*engine, out), want) == "");
                }
            }
        }
    }
}

TEST_CASE("bias, order of scales and cast of a scaled chain agree with the definition", "[emulation][scale]") {
    const auto engines = test::backends({1, 2});
    std::mt19937 random(8);
    const Operand a("row", 50, 130, random), b("column", 75, 130, random), ax("mx32", 50, 130, random),
        bx("mx32", 75, 130, random);
    std::vector<float> bias;
    for (int j = 0; j < 75; ++j) bias.push_back(0.01f * static_cast<float>(j) - 0.3f);
    for (const bool by_block : {false, true}) {
        for (const ScaleOrder order : {ScaleOrder::joint, ScaleOrder::a_first, ScaleOrder::b_first}) {
            for (const bool after : {false, true}) {
                std::vector<float> want;
                for (const auto& engine : engines) {
                    CAPTURE(by_block, int(order), after, engine->name());
                    const Operand &x = by_block ? ax : a, &y = by_block ? bx : b;
                    const Tensor ta = test::uploaded(*engine, x.stored(false), {50, 130});
                    const Tensor tb = test::uploaded(*engine, y.stored(true), {130, 75});
                    const Tensor sa = test::uploaded(*engine, x.scales, {static_cast<std::int64_t>(x.scales.size())});
                    const Tensor sb = test::uploaded(*engine, y.scales, {static_cast<std::int64_t>(y.scales.size())});
                    const Tensor tbias = test::uploaded(*engine, bias, {75});
                    const Tensor out = engine->empty({50, 75});
                    Matmul args{.m = 50, .n = 75, .k = 130};
                    args.a = {.data = ta.data(), .ld = 130, .scales = x.on(sa.data())};
                    args.b = {.data = tb.data(), .ld = 75, .scales = y.on(sb.data())};
                    args.out = out.data();
                    args.ld_out = 75;
                    args.rule.scale_order = order;
                    args.rule =
                        with_block_scales(args.rule, scale_layout(*x.granularity), scale_layout(*y.granularity));
                    CHECK(args.rule.promotion_interval == (by_block ? 32 : 0));
                    args.bias = tbias.data();
                    args.bias_after_cast = after;
                    args.out_cast.format = bf16;
                    Tally tally;
                    engine->matmul(args, &tally);
                    CHECK(tally.count == 50 * 75);
                    const auto got = test::downloaded(*engine, out);
                    if (want.empty()) want = got;
                    CHECK(test::differences(got, want) == "");
                }
            }
        }
    }
}

TEST_CASE("a sum is divided into partial sums where scales change, and only there", "[emulation][scale]") {
    MatmulRule rule{.promotion = Promotion::add, .promotion_interval = 128};
    CHECK_THROWS_AS(require_possible(rule, {}, "here"), Error);
    rule.promotion = Promotion::fma_joint;
    CHECK_NOTHROW(require_possible(rule, {}, "here"));
    const ScaleLayout by_128 = scale_layout(*find_granularity("1x128")),
                      by_32 = scale_layout(*find_granularity("mx32"));
    const ScaleLayout whole = scale_layout(*find_granularity("tensor")), rows = scale_layout(*find_granularity("row"));
    CHECK(with_block_scales({}, whole, rows) == MatmulRule{});
    CHECK(with_block_scales({}, by_128, rows).promotion_interval == 128);
    CHECK(with_block_scales({}, whole, by_32).promotion_interval == 32);
    CHECK(with_block_scales({}, by_128, by_32).promotion_interval == 32);
    CHECK(with_block_scales({.machine = find_machine("sm100.tcgen05.mxfp8")}, by_32, by_32).promotion ==
          Promotion::none);
}

}  // namespace chain_scales_test
