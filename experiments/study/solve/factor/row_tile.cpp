// SPDX-License-Identifier: Apache-2.0
// Updates of a RowTile, compiled only for the Highway targets that the CPU engine has. Processors without these targets
// use update_row.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "experiments/study/solve/factor/row_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "experiments/study/solve/factor/row_tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::study::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Bits = hn::Vec<hn::ScalableTag<std::uint32_t>>;
constexpr std::int64_t lanes = HWY_TARGET == HWY_AVX3 ? 16 : 8;

/// Rounds to fp16 with the processor's conversion instructions, which round to nearest even.
struct ToHalf {
    HWY_INLINE V operator()(V x) const { return hn::PromoteTo(D(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), x)); }
};

/// Rounds like PrefixRounder, with an integer addition to the bits. The addend is half an ulp of the format if the last
/// kept bit is 1, else half an ulp minus one.
class ToPrefix {
  public:
    explicit ToPrefix(int cut)
        : shift_(all(static_cast<std::uint32_t>(cut))),
          last_(all(1u << cut)),
          half_(all(1u << (cut - 1))),
          below_half_(all((1u << (cut - 1)) - 1)),
          keep_(all(~0u << cut)) {}
    HWY_INLINE V operator()(V x) const {
        const Bits number = hn::BitCast(hn::ScalableTag<std::uint32_t>(), x);
#if HWY_TARGET == HWY_AVX3
        const Bits sum = hn::Add(number, hn::IfThenElse(hn::TestBit(number, last_), half_, below_half_));
#else
        const Bits odd = hn::And(hn::Shr(number, shift_), all(1));
        const Bits sum = hn::Add(hn::Add(number, below_half_), odd);
#endif
        return hn::BitCast(D(), hn::And(sum, keep_));
    }

  private:
    static HWY_INLINE Bits all(std::uint32_t x) { return hn::Set(hn::ScalableTag<std::uint32_t>(), x); }

    Bits shift_, last_, half_, below_half_, keep_;
};

/// Rounds like Rounder, by adding and subtracting a power of two, which is place * lift. This multiplication is exact,
/// so it can be fused with the addition and with the subtraction.
class ToFormat {
  public:
    explicit ToFormat(const Rounder<float>::Constants& format)
        : least_(hn::Set(D(), format.least)),
          largest_(hn::Set(D(), format.largest)),
          beyond_(hn::Set(D(), format.beyond)),
          lift_(hn::Set(D(), format.lift)),
          infinity_(hn::Inf(D())) {}
    HWY_INLINE V operator()(V x) const {
        const V magnitude = hn::Abs(x), place = hn::Max(hn::And(x, infinity_), least_);
        const V near = hn::NegMulAdd(place, lift_, hn::MulAdd(place, lift_, magnitude));
        // If x is Inf or NaN, `near` is NaN, so the comparison is false. The result is then magnitude + beyond, where
        // `beyond` is Inf or NaN. This sum, and not `beyond` alone, is the result because it is NaN whenever x is NaN.
        const V result = hn::IfThenElse(hn::Le(near, largest_), near, hn::Add(magnitude, beyond_));
        return hn::CopySignToAbs(result, x);
    }

  private:
    V least_, largest_, beyond_, lift_, infinity_;
};

