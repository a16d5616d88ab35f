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

/// Returns a b + c with one rounding (IEEE 754 fusedMultiplyAdd). On a CPU without FMA, the C library computes the same
/// result in software.
MACHEPS_HD inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
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
