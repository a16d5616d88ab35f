// SPDX-License-Identifier: Apache-2.0
// Macros and functions for code that is compiled both for the CPU (host) and the GPU (device).
#pragma once
#include <bit>
#include <cstdint>

#if defined(__FAST_MATH__)
#error "macheps: -ffast-math changes results, which must be the same bits everywhere; compile without it"
#endif

#if defined(__CUDACC__)
#define MACHEPS_HD __host__ __device__
#else
#define MACHEPS_HD
#endif

namespace macheps {

template <class To, class From>
MACHEPS_HD constexpr To bit_cast(const From& x) {
    static_assert(sizeof(To) == sizeof(From));
    return __builtin_bit_cast(To, x);
}

MACHEPS_HD constexpr int countl_zero(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) return __clzll(static_cast<long long>(x));
    int n = 0;
    for (; n < 64 && (x >> (63 - n)) == 0; ++n) {
    }
    return n;
#else
    return std::countl_zero(x);
#endif
}

template <class T>
MACHEPS_HD constexpr T max_of(T a, T b) {
    return a < b ? b : a;
}
template <class T>
MACHEPS_HD constexpr T min_of(T a, T b) {
    return b < a ? b : a;
}

/// Returns a b + c with one rounding, for normal and subnormal results, as IEEE 754's fusedMultiplyAdd does. The host
/// needs no fma instruction.
inline float fma_by_doubles(float a, float b, float c) {
    const double product = static_cast<double>(a) * b;  // exact: it has at most 48 bits
    const double sum = product + c;
    constexpr double min_normal = 0x1p-126;
    constexpr std::uint64_t below_float = (std::uint64_t{1} << 29) - 1, midpoint = std::uint64_t{1} << 28;
    // `sum` is rounded to the 53 bits of a double. Rounding it again, to a float, can only give a wrong result if `sum` is
    // halfway between two floats, or if floats of its size are subnormal and have fewer bits.
    std::uint64_t bits = bit_cast<std::uint64_t>(sum);
    const bool is_safe = (bits & below_float) != midpoint && (sum >= min_normal || sum <= -min_normal);
    if (is_safe || sum == 0 || sum != sum) return static_cast<float>(sum);
    // The exact sum is sum + lost (TwoSum). If something was lost and the last bit of `sum` is 0, `sum` moves to its
    // neighbour in the direction of `lost`. This is rounding to odd, after which the second rounding is correct.
    const double addend = sum - product;
    const double lost = (product - (sum - addend)) + (c - addend);
    if (lost != 0 && (bits & 1) == 0) bits = (lost > 0) == (sum > 0) ? bits + 1 : bits - 1;
    return static_cast<float>(bit_cast<double>(bits));
}

/// Returns a b + c with one rounding (IEEE 754 fusedMultiplyAdd). On a CPU without FMA, glibc computes the same result
/// in software. Other C libraries may not: musl's fmaf rounds some subnormal results twice.
MACHEPS_HD inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#elif defined(__GLIBC__) || defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return fma_by_doubles(a, b, c);
#endif
}
MACHEPS_HD inline double fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
    return __fma_rn(a, b, c);
#else
    return __builtin_fma(a, b, c);
#endif
}

/// Returns the correctly rounded square root.
MACHEPS_HD inline float sqrt(float x) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}
MACHEPS_HD inline double sqrt(double x) {
#if defined(__CUDA_ARCH__)
    return __dsqrt_rn(x);
#else
    return __builtin_sqrt(x);
#endif
}

}  // namespace macheps
