// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/row_update.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace macheps::study {

namespace {

// These loops are compiled once for each instruction set, and the compiler vectorises them. The rounding is passed by
// value so that its constants stay in registers.
template <class Real, class Round>
[[gnu::always_inline]] inline void row_loop(Round round, Real l, const Real* __restrict u, Real* __restrict a,
                                            std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) a[j] = round(a[j] - rounded_product(round, l, u[j]));
}

template <class Real, class Round>
[[gnu::always_inline]] inline void fused_row_loop(Round round, Real l, const Real* __restrict u, Real* __restrict a,
                                                  std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) a[j] = round(std::fma(-l, u[j], a[j]));
}

template <class Real, class Round>
[[gnu::always_inline]] inline void divide_loop(Round round, Real by, Real* a, std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) a[j] = rounded_quotient(round, a[j], by);
}

/// Returns the index of the largest magnitude. If several magnitudes are equal, the first one is chosen. Compares the
/// bits of the magnitudes, which have the same order. NaN counts as smaller than every magnitude, except that a NaN in
/// a[0] is chosen.
template <class Real>
[[gnu::always_inline]] inline std::int64_t largest_loop(const Real* a, std::int64_t n) {
    using Bits = std::conditional_t<std::is_same_v<Real, double>, std::int64_t, std::int32_t>;
    const auto key = [](Real x) __attribute__((always_inline)) {
        const auto magnitude = static_cast<Bits>(bit_cast<Bits>(x) & std::numeric_limits<Bits>::max());
        return static_cast<Bits>(magnitude |
                                 -static_cast<Bits>(magnitude > bit_cast<Bits>(std::numeric_limits<Real>::infinity())));
    };
    if (a[0] != a[0]) return 0;
    constexpr std::int64_t in_block = 64;
    Bits most = -1;
    std::int64_t block = 0;
    for (std::int64_t first = 0; first < n; first += in_block) {
        const std::int64_t last = std::min(first + in_block, n);
        Bits here = -1;
        for (std::int64_t j = first; j < last; ++j) here = std::max(here, key(a[j]));
        block = here > most ? first : block;
        most = std::max(most, here);
    }
    while (key(a[block]) != most) ++block;
    return block;
}

#if defined(__x86_64__)
/// Returns the rounding in a form that GCC 12 can vectorise for AVX2: a Rounder selects values with bit masks. Other
/// roundings are returned unchanged.
template <class Real>
auto by_masks(const Rounder<Real>& round) {
    return [round](Real x) __attribute__((always_inline)) { return round.template rounded<true>(x); };
}
template <class Round>
Round by_masks(const Round& round) {
    return round;
}

// The elements after the last full vector of a row are copied to a temporary vector, updated there, and copied back.

struct Avx2 {
    template <class Real>
    static constexpr std::int64_t width = 32 / sizeof(Real);

    [[gnu::always_inline, gnu::target("avx2")]] static __m256i mask32(std::int64_t n) {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    [[gnu::always_inline, gnu::target("avx2")]] static __m256i mask64(std::int64_t n) {
        return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    }
    [[gnu::always_inline, gnu::target("avx2")]] static void take(const float* from, std::int64_t n, float* to) {
        _mm256_storeu_ps(to, _mm256_maskload_ps(from, mask32(n)));
    }
    [[gnu::always_inline, gnu::target("avx2")]] static void take(const double* from, std::int64_t n, double* to) {
        _mm256_storeu_pd(to, _mm256_maskload_pd(from, mask64(n)));
    }
    [[gnu::always_inline, gnu::target("avx2")]] static void put(const float* from, std::int64_t n, float* to) {
        _mm256_maskstore_ps(to, mask32(n), _mm256_loadu_ps(from));
    }
    [[gnu::always_inline, gnu::target("avx2")]] static void put(const double* from, std::int64_t n, double* to) {
        _mm256_maskstore_pd(to, mask64(n), _mm256_loadu_pd(from));
    }
};

struct Avx512 {
    template <class Real>
    static constexpr std::int64_t width = 64 / sizeof(Real);

