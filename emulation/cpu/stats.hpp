// SPDX-License-Identifier: Apache-2.0
// What Backend says about whole tensors: amax, non-finite values, errors, exponents, norms. Every instruction set and
// every number of threads returns the bits of the scalar definitions below.
#pragma once
#include "core/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd.hpp"
#include "emulation/reduce.hpp"

namespace macheps {

namespace definition {

/// One pair's terms of ErrorSums: each product and difference rounded to fp64 (products of two fp32 are exact).
struct ErrorTerms {
    double error2 = 0, x2 = 0, y2 = 0, xy = 0;

    constexpr ErrorTerms& operator+=(const ErrorTerms& other) {
        error2 += other.error2;
        x2 += other.x2;
        y2 += other.y2;
        xy += other.xy;
        return *this;
    }
};

constexpr bool is_finite(float x) { return (bit_cast<std::uint32_t>(x) & 0x7fffffffu) < 0x7f800000u; }

/// y' = fl32(y * decode_scale), or y itself when the scale is 1.
constexpr float decoded(float y, float decode_scale) { return decode_scale == 1 ? y : y * decode_scale; }

/// The terms of x and y'; zeros where either is not finite.
constexpr ErrorTerms error_terms(float x, float y) {
    if (!is_finite(x) || !is_finite(y)) return {};
    const double a = x, b = y, error = b - a;
    return {error * error, a * a, b * b, a * b};
}

/// floor(log2 |x|) of a finite x != 0.
constexpr int exponent_of(float x) {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    return magnitude >= 0x800000u ? static_cast<int>(magnitude >> 23) - 127 : -86 - countl_zero(magnitude);
}

}  // namespace definition

/// max |x|; NaN wins (then the result is the canonical NaN); 0 when n == 0.
float amax_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// True when an Inf or a NaN is among x.
bool any_nonfinite_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// Sums of definition::error_terms(x, fl32(y * decode_scale)) in fp64 by the lane rule; `count` is how many pairs are
/// finite.
ErrorSums compare_arrays(Simd simd, ThreadPool& pool, const float* x, const float* y, std::int64_t n,
                         float decode_scale = 1);

/// Counts of floor(log2 |x|).
ExponentHistogram exponents_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// The sum of fl32(x * x) in fp32 by the lane rule; a NaN result is the canonical one.
float sum_of_squares_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

}  // namespace macheps
