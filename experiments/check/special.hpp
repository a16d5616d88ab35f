// SPDX-License-Identifier: Apache-2.0
// erf and tanh in fp64 for references: + - * / fma and core's exp, so that a verdict has the same bits everywhere.
#pragma once
#include "experiments/check/wide.hpp"

#include <array>

namespace macheps::check {

/// Within 2^-48 of erf x, relatively.
double error_function(double x);
/// Within 2^-49 of tanh x, relatively.
double hyperbolic_tangent(double x);

inline Wide error_function(Wide x) {
    const double y = error_function(x.high);
    constexpr double slope = 0x1.20dd750429b6dp+0;  // 2 / sqrt(pi)
    return x.low == 0 || !std::isfinite(y) ? Wide{y, 0} : settled(y, slope * math::exp(-x.high * x.high) * x.low);
}
inline Wide hyperbolic_tangent(Wide x) {
    const double y = hyperbolic_tangent(x.high);
    return x.low == 0 || !std::isfinite(y) ? Wide{y, 0} : settled(y, (1 - y * y) * x.low);
}
/// 1 / (1 + e^-x), within 2^-49 relatively.
inline Wide logistic(Wide x) {
    if (std::isnan(x.high)) return x;
    const Wide e = exponential(-x);
    return std::isinf(e.high) ? Wide{0, 0} : Wide{1, 0} / (Wide{1, 0} + e);
}
inline Wide square_root(Wide x) {
    if (x.high == 0 || !std::isfinite(x.high) || x.high < 0) return {sqrt(x.high), 0};
    return x * inverse_root(x);
}

}  // namespace macheps::check
