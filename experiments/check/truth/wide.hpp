// SPDX-License-Identifier: Apache-2.0
// Double-double arithmetic for exact results. Operations have relative errors below 2^-100. Infinities and NaN behave
// as in fp64. erf and tanh are computed in fp64. Both functions use only + - * / fma and core's exp, so that a verdict
// has the same bits on every machine.
#pragma once
#include "core/math64.hpp"

#include <array>
#include <cmath>

namespace macheps::check {

struct Wide {
    double high = 0, low = 0;  ///< the value is high + low; `high` is the value rounded to fp64
};

// Versions for double of the functions that wide.inl uses.
inline bool is_finite(double x) { return std::isfinite(x); }
inline double select(bool condition, double x, double y) { return condition ? x : y; }
inline double size_of(double x) { return std::fabs(x); }
inline double floor_of(double x) { return std::floor(x); }
inline double max_of(double x) { return x; }
inline bool any_of(bool x) { return x; }
using math::exp;

/// Element k is 1 / (2 k + 1), a factor in the series of erf. The series needs fewer than 14 + 6 * 25 = 164 terms if
/// |x| < 6.
inline constexpr int max_terms = 164;
inline constexpr auto odd_reciprocals = [] {
    std::array<double, max_terms + 1> all{};
    for (int k = 0; k <= max_terms; ++k) all[static_cast<std::size_t>(k)] = 1.0 / (2 * k + 1);
    return all;
}();

#define MACHEPS_MATH_FN inline
#define MACHEPS_MATH_REAL double
#define MACHEPS_MATH_WIDE Wide
#include "experiments/check/truth/wide.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_WIDE

/// Returns 1 / sqrt(x), by two Newton steps from the result in fp64.
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

/// Returns log x with a relative error below 2^-51.
inline Wide logarithm(Wide x) {
    const double high = math::log(x.high);
    return std::isfinite(high) && x.high > 0 ? settled(high, x.low / x.high) : Wide{high, 0};
}

}  // namespace macheps::check
