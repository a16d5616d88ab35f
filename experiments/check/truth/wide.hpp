// SPDX-License-Identifier: Apache-2.0
// Double-double arithmetic, in which references are computed: relative errors below 2^-100. What is not finite behaves as
// fp64 says. erf and tanh are fp64 functions: + - * / fma and core's exp, so that a verdict has the same bits everywhere.
#pragma once
#include "core/math64.hpp"

#include <array>
#include <cmath>

namespace macheps::check {

struct Wide {
    double high = 0, low = 0;  ///< high is their sum, rounded
};

// The words of wide.inl.
inline bool is_finite(double x) { return std::isfinite(x); }
inline double select(bool condition, double x, double y) { return condition ? x : y; }
inline double size_of(double x) { return std::fabs(x); }
inline double floor_of(double x) { return std::floor(x); }
inline double most_of(double x) { return x; }
inline bool any_of(bool x) { return x; }
using math::exp;

/// 1 / (2 k + 1), as far as erf needs them: of magnitudes below 6 fewer than 14 + 6 25 terms.
inline constexpr int most_terms = 164;
inline constexpr auto odd_reciprocals = [] {
    std::array<double, most_terms + 1> all{};
    for (int k = 0; k <= most_terms; ++k) all[static_cast<std::size_t>(k)] = 1.0 / (2 * k + 1);
    return all;
}();

#define MACHEPS_MATH_FN inline
#define MACHEPS_MATH_REAL double
#define MACHEPS_MATH_WIDE Wide
#include "experiments/check/truth/wide.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_WIDE

/// 1 / sqrt(x), by two steps of Newton's iteration from fp64's.
inline Wide inverse_root(Wide x) {
    const double start = 1 / sqrt(x.high);
    if (!std::isfinite(start) || start == 0) return {start, 0};
    Wide y{start, 0};
    for (int i = 0; i < 2; ++i) y = y + y * (Wide{1, 0} - x * y * y) * Wide{0.5, 0};
    return y;
}

inline Wide square_root(Wide x) {
    if (x.high == 0 || !std::isfinite(x.high) || x.high < 0) return {sqrt(x.high), 0};
    return x * inverse_root(x);
}

/// Within 2^-51 of log x, relatively.
inline Wide logarithm(Wide x) {
    const double high = math::log(x.high);
    return std::isfinite(high) && x.high > 0 ? settled(high, x.low / x.high) : Wide{high, 0};
}

}  // namespace macheps::check