    [[gnu::always_inline, gnu::target("avx512f")]] static void take(const float* from, std::int64_t n, float* to) {
        _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(static_cast<__mmask16>((1 << n) - 1), from));
    }
    [[gnu::always_inline, gnu::target("avx512f")]] static void take(const double* from, std::int64_t n, double* to) {
        _mm512_storeu_pd(to, _mm512_maskz_loadu_pd(static_cast<__mmask8>((1 << n) - 1), from));
    }
    [[gnu::always_inline, gnu::target("avx512f")]] static void put(const float* from, std::int64_t n, float* to) {
        _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1 << n) - 1), _mm512_loadu_ps(from));
    }
    [[gnu::always_inline, gnu::target("avx512f")]] static void put(const double* from, std::int64_t n, double* to) {
        _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1 << n) - 1), _mm512_loadu_pd(from));
    }
};

// GCC does not inline a function into a caller that is compiled for fewer instructions, nor through a lambda between
// the two. There is therefore one function for each instruction set.

template <class Real, class Round>
[[gnu::always_inline, gnu::target("avx2,fma")]] inline void row_avx2(Round round, Real l, const Real* u, Real* a,
                                                                     std::int64_t n) {
    constexpr std::int64_t width = Avx2::width<Real>;
    const std::int64_t rest = n % width, whole = n - rest;
    row_loop(round, l, u, a, whole);
    if (rest == 0) return;
    Real x[width], y[width];
    Avx2::take(u + whole, rest, x);
    Avx2::take(a + whole, rest, y);
    row_loop(round, l, x, y, width);
    Avx2::put(y, rest, a + whole);
}
template <class Real, class Round>
[[gnu::always_inline, gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] inline void row_avx512(
    Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    constexpr std::int64_t width = Avx512::width<Real>;
    const std::int64_t rest = n % width, whole = n - rest;
    row_loop(round, l, u, a, whole);
    if (rest == 0) return;
    Real x[width], y[width];
    Avx512::take(u + whole, rest, x);
    Avx512::take(a + whole, rest, y);
    row_loop(round, l, x, y, width);
    Avx512::put(y, rest, a + whole);
}

/// Updates one vector of fp16 numbers. Rounds with the processor's conversion instructions, which round to nearest
/// even.
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void half_vector_avx2(__m256 factor, const float* x, float* y) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m256 p = _mm256_mul_ps(factor, _mm256_loadu_ps(x));
    const __m256 d = _mm256_sub_ps(_mm256_loadu_ps(y), _mm256_cvtph_ps(_mm256_cvtps_ph(p, nearest)));
    _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm256_cvtps_ph(d, nearest)));
}
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void half_row_avx2(float l, const float* u, float* a,
                                                                           std::int64_t n) {
    constexpr std::int64_t width = Avx2::width<float>;
    const __m256 factor = _mm256_set1_ps(l);
    std::int64_t j = 0;
    for (; j + width <= n; j += width) half_vector_avx2(factor, u + j, a + j);
    if (j == n) return;
    float x[width], y[width];
    Avx2::take(u + j, n - j, x);
    Avx2::take(a + j, n - j, y);
    half_vector_avx2(factor, x, y);
    Avx2::put(y, n - j, a + j);
}

/// Updates a row of fp16 numbers. Uses masked intrinsics, because the unmasked ones of GCC 12 read an undefined
/// register.
[[gnu::always_inline, gnu::target("avx512f,avx512dq,avx512vl,avx512bw")]] inline void half_row_avx512(float l,
                                                                                                      const float* u,
                                                                                                      float* a,
                                                                                                      std::int64_t n) {
    constexpr std::int64_t width = Avx512::width<float>;
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m512 factor = _mm512_set1_ps(l);
    for (std::int64_t j = 0; j < n; j += width) {
        const auto mask = static_cast<__mmask16>(n - j >= width ? 0xffff : (1 << (n - j)) - 1);
        const __m512 p = _mm512_mul_ps(factor, _mm512_maskz_loadu_ps(mask, u + j));
        const __m512 product = _mm512_maskz_cvtph_ps(mask, _mm512_maskz_cvtps_ph(mask, p, nearest));
        const __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, a + j), product);
        _mm512_mask_storeu_ps(a + j, mask, _mm512_maskz_cvtph_ps(mask, _mm512_maskz_cvtps_ph(mask, d, nearest)));
    }
}

template <class Real, class Round>
[[gnu::target("avx2,fma,f16c")]] void update_row_avx2(const Round& round, Real l, const Real* u, Real* a,
                                                      std::int64_t n) {
    if constexpr (std::is_same_v<Round, Rounder<float>>) {
        if (round.is_half()) return half_row_avx2(l, u, a, n);
    }
    row_avx2(by_masks(round), l, u, a, n);
}
template <class Real, class Round>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] void update_row_avx512(const Round& round, Real l,
                                                                                 const Real* u, Real* a,
                                                                                 std::int64_t n) {
    if constexpr (std::is_same_v<Round, Rounder<float>>) {
        if (round.is_half()) return half_row_avx512(l, u, a, n);
    }
    row_avx512(round, l, u, a, n);
}

