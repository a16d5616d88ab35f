// SPDX-License-Identifier: Apache-2.0
// Software arithmetic with 113 digits, for reference solutions and for residuals in the format `fp128`. Within the
// range of IEEE binary128, the results have the same bits as binary128, with every compiler.
#pragma once
#include "experiments/study/arithmetic.hpp"

#include <boost/multiprecision/cpp_bin_float.hpp>

namespace macheps::study {

using Quad = boost::multiprecision::cpp_bin_float_quad;

struct QuadArithmetic {
    using Number = Quad;
    static Quad from(double x) { return Quad(x); }
    static double to_double(const Quad& x) { return static_cast<double>(x); }
    static Quad add(const Quad& a, const Quad& b) { return a + b; }
    static Quad sub(const Quad& a, const Quad& b) { return a - b; }
    static Quad mul(const Quad& a, const Quad& b) { return a * b; }
    static Quad div(const Quad& a, const Quad& b) { return a / b; }
    static Quad sqrt(const Quad& a) { return boost::multiprecision::sqrt(a); }
};

/// Rounds a number of 113 digits to fp64, or to a format with at least two digits fewer than fp64. In the second case,
/// the number is first rounded to odd in fp64, so that the result is the same as with a single rounding.
inline double rounded_quad(const Quad& x, const Format& format) {
    double near = static_cast<double>(x);
    if (format == fp64 || !std::isfinite(near)) return near;
    if (Quad(near) != x && (bit_cast<std::uint64_t>(near) & 1) == 0) {
        near = std::nextafter(near, Quad(near) < x ? HUGE_VAL : -HUGE_VAL);
    }
    return decode64(format, encode64(format, near, Round::nearest_even, Overflow::nonsaturate));
}

/// Calls `use` with the arithmetic of a format, which may be fp128.
template <class Use>
decltype(auto) with_wide_arithmetic(const Format& format, Use&& use) {
    if (format == fp128) return std::forward<Use>(use)(QuadArithmetic{});
    return with_arithmetic(format, std::forward<Use>(use));
}

}  // namespace macheps::study
