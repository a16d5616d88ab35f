// SPDX-License-Identifier: Apache-2.0
// Arithmetic with 113 digits in software, for references and for the format `fp128` of residuals. Inside the range of
// IEEE binary128 it has the same bits, with every compiler.
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

/// Rounds a number of 113 digits once to fp64, or to a format that has at least two digits less. In the second case it
/// is first rounded to odd in fp64.
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