template <class Real, class Round>
[[gnu::target("avx2,fma")]] void divide_row_avx2(const Round& round, Real by, Real* a, std::int64_t n) {
    divide_loop(by_masks(round), by, a, n);
}
template <class Real>
[[gnu::target("avx2,fma")]] std::int64_t largest_avx2(const Real* a, std::int64_t n) {
    return largest_loop(a, n);
}
template <class Real, class Round>
[[gnu::target("avx2,fma")]] void fused_row_avx2(Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    fused_row_loop(by_masks(round), l, u, a, n);
}
template <class Real, class Round>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] void divide_row_avx512(const Round& round, Real by, Real* a,
                                                                                 std::int64_t n) {
    divide_loop(round, by, a, n);
}
template <class Real>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] std::int64_t largest_avx512(const Real* a, std::int64_t n) {
    return largest_loop(a, n);
}
template <class Real, class Round>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,fma")]] void fused_row_avx512(Round round, Real l, const Real* u,
                                                                                Real* a, std::int64_t n) {
    fused_row_loop(round, l, u, a, n);
}
#endif

template <class Real, class Round>
void update_row_plain(const Round& round, Real l, const Real* u, Real* a, std::int64_t n) {
    row_loop(round, l, u, a, n);
}
template <class Real, class Round>
void divide_row_plain(const Round& round, Real by, Real* a, std::int64_t n) {
    divide_loop(round, by, a, n);
}
template <class Real>
std::int64_t largest_plain(const Real* a, std::int64_t n) {
    return largest_loop(a, n);
}
template <class Real, class Round>
void fused_row_plain(Round round, Real l, const Real* u, Real* a, std::int64_t n) {
    fused_row_loop(round, l, u, a, n);
}

}  // namespace

#if defined(__x86_64__)
#define MACHEPS_CHOOSE(name, ...) \
    choose(simd, name##_plain<__VA_ARGS__>, name##_avx2<__VA_ARGS__>, name##_avx512<__VA_ARGS__>)
#else
#define MACHEPS_CHOOSE(name, ...) (static_cast<void>(simd), name##_plain<__VA_ARGS__>)
#endif

template <class Real, class Round>
void update_row(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n) {
    MACHEPS_CHOOSE(update_row, Real, Round)(round, l, u, a, n);
}

template <class Real, class Round>
void divide_row(Simd simd, const Round& round, Real by, Real* a, std::int64_t n) {
    MACHEPS_CHOOSE(divide_row, Real, Round)(round, by, a, n);
}

template <class Real>
std::int64_t largest_magnitude(Simd simd, const Real* a, std::int64_t n) {
    return MACHEPS_CHOOSE(largest, Real)(a, n);
}

template <class Real, class Round>
void update_row_fused(Simd simd, const Round& round, Real l, const Real* u, Real* a, std::int64_t n) {
    MACHEPS_CHOOSE(fused_row, Real, Round)(round, l, u, a, n);
}
#undef MACHEPS_CHOOSE

#define MACHEPS_ROW_KERNELS(Real, Round)                                                  \
    template void update_row(Simd, const Round&, Real, const Real*, Real*, std::int64_t); \
    template void divide_row(Simd, const Round&, Real, Real*, std::int64_t)
MACHEPS_ROW_KERNELS(float, Rounder<float>);
MACHEPS_ROW_KERNELS(float, PrefixRounder<false>);
MACHEPS_ROW_KERNELS(float, PrefixRounder<true>);
MACHEPS_ROW_KERNELS(float, Unrounded);
MACHEPS_ROW_KERNELS(double, Rounder<double>);
MACHEPS_ROW_KERNELS(double, Unrounded);
#undef MACHEPS_ROW_KERNELS
template std::int64_t largest_magnitude(Simd, const float*, std::int64_t);
template std::int64_t largest_magnitude(Simd, const double*, std::int64_t);
template void update_row_fused(Simd, const Rounder<double>&, double, const double*, double*, std::int64_t);
template void update_row_fused(Simd, const Unrounded&, float, const float*, float*, std::int64_t);
template void update_row_fused(Simd, const Unrounded&, double, const double*, double*, std::int64_t);

}  // namespace macheps::study
