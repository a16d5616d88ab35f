// SPDX-License-Identifier: Apache-2.0
// Double-double arithmetic, in which references are computed: relative errors below 2^-100. What is not finite behaves as
// fp64 says. Sources: Dekker 1971; Knuth, TAOCP 2, 4.2.2; Joldes, Muller and Popescu, ACM TOMS 44(2), 2017.
#pragma once
#include "core/math64.hpp"

#include <cmath>

namespace macheps::check {

struct Wide {
    double high = 0, low = 0;  ///< high is their sum, rounded
};

inline Wide settled(double high, double low) {
    const double top = high + low;
    return std::isfinite(top) ? Wide{top, low - (top - high)} : Wide{top, 0};
}

inline Wide operator+(Wide x, Wide y) {
    const double high = x.high + y.high, back = high - x.high;
    if (!std::isfinite(high)) return {high, 0};
    const double low = (x.high - (high - back)) + (y.high - back);
    const double low_high = x.low + y.low, low_back = low_high - x.low;
    const double low_low = (x.low - (low_high - low_back)) + (y.low - low_back);
    const Wide first = settled(high, low + low_high);
    return settled(first.high, first.low + low_low);
}
inline Wide operator-(Wide x) { return {-x.high, -x.low}; }
inline Wide operator-(Wide x, Wide y) { return x + -y; }

inline Wide operator*(Wide x, Wide y) {
    const double high = x.high * y.high;
    if (!std::isfinite(high)) return {high, 0};
    return settled(high, fma(x.high, y.high, -high) + (x.high * y.low + x.low * y.high));
}

inline Wide operator/(Wide x, Wide y) {
    const double first = x.high / y.high;
    if (!std::isfinite(first) || !std::isfinite(y.high)) return {first, 0};
    const Wide rest = x - y * Wide{first, 0};
    const double second = rest.high / y.high;
    const Wide last = rest - y * Wide{second, 0};
    return settled(first, second + last.high / y.high);
}

/// 1 / sqrt(x), by two steps of Newton's iteration from fp64's.
inline Wide inverse_root(Wide x) {
    const double start = 1 / sqrt(x.high);
    if (!std::isfinite(start) || start == 0) return {start, 0};
    Wide y{start, 0};
    for (int i = 0; i < 2; ++i) y = y + y * (Wide{1, 0} - x * y * y) * Wide{0.5, 0};
    return y;
}

/// Within 2^-51 of e^x, relatively: core's exp has an error below an ulp.
inline Wide exponential(Wide x) {
    const double high = math::exp(x.high);
    return std::isfinite(high) ? settled(high, high * x.low) : Wide{high, 0};
}

/// Within 2^-51 of log x, relatively.
inline Wide logarithm(Wide x) {
    const double high = math::log(x.high);
    return std::isfinite(high) && x.high > 0 ? settled(high, x.low / x.high) : Wide{high, 0};
}

}  // namespace macheps::check
