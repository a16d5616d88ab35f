// SPDX-License-Identifier: Apache-2.0
// Updates a RowTile on processors with fp16 arithmetic. A register holds twice as many numbers as with float. Separate
// rounding steps are not needed, because the instructions round every product and difference to fp16, to nearest even.
#include "experiments/study/solve/factor/row_tile.hpp"

// Clang 14 declares the intrinsics only if the whole file is compiled for AVX512-FP16.
#if defined(__x86_64__) && (!defined(__clang__) || defined(__AVX512FP16__))
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace macheps::study {

namespace {

#define MACHEPS_HALF_TARGET gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512fp16")

constexpr std::int64_t lanes = 32;
constexpr std::int64_t vectors = 4, columns_together = vectors * lanes;
constexpr std::int64_t rows_together = 4;
constexpr std::int64_t terms_together = 16;

/// Returns a mask of the first `count` of sixteen lanes. It is empty if `count` is negative.
[[gnu::always_inline]] inline __mmask16 first_lanes(std::int64_t count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffff : (1 << std::max<std::int64_t>(count, 0)) - 1);
}

// The functions below use masked intrinsics, because the unmasked ones of GCC 12 read an undefined register.

/// Loads x[0, count), at most 32 fp16 numbers stored as float. The remaining lanes are zero.
[[gnu::always_inline, MACHEPS_HALF_TARGET]] inline __m512h load_halves(const float* x, std::int64_t count) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count), x);
    const __m512 high = _mm512_maskz_loadu_ps(first_lanes(count - 16), x + 16);
    const __m512i narrow = _mm512_castsi256_si512(_mm512_maskz_cvtps_ph(0xffff, low, nearest));
    return _mm512_castsi512_ph(_mm512_maskz_inserti64x4(0xff, narrow, _mm512_maskz_cvtps_ph(0xffff, high, nearest), 1));
}

/// Returns the first (part = 0) or last (part = 1) sixteen numbers of a register.
template <int part>
[[gnu::always_inline, MACHEPS_HALF_TARGET]] inline __m256i half_of(__m512h x) {
    return _mm512_maskz_extracti64x4_epi64(0xff, _mm512_castph_si512(x), part);
}

[[gnu::always_inline, MACHEPS_HALF_TARGET]] inline void store_halves(__m512h x, float* to, std::int64_t count) {
    _mm512_mask_storeu_ps(to, first_lanes(count), _mm512_maskz_cvtph_ps(0xffff, half_of<0>(x)));
    _mm512_mask_storeu_ps(to + 16, first_lanes(count - 16), _mm512_maskz_cvtph_ps(0xffff, half_of<1>(x)));
}

/// A block of u as fp16: rows [first_term, first_term + terms), columns [first, first + count).
struct Columns {
    alignas(64) std::uint16_t u[terms_together][columns_together];
    std::int64_t first_term, terms, first, count;
};

/// Updates `rows` rows of the tile, starting at `row`: subtracts the products of l with the block `columns` of u.
template <int rows>
[[gnu::always_inline, MACHEPS_HALF_TARGET]] inline void update_rows(const RowTile<float>& t, const Columns& columns,
                                                                    std::int64_t row) {
    float* const a = t.a + row * t.ld_a + columns.first;
    alignas(32) std::uint16_t l[rows][terms_together];
    __m512h sum[rows][vectors];
    for (int r = 0; r < rows; ++r) {
        const float* const factors = t.l + (row + r) * t.ld_l + columns.first_term;
        _mm256_store_si256(reinterpret_cast<__m256i*>(l[r]), half_of<0>(load_halves(factors, columns.terms)));
        for (int v = 0; v < vectors; ++v)
            sum[r][v] = load_halves(a + r * t.ld_a + v * lanes, columns.count - v * lanes);
    }
    for (std::int64_t k = 0; k < columns.terms; ++k) {
        __m512h u[vectors];
        for (int v = 0; v < vectors; ++v) u[v] = _mm512_load_ph(columns.u[k] + v * lanes);
        for (int r = 0; r < rows; ++r) {
            const __m512h factor = _mm512_castsi512_ph(_mm512_set1_epi16(static_cast<short>(l[r][k])));
            for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_sub_ph(sum[r][v], _mm512_mul_ph(factor, u[v]));
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v)
            store_halves(sum[r][v], a + r * t.ld_a + v * lanes, columns.count - v * lanes);
    }
}

[[MACHEPS_HALF_TARGET]] void update_in_half(const RowTile<float>& t) {
    Columns columns;
    for (columns.first_term = 0; columns.first_term < t.terms; columns.first_term += terms_together) {
        columns.terms = std::min(terms_together, t.terms - columns.first_term);
        for (columns.first = 0; columns.first < t.width; columns.first += columns_together) {
            columns.count = std::min(columns_together, t.width - columns.first);
            for (std::int64_t k = 0; k < columns.terms; ++k) {
                const float* const u = t.u + (columns.first_term + k) * t.ld_u + columns.first;
                for (int v = 0; v < vectors; ++v)
                    _mm512_store_ph(columns.u[k] + v * lanes, load_halves(u + v * lanes, columns.count - v * lanes));
            }
            std::int64_t row = 0;
            for (; row + rows_together <= t.rows; row += rows_together) update_rows<rows_together>(t, columns, row);
            for (; row < t.rows; ++row) update_rows<1>(t, columns, row);
        }
    }
}

}  // namespace

bool has_half_arithmetic() { return has_extension(Extension::avx512_fp16); }
void update_half_tile_in_half(const RowTile<float>& tile) { update_in_half(tile); }

}  // namespace macheps::study
#else
namespace macheps::study {

bool has_half_arithmetic() { return false; }
void update_half_tile_in_half(const RowTile<float>&) {}

}  // namespace macheps::study
#endif
