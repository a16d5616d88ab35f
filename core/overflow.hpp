// SPDX-License-Identifier: Apache-2.0
// Detects whether a rounding overflows, even if the result does not show the overflow. An overflow gives the largest
// finite value if the format has no Inf and NaN, or if the rounding mode rounds inward.
#pragma once
#include "core/codec.hpp"

namespace macheps {

/// Returns true if `x`, rounded to the precision of `f` with an unbounded exponent, exceeds the largest finite number
/// of `f` in magnitude (IEEE 754-2019 7.4). Returns false for Inf and NaN, whose rounding is exact.
MACHEPS_HD constexpr bool overflows(Format f, Unpacked x, Round mode, RandomBits random = {}) {
    if (x.kind != Unpacked::Kind::finite || x.significand == 0) return false;
    const int top = detail::bit_length(x.significand) - 1 + x.exponent;
    const double largest = decode64(f, f.max_finite_code() << f.padding);
    const Unpacked most = unpack(largest);
    const int max_top = detail::bit_length(most.significand) - 1 + most.exponent;
    if (top != max_top) return top > max_top;
    // In the top binade, every number has the same last place as the largest number. This holds for every encoding.
    const int quantum = (f.encoding == Encoding::fixed_point ? f.emin() : max_top) - f.fraction_bits();
    const std::uint64_t places = round_shift(x.significand, quantum - x.exponent, mode, x.negative, random);
    const int up = most.exponent - quantum;  // left shift that converts `largest` to multiples of 2^quantum
    return places > (up >= 0 ? most.significand << up : most.significand >> -up);
}

/// Returns true if an overflow may give a finite result.
MACHEPS_HD constexpr bool hides_overflow(Format f, Round mode) {
    return !f.can_overflow() || rounds_inward(mode, false) || rounds_inward(mode, true);
}

static_assert(overflows(e2m1fn, unpack(7.0), Round::nearest_even) &&
              !overflows(e2m1fn, unpack(6.9), Round::nearest_even));
static_assert(!overflows(e4m3fn, unpack(464.0), Round::nearest_even) &&
              overflows(e4m3fn, unpack(465.0), Round::nearest_even));
static_assert(overflows(mxint8, unpack(-2.0), Round::nearest_even) &&
              !overflows(mxint8, unpack(1.99), Round::nearest_even));
static_assert(!overflows(fp16, unpack(65535.0), Round::toward_zero) &&
              overflows(fp16, unpack(65536.0), Round::toward_zero));
static_assert(hides_overflow(e3m2fn, Round::nearest_even) && hides_overflow(fp32, Round::down) &&
              !hides_overflow(fp32, Round::stochastic));

}  // namespace macheps
