// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/special.hpp"

namespace macheps::check {

namespace {

constexpr int most_terms = 160;

/// 1 / (2 k + 1).
constexpr auto odd_reciprocals = [] {
    std::array<double, most_terms + 1> all{};
    for (int k = 0; k <= most_terms; ++k) all[static_cast<std::size_t>(k)] = 1.0 / (2 * k + 1);
    return all;
}();

/// (e^t - 1) / t for |t| up to 0.7, by its series.
double growth(double t) {
    double p = 1;
    for (int k = 17; k >= 2; --k) p = 1 + p * t / k;
    return p;
}

}  // namespace

double error_function(double x) {
    const double size = std::fabs(x), square = x * x;
    if (std::isnan(x)) return x;
    if (size >= 6) return x < 0 ? -1 : 1;  // 1 - erf 6 is 2e-17
    // erf x = 2 / sqrt(pi) x e^(-x^2) (1 + 2 x^2 / 3 (1 + 2 x^2 / 5 (1 + ...))): no term is negative.
    const int terms = 14 + static_cast<int>(size * (10 + 2.5 * size));
    double series = 1;
    for (int k = terms; k >= 1; --k) series = 1 + series * (2 * square * odd_reciprocals[static_cast<std::size_t>(k)]);
    // The rounding of x^2 is 2^-53 of up to 36: what it leaves out counts.
    const double lost = fma(x, x, -square);
    return 0x1.20dd750429b6dp+0 * x * series * (math::exp(-square) * (1 - lost));
}

double hyperbolic_tangent(double x) {
    const double size = std::fabs(x);
    if (std::isnan(x)) return x;
    if (size > 22) return x < 0 ? -1 : 1;
    double y = 0;
    if (size < 0.35) {
        const double grown = 2 * size * growth(2 * size);  // e^(2 |x|) - 1
        y = grown / (grown + 2);
    } else {
        const double e = math::exp(-2 * size);
        y = (1 - e) / (1 + e);
    }
    return x < 0 ? -y : y;
}

}  // namespace macheps::check
