// SPDX-License-Identifier: Apache-2.0
// Compares the errors of scaling schemes on random numbers with the figures in the specification (fp8-recipes), which
// were measured with a prototype.
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/scaling/scaling.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace fidelity_test {

using namespace macheps;

namespace {

constexpr std::int64_t side = 1024;

struct Fidelity {
    double sqnr_db = 0, shrink = 0, underflow_percent = 0;
};

Fidelity fidelity(const std::vector<float>& x, const char* format, const char* granularity, const char* rule,
                  bool stochastic) {
    CpuBackend backend(1);
    const Granularity& block = *find_granularity(granularity);
    Cast cast{.format = format_named(format, ""), .overflow = Overflow::saturate};
    if (stochastic) {
        cast.round = Round::stochastic;
        cast.key = {1, 2, 3};
    }
    const ScaledCast how{
        .cast = cast, .granularity = &block, .rule = rule == nullptr ? usual_rule(block) : find_scale_rule(rule)};
    const ScaleGrid grid = scale_grid(block, true, side, side);
    const Tensor in = backend.empty({side, side}), codes = backend.empty({side, side}),
                 out = backend.empty({side, side});
    const Tensor scales = backend.empty({grid.rows, grid.columns});
    backend.upload(x, in);
    const ScaledResult made = backend.scaled_cast(in, codes, scales, how);
    backend.decode_groups(codes, made.scales, true, made.tensor.decode, out);
    std::vector<float> y(x.size()), q(x.size());
    backend.download(out, y);
    backend.download(codes, q);
    double xx = 0, error = 0, xy = 0, flushed = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double a = double{x[i]}, b = double{y[i]};
        xx += a * a;
        xy += a * b;
        error += (b - a) * (b - a);
        flushed += x[i] != 0 && q[i] == 0 ? 1 : 0;
    }
    return {10 * std::log10(xx / error), xy / xx - 1, 100 * flushed / static_cast<double>(x.size())};
}

std::vector<float> normal(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> n;
    std::vector<float> x(side * side);
    for (float& each : x) each = n(random);
    return x;
}

}  // namespace

TEST_CASE("each scaling scheme has the errors of the specification's prototype on normally distributed numbers",
          "[emulation][scale]") {
    struct Row {
        const char *format, *granularity, *rule;
        bool stochastic;
        double sqnr_db, shrink, underflow_percent;
    };
    // These figures are from section 10.1 of the specification (fp8-recipes): 1024 x 1024 numbers of N(0, 1), scales
    // along rows.
    constexpr Row rows[] = {
        {"e4m3fn", "tensor", "ao_fp8", false, 31.54, -8e-4, 0.001},
        {"e4m3fn", "tensor", "te_current", false, 31.54, -8e-4, 0.001},
        {"e4m3fn", "row", "ao_fp8_power", false, 31.53, -8e-4, 0.001},
        {"e4m3fn", "1x128", "te_block", false, 31.53, -8e-4, 0.001},
        {"e4m3fn", "128x128", "te_block", false, 31.53, -8e-4, 0.001},
        {"e4m3fn", "1x128", "te_block_fp32", false, 31.80, -5e-4, 0},
        {"e4m3fn", "1x128", "deepgemm", false, 31.80, -5e-4, 0},
        {"e4m3fn", "mx32", "te_mxfp8", false, 31.53, -7e-4, 0.001},
        {"e4m3fn", "mx32", "ao_rceil", false, 31.53, -7e-4, 0.001},
        {"e4m3fn", "mx32", "ao_floor", false, 30.64, -2.8e-3, 0.001},
        {"e5m2", "tensor", "ao_fp8", false, 25.57, -2.7e-3, 0},
        {"e5m2", "mx32", "ao_rceil", false, 25.54, -2.9e-3, 0},
        {"e5m2", "mx32", "ao_floor", false, 25.35, -4.8e-3, 0},
        {"e2m1fn", "nvfp4", nullptr, false, 20.44, -4.6e-3, 6.8},
        {"e2m1fn", "nvfp4_16x16", nullptr, false, 19.08, -9.0e-3, 10.1},
        {"e2m1fn", "nvfp4", nullptr, true, 17.26, -3.1e-3, 6.8},
        {"e2m1fn", "mx32", "ao_rceil", false, 18.76, -1.0e-2, 10.7},
        {"e2m1fn", "mx32", "ao_floor", false, 18.79, -2.0e-2, 8.8},
        {"e2m1fn", "mx32", "ao_rceil", true, 15.67, -2e-4, 10.6},
    };
    const std::vector<float> x = normal(11);
    for (const Row& row : rows) {
        CAPTURE(row.format, row.granularity, row.rule == nullptr ? "" : row.rule, row.stochastic);
        const Fidelity f = fidelity(x, row.format, row.granularity, row.rule, row.stochastic);
        // The tolerances cover the last digits of the table and the scatter between samples of a million numbers.
        CHECK(std::fabs(f.sqnr_db - row.sqnr_db) < 0.04);
        // The error of stochastic rounding is about a sixth of a number's magnitude. For the mean of 1024^2 numbers,
        // four standard deviations are 6.5e-4.
        const double chance = row.stochastic ? 7e-4 : 2e-4;
        CHECK(std::fabs(f.shrink - row.shrink) < chance + 0.06 * std::fabs(row.shrink));
        CHECK(std::fabs(f.underflow_percent - row.underflow_percent) < 0.002 + 0.02 * row.underflow_percent);
    }
}

TEST_CASE("each scaling scheme has the errors that the specification reports for heavy tails and outliers",
          "[emulation][scale]") {
    std::vector<float> heavy = normal(12);
    const std::vector<float> exponents = normal(13);
    for (std::size_t i = 0; i < heavy.size(); ++i) heavy[i] *= std::exp(exponents[i]);
    struct Row {
        const char *format, *granularity, *rule;
        double sqnr_db, within;
    };
    // The largest of a million such numbers differs between samples. This affects schemes with one scale for all
    // numbers.
    for (const Row& row :
         {Row{"e4m3fn", "tensor", "ao_fp8", 31.6, 0.4}, Row{"e4m3fn", "1x128", "te_block_fp32", 33.8, 0.4},
          Row{"e2m1fn", "nvfp4", nullptr, 21.2, 0.4}, Row{"e2m1fn", "nvfp4_16x16", nullptr, 14.5, 1.0},
          Row{"e2m1fn", "mx32", "ao_rceil", 16.1, 0.4}}) {
        CAPTURE(row.format, row.granularity);
        CHECK(std::fabs(fidelity(heavy, row.format, row.granularity, row.rule, false).sqnr_db - row.sqnr_db) <
              row.within);
    }
    std::vector<float> outliers = normal(14);
    for (std::size_t r = 0; r < side; ++r) outliers[r * side + 5] *= 100;
    // An fp32 scale maps the outlier to exactly 448; a power of two does not.
    for (const Row& row :
         {Row{"e4m3fn", "1x128", "te_block_fp32", 42.4, 0.6}, Row{"e4m3fn", "1x128", "te_block", 31.5, 0.6},
          Row{"e4m3fn", "mx32", "ao_floor", 27.5, 0.6}}) {
        CAPTURE(row.rule);
        CHECK(std::fabs(fidelity(outliers, row.format, row.granularity, row.rule, false).sqnr_db - row.sqnr_db) <
              row.within);
    }
}

}  // namespace fidelity_test
