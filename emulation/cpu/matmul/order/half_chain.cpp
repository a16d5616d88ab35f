// SPDX-License-Identifier: Apache-2.0
// The functions here are compiled for AVX512-FP16, whatever the rest of the program is compiled for.
#include "emulation/cpu/matmul/order/half_chain.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>
#endif

namespace macheps {

#if defined(__x86_64__)

#define MACHEPS_HALF_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16")))

MACHEPS_HALF_TARGET void halve_rows(float* a, std::int64_t count) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    for (std::int64_t i = 0; i < count; i += 16) {
        const auto mask = static_cast<__mmask16>(count - i >= 16 ? 0xffff : (1 << (count - i)) - 1);
        const __m512i codes = _mm512_maskz_cvtepu16_epi32(
            0xffff, _mm512_maskz_cvtps_ph(0xffff, _mm512_maskz_loadu_ps(mask, a + i), nearest));
        _mm512_mask_storeu_epi32(a + i, mask, _mm512_or_si512(codes, _mm512_slli_epi32(codes, 16)));
    }
}

MACHEPS_HALF_TARGET void halve_columns(float* b, std::int64_t terms) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    for (std::int64_t i = 0; i < terms; ++i, b += 32) {
        const __m256i low = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(b), nearest);
        const __m256i high = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(b + 16), nearest);
        std::memcpy(b, &low, sizeof low);
        std::memcpy(b + 8, &high, sizeof high);
    }
}

namespace {

template <int... row>
MACHEPS_HALF_TARGET inline void run_half_chain(const float* a, std::int64_t a_row, const float* b, std::int64_t n,
                                               float* sums, std::integer_sequence<int, row...>) {
    const auto begin = [sums](int r) MACHEPS_HALF_TARGET {
        constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        const __m256i low = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(sums + 32 * r), nearest);
        const __m256i high = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(sums + 32 * r + 16), nearest);
        return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1);
    };
    __m512i sum[] = {begin(row)...};
    for (std::int64_t p = 0; p < n; ++p, ++a, b += 32) {
        const __m512i columns = _mm512_loadu_si512(b);
        // Inline assembly, because older compilers provide the intrinsic only if the whole file is compiled for
        // AVX512-FP16.
        const auto step = [&](const float* factor, __m512i& s) MACHEPS_HALF_TARGET {
            std::int32_t twice = 0;
            std::memcpy(&twice, factor, sizeof twice);
            asm("vfmadd231ph %2, %1, %0" : "+v"(s) : "v"(_mm512_set1_epi32(twice)), "v"(columns));
        };
        (step(a + row * a_row, sum[row]), ...);
    }
    for (std::size_t r = 0; r < sizeof...(row); ++r) {
        // These intrinsics have masks of ones, because in GCC 12 the forms without masks read a register that is marked
        // as undefined.
        const __m256i high = _mm512_maskz_extracti64x4_epi64(0xff, sum[r], 1);
        _mm512_storeu_ps(sums + 32 * r, _mm512_maskz_cvtph_ps(0xffff, _mm512_castsi512_si256(sum[r])));
        _mm512_storeu_ps(sums + 32 * r + 16, _mm512_maskz_cvtph_ps(0xffff, high));
    }
}

}  // namespace

template <int rows>
MACHEPS_HALF_TARGET void half_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n,
                                         float* sums) {
    run_half_chain(a, a_row, b, n, sums, std::make_integer_sequence<int, rows>());
}

#undef MACHEPS_HALF_TARGET

#else

void halve_rows(float*, std::int64_t) {}
void halve_columns(float*, std::int64_t) {}
template <int rows>
void half_chain_tile(const float*, std::int64_t, const float*, std::int64_t, float*) {}

#endif

template void half_chain_tile<1>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void half_chain_tile<2>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void half_chain_tile<3>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void half_chain_tile<4>(const float*, std::int64_t, const float*, std::int64_t, float*);

}  // namespace macheps
