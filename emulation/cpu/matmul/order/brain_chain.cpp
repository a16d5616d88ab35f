// SPDX-License-Identifier: Apache-2.0
// The functions here are compiled for AVX512-BF16, whatever the rest of the program is compiled for.
#include "emulation/cpu/matmul/order/brain_chain.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <utility>
#endif

namespace macheps {

#if defined(__x86_64__)

#define MACHEPS_BRAIN_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace {

constexpr int turns = 5, columns_of_panel = 32;

/// The order of a panel's columns after t terms, for t below 5: at[t][i] is the column whose sum is then at position i
/// (see brain_chain.hpp).
struct TurnedColumns {
    std::int32_t at[turns][columns_of_panel];

    constexpr TurnedColumns() : at() {
        for (int t = 0; t < turns; ++t) {
            for (int c = 0; c < columns_of_panel; ++c) {
                int place = c;
                for (int i = 0; i < t; ++i) place = place / 2 + place % 2 * 16;
                at[t][place] = c;
            }
        }
    }
};
constexpr TurnedColumns turned_columns;

/// Sums of one row of a tile, in two vectors.
struct BrainSums {
    __m512 low, high;
};

/// Adds one term to the sums and stores their bf16 codes in `codes`. If `careful`, each sum is first rounded to odd in
/// fp32, so that rounding it to the eight significant bits of bf16 is always correct.
template <bool careful>
MACHEPS_BRAIN_TARGET inline void add_term(const float* factor, __m512 low, __m512 high, BrainSums& s, __m512i& codes) {
    const __m512 x = _mm512_set1_ps(*factor);
    const auto sum = [&](__m512 column, __m512 before) MACHEPS_BRAIN_TARGET {
        if constexpr (!careful) return _mm512_fmadd_ps(x, column, before);
        constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC, up = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
        const __m512 below = _mm512_fmadd_round_ps(x, column, before, down);
        const __m512 above = _mm512_fmadd_round_ps(x, column, before, up);
        // If the sum is inexact, `below` and `above` are neighbours, and one of them is odd. If the sum is exactly
        // zero, the result is `above`, which is +0.
        const __mmask16 is_odd = _mm512_test_epi32_mask(_mm512_castps_si512(below), _mm512_set1_epi32(1));
        return _mm512_mask_blend_ps(is_odd, above, below);
    };
    s.low = sum(low, s.low);
    s.high = sum(high, s.high);
    // Inline assembly, because the type that the intrinsic returns depends on the compiler.
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(codes) : "v"(s.high), "v"(s.low));
    s.low = _mm512_castsi512_ps(_mm512_slli_epi32(codes, 16));
    s.high = _mm512_castsi512_ps(_mm512_and_si512(codes, _mm512_set1_epi32(-65536)));
}

constexpr int both_safe = 0x40004000;  // the exponent bit that is set for |sum| >= 2, in both codes of a lane

/// Adds terms [0, count) to the sums. Returns `both_safe` in every lane. Unless `careful`, the bit of a column is
/// cleared in the result if one of its sums is below 2 in magnitude after any of the terms.
template <bool careful, int... row>
MACHEPS_BRAIN_TARGET inline __m512i add_terms(const float* a, std::int64_t a_row, const float* b, std::int64_t count,
                                              BrainSums* sums, std::integer_sequence<int, row...>) {
    // Here and below, parameter packs are expanded over the rows, because a loop would make GCC 12 keep the sums in
    // memory.
    BrainSums sum[] = {sums[row]...};
    __m512i safe = _mm512_set1_epi32(both_safe), codes[sizeof...(row) + 1];
    codes[sizeof...(row)] = safe;
    for (std::int64_t p = 0; p < count; ++p, ++a, b += columns_of_panel) {
        const __m512 low = _mm512_loadu_ps(b), high = _mm512_loadu_ps(b + 16);
        (add_term<careful>(a + row * a_row, low, high, sum[row], codes[row]), ...);
        constexpr int and_of_three = 0x80;
        const auto keep = [&](__m512i x, __m512i y)
                              MACHEPS_BRAIN_TARGET { safe = _mm512_ternarylogic_epi32(safe, x, y, and_of_three); };
        if constexpr (!careful) ((row % 2 == 0 ? keep(codes[row], codes[row + 1]) : void()), ...);
    }
    ((sums[row] = sum[row]), ...);
    return safe;
}

template <int... row>
MACHEPS_BRAIN_TARGET inline void run_brain_chain(const float* a, std::int64_t a_row, const float* b, std::int64_t n,
                                                 float* out, std::integer_sequence<int, row...> rows) {
    constexpr std::int64_t batch = 4 * turns;
    BrainSums sum[] = {(static_cast<void>(row), BrainSums{_mm512_setzero_ps(), _mm512_setzero_ps()})...};
    int with_care = 0, streak = 1;  // numbers of batches, which brain_tile() explains
    for (std::int64_t p = 0; p < n; p += batch) {
        const std::int64_t count = std::min(batch, n - p);
        if (with_care == 0) {
            BrainSums after[] = {sum[row]...};
            const __m512i safe = add_terms<false>(a + p, a_row, b + p * columns_of_panel, count, after, rows);
            if (_mm512_cmpneq_epi32_mask(safe, _mm512_set1_epi32(both_safe)) == 0) {
                ((sum[row] = after[row]), ...);
                streak = 1;
                continue;
            }
            with_care = streak;
            streak = std::min(2 * streak, 8);
        }
        --with_care;
        add_terms<true>(a + p, a_row, b + p * columns_of_panel, count, sum, rows);
    }
    const auto put_back = [&](const BrainSums& s, float* row_of_out) MACHEPS_BRAIN_TARGET {
        float turned[columns_of_panel];
        _mm512_storeu_ps(turned, s.low);
        _mm512_storeu_ps(turned + 16, s.high);
        for (int i = 0; i < columns_of_panel; ++i) row_of_out[turned_columns.at[n % turns][i]] = turned[i];
    };
    (put_back(sum[row], out + row * columns_of_panel), ...);
}

}  // namespace

MACHEPS_BRAIN_TARGET void turn_columns(float* b, std::int64_t terms) {
    for (std::int64_t t = 0; t < terms; ++t, b += columns_of_panel) {
        const std::int32_t* const from = turned_columns.at[t % turns];
        const __m512 low = _mm512_loadu_ps(b), high = _mm512_loadu_ps(b + 16);
        _mm512_storeu_ps(b, _mm512_permutex2var_ps(low, _mm512_loadu_si512(from), high));
        _mm512_storeu_ps(b + 16, _mm512_permutex2var_ps(low, _mm512_loadu_si512(from + 16), high));
    }
}

template <int rows>
MACHEPS_BRAIN_TARGET void brain_chain_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n,
                                           float* sums) {
    run_brain_chain(a, a_row, b, n, sums, std::make_integer_sequence<int, rows>());
}

#undef MACHEPS_BRAIN_TARGET

#else

void turn_columns(float*, std::int64_t) {}
template <int rows>
void brain_chain_tile(const float*, std::int64_t, const float*, std::int64_t, float*) {}

#endif

template void brain_chain_tile<1>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void brain_chain_tile<2>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void brain_chain_tile<3>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void brain_chain_tile<4>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void brain_chain_tile<5>(const float*, std::int64_t, const float*, std::int64_t, float*);
template void brain_chain_tile<6>(const float*, std::int64_t, const float*, std::int64_t, float*);

}  // namespace macheps