/// Updates a block of the tile: `rows` rows starting at `row`, and `vectors` vectors of columns starting at `column`.
/// The last vector uses only its first `last` lanes.
template <int rows, int vectors, class Rounding>
HWY_INLINE void update_block(const Rounding& round, const RowTile<float>& t, std::int64_t row, std::int64_t column,
                             std::int64_t last) {
    const auto is_last = hn::FirstN(D(), static_cast<std::size_t>(last));
    const auto vector = [&](const float* x, int v) HWY_ATTR {
        return v + 1 < vectors || last == lanes ? hn::LoadU(D(), x + v * lanes)
                                                : hn::MaskedLoad(is_last, D(), x + v * lanes);
    };
    const float* l = t.l + row * t.ld_l;
    float* a = t.a + row * t.ld_a + column;
    V sum[rows][vectors];
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) sum[r][v] = vector(a + r * t.ld_a, v);
    }
    for (std::int64_t k = 0; k < t.terms; ++k) {
        V u[vectors];
        for (int v = 0; v < vectors; ++v) u[v] = vector(t.u + k * t.ld_u + column, v);
        for (int r = 0; r < rows; ++r) {
            const V factor = hn::Set(D(), l[r * t.ld_l + k]);
            for (int v = 0; v < vectors; ++v) sum[r][v] = round(hn::Sub(sum[r][v], round(hn::Mul(factor, u[v]))));
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) {
            float* const to = a + r * t.ld_a + v * lanes;
            if (v + 1 < vectors || last == lanes) {
                hn::StoreU(sum[r][v], D(), to);
            } else {
                hn::BlendedStore(sum[r][v], is_last, D(), to);
            }
        }
    }
}

template <int vectors, class Rounding>
void update_columns(const Rounding& round, const RowTile<float>& t, std::int64_t column, std::int64_t last) {
    constexpr int together = vectors == 1 ? 4 : 2;  // rows updated at a time: enough sums to hide latency
    std::int64_t row = 0;
    for (; row + together <= t.rows; row += together) update_block<together, vectors>(round, t, row, column, last);
    for (; row < t.rows; ++row) update_block<1, vectors>(round, t, row, column, last);
}

template <class Rounding>
void update_all(const Rounding& round, const RowTile<float>& t) {
    for (std::int64_t column = 0; column < t.width; column += 3 * lanes) {
        const std::int64_t left = std::min(t.width - column, 3 * lanes), vectors = (left + lanes - 1) / lanes;
        const std::int64_t last = left - (vectors - 1) * lanes;
        if (vectors == 3) {
            update_columns<3>(round, t, column, last);
        } else if (vectors == 2) {
            update_columns<2>(round, t, column, last);
        } else {
            update_columns<1>(round, t, column, last);
        }
    }
}

}  // namespace

void half_tile(const RowTile<float>& tile) { update_all(ToHalf(), tile); }
void prefix_tile(const RowTile<float>& tile, int cut) { update_all(ToPrefix(cut), tile); }
void float_tile(const RowTile<float>& tile, const Rounder<float>::Constants& format) {
    update_all(ToFormat(format), tile);
}
#endif
}  // namespace macheps::study::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps::study {

namespace N_AVX2 {
void half_tile(const RowTile<float>& tile);
void prefix_tile(const RowTile<float>& tile, int cut);
void float_tile(const RowTile<float>& tile, const Rounder<float>::Constants& format);
}  // namespace N_AVX2
namespace N_AVX3 {
void half_tile(const RowTile<float>& tile);
void prefix_tile(const RowTile<float>& tile, int cut);
void float_tile(const RowTile<float>& tile, const Rounder<float>::Constants& format);
}  // namespace N_AVX3

// Callers do not pass Simd::scalar, so the empty functions are never called.
void update_half_tile(Simd simd, const RowTile<float>& tile) {
    MACHEPS_CHOOSE_TARGET(
        simd, [](const RowTile<float>&) {}, half_tile)
    (tile);
}
void update_prefix_tile(Simd simd, const RowTile<float>& tile, int cut) {
    MACHEPS_CHOOSE_TARGET(
        simd, [](const RowTile<float>&, int) {}, prefix_tile)
    (tile, cut);
}
void update_float_tile(Simd simd, const RowTile<float>& tile, const Rounder<float>::Constants& format) {
    MACHEPS_CHOOSE_TARGET(
        simd, [](const RowTile<float>&, const Rounder<float>::Constants&) {}, float_tile)
    (tile, format);
}

}  // namespace macheps::study
#endif
