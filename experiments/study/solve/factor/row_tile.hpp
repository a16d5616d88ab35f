// SPDX-License-Identifier: Apache-2.0
// Subtracts multiples of several rows from several other rows and rounds the result of every operation. The sums stay
// in registers, whereas update_row loads and stores them for every term.
#pragma once
#include "experiments/study/solve/factor/row_update.hpp"

#include <cstdint>

namespace macheps::study {

/// Operands of the update a = a - l u, with a [rows, width], l [rows, terms] and u [terms, width]. Consecutive rows of
/// a, l and u are ld_a, ld_l and ld_u numbers apart.
template <class Real>
struct RowTile {
    std::int64_t rows = 0, terms = 0, width = 0;
    const Real* l = nullptr;
    std::int64_t ld_l = 0;
    const Real* u = nullptr;
    std::int64_t ld_u = 0;
    Real* a = nullptr;
    std::int64_t ld_a = 0;
};

/// Computes a[i][j] = round(a[i][j] - round(l[i][k] u[k][j])) for ascending k, where `round` rounds to fp16. `simd`
/// must not be Simd::scalar.
void update_half_tile(Simd simd, const RowTile<float>& tile);
/// Computes the same update with the processor's fp16 arithmetic (AVX512-FP16). The bits of NaNs may differ.
void update_half_tile_in_half(const RowTile<float>& tile);
/// Returns whether the processor has AVX512-FP16 and the compiler supports it.
bool has_half_arithmetic();
/// Computes the same update, but rounds to a format that is fp32 without the last `cut` bits. `cut` must be at least
/// 16.
void update_prefix_tile(Simd simd, const RowTile<float>& tile, int cut);

/// Computes the same update, but rounds to a format that Rounder::Constants can describe.
void update_float_tile(Simd simd, const RowTile<float>& tile, const Rounder<float>::Constants& format);

/// Computes the same update for any rounding. The bits of NaNs depend on the instruction set.
template <class Real, class Round>
void update_tile(Simd simd, const Round& round, const RowTile<Real>& tile) {
    if constexpr (std::is_same_v<Round, Rounder<float>>) {
        if (simd == Simd::avx512 && round.is_half() && has_half_arithmetic()) return update_half_tile_in_half(tile);
        if (simd != Simd::scalar && round.is_half()) return update_half_tile(simd, tile);
        if (simd != Simd::scalar && round.has_constants()) return update_float_tile(simd, tile, round.constants());
    } else if constexpr (std::is_same_v<Round, PrefixRounder<false>>) {
        if (simd != Simd::scalar) return update_prefix_tile(simd, tile, round.cut());
    }
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        for (std::int64_t k = 0; k < tile.terms; ++k) {
            update_row(simd, round, tile.l[i * tile.ld_l + k], tile.u + k * tile.ld_u, tile.a + i * tile.ld_a,
                       tile.width);
        }
    }
}

}  // namespace macheps::study
