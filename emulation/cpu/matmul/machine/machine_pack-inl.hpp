// SPDX-License-Identifier: Apache-2.0
// Packs the operands of a matrix unit for its kernels. One array holds the values, truncated to the bits that fit into
// their format. Another array holds the exponents by which the unit aligns the products. Included once per SIMD target.
#include "emulation/cpu/matmul/machine/machine_plan.hpp"
#include "emulation/cpu/matmul/parts-inl.hpp"

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#if defined(MACHEPS_MACHINE_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_PACK_INL
#undef MACHEPS_MACHINE_PACK_INL
#else
#define MACHEPS_MACHINE_PACK_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Number of columns of a panel. The 8-bit exponents of these columns for one term fill a vector.
inline constexpr std::int64_t machine_columns = 4 * lanes_of_vector;
/// Number of terms of a group in SumModel::scaled_groups.
inline constexpr int group_terms = 16;

/// Stored exponent of a zero. Every other stored exponent is e - base >= 0. The sum of two stored exponents is negative
/// if and only if one of them is the exponent of a zero.
template <class E>
inline constexpr std::int32_t zero_exponent = sizeof(E) == 1 ? -64 : -1024;

/// Element type of the second packed copy of the exponents of a, which largest_exponents() reads (see
/// exponent_everywhere()).
template <class E>
using Spread = std::conditional_t<sizeof(E) == 1, std::int32_t, E>;

/// Converts a value to its packed form.
struct GridCut {
    /// Packs values of `format`. The unit reads them as numbers of `read_as`, so their exponents are at least the
    /// smallest exponent of `read_as`. Exponents are stored relative to `base`. If `flush`, subnormal numbers become
    /// +0.
    GridCut(const Format& format, const Format& read_as, int base, bool flush = false)
        : emin(format.emin()),
          drop(24 - format.precision),
          min_exponent(read_as.emin()),
          offset(base),
          flushes(flush) {}
    int emin, drop, min_exponent, offset;
    bool flushes;

    struct Packed {
        F32 value;
        I32 exponent;  ///< relative to the base; meaningless for zeros and specials
        M32 zero, special;
    };
    HWY_INLINE Packed operator()(F32 x) const {
        const I32 field = shift_right_logical(bits(x), 23) & I32(255);
        const I32 exponent = I32(hn::Max(field.v, I32(1).v)) - I32(127), least(emin);
        const I32 clamped(hn::Max(exponent.v, least.v));
        // Number of low bits to clear, which are below the quantum of the format. A count of 31 clears everything
        // except the sign, so that a zero can keep its sign.
        const I32 count(hn::Min((clamped - exponent + I32(drop)).v, I32(31).v));
        const F32 cut = from_bits(bits(x) & I32(hn::Shl(I32(-1).v, count.v)));
        const M32 special = field == I32(255);
        const M32 zero = (cut == F32(0.0f)) | (count > I32(23)) | special;
        if (flushes) {
            // A subnormal number becomes +0, whatever its sign, but a zero keeps its sign.
            const M32 subnormal = (field < I32(emin + 127)) & !(x == F32(0.0f));
            const I32 read = clamped - I32(offset);
            return {select(subnormal | special, F32(0.0f), cut), read, zero | subnormal, special};
        }
        const I32 read(hn::Max(exponent.v, I32(min_exponent).v));
        return {select(zero, F32(0.0f), cut), read - I32(offset), zero, special};
    }
};

template <class E>
HWY_INLINE void store_exponents(I32 exponent, M32 zero, E* out) {
    const I32 stored = select(zero, I32(zero_exponent<E>), exponent);
    const hn::Rebind<E, DI32> d;
    hn::StoreU(hn::DemoteTo(d, stored.v), d, out);
}

/// Computes exponent_range() for a matrix that may contain subnormal numbers of the format, numbers that do not fit
/// into the format exactly, infinities and NaNs.
inline ExponentRange careful_exponent_range(const float* x, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                                            const Format& format) {
    const GridCut cut(format, format, 0);
    I32 least(1000), most(-1000);
    for (std::int64_t r = 0; r < rows; ++r, x += ld) {
        for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
            const auto p = cut(load_n(x + j, static_cast<std::size_t>(min_of(lanes_of_vector, columns - j))));
            least = I32(hn::Min(least.v, select(p.zero, I32(1000), p.exponent).v));
            most = I32(hn::Max(most.v, select(p.zero, I32(-1000), p.exponent).v));
        }
    }
    return {hn::GetLane(hn::MinOfLanes(DI32(), least.v)), hn::GetLane(hn::MaxOfLanes(DI32(), most.v))};
}

/// Returns the smallest and the largest exponent of the nonzero finite values of a matrix [rows, columns].
inline ExponentRange exponent_range(const float* x, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                                    const Format& format) {
    // Magnitudes are ordered like their bits. Subtracting 1 makes zero the largest unsigned number, so the minimum
    // skips it.
    I32 most;
    auto least = hn::Set(DU32(), 0xffffffffu);
    const float* row = x;
    for (std::int64_t r = 0; r < rows; ++r, row += ld) {
        for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, columns - j));
            const I32 size = bits(load_n(row + j, count)) & I32(0x7fffffff);
            most = I32(hn::Max(most.v, size.v));
            least = hn::Min(least, hn::BitCast(DU32(), (size - I32(1)).v));
        }
    }
    const auto largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(DI32(), most.v)));
    if (largest == 0) return {};
    const std::uint32_t smallest = hn::GetLane(hn::MinOfLanes(DU32(), least)) + 1;
    const auto exponent = [](std::uint32_t size) { return static_cast<int>(size >> 23) - 127; };
    // For normal numbers of the format, cutting off bits that do not fit into the format does not change the exponent.
    if (largest < 0x7f800000u && exponent(smallest) >= format.emin()) return {exponent(smallest), exponent(largest)};
    return careful_exponent_range(x, ld, rows, columns, format);
}

/// Packs the terms [first, last) of `columns` columns of b, starting at `column`. `columns` is at most machine_columns.
/// Writes them in the plan's order to `value` and `exponent` [padded, machine_columns]. `raw` is scratch memory of the
/// same size. Sets specials[j] to the flags of the non-finite values in column j.
template <class E>
inline void pack_columns(const MachinePlan& plan, const MatmulOperand& operand, const float* b, std::int64_t column,
                         std::int64_t columns, std::int64_t first, std::int64_t last, std::int64_t padded, float* raw,
                         float* value, E* exponent, std::uint8_t* specials) {
    const std::int64_t k = last - first;
    const float* in = b + (operand.transposed ? column * operand.ld + first : first * operand.ld + column);
    std::int64_t ld = operand.ld;
    if (operand.transposed) {
        for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
            pack_transposed(in + j * ld, ld, min_of(lanes_of_vector, columns - j), k, raw + j, machine_columns);
        }
        in = raw;
        ld = machine_columns;
    }
    const GridCut cut(operand.format, plan.b_format, plan.b_base, plan.flushes);
    bool any_special = false;
    for (std::int64_t t = 0; t < padded; ++t) {
        const std::int64_t p = plan.source_at(t);
        for (std::int64_t j = 0; j < machine_columns; j += lanes_of_vector) {
            const std::int64_t left = columns - j;
            const auto packed =
                cut(p < k && left > 0 ? load_n(in + p * ld + j, static_cast<std::size_t>(min_of(lanes_of_vector, left)))
                                      : F32(0.0f));
            store(packed.value, value + t * machine_columns + j);
            store_exponents(packed.exponent, packed.zero, exponent + t * machine_columns + j);
            any_special = any_special || any(packed.special);
        }
    }
    for (std::int64_t j = 0; j < machine_columns; ++j) specials[j] = 0;
    if (!any_special) return;
    for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t j = 0; j < columns; ++j) specials[j] |= special_of(operand.format, in[p * ld + j]);
    }
}

/// Loads vectors of terms in the plan's order, which rearranges the terms within each period. The terms of a loaded
/// vector come from two vectors of its period, and the row must contain that period completely.
class PermutedLoads {
  public:
    explicit PermutedLoads(const MachinePlan& plan) : period_(plan.period()) {
        for (std::int64_t place = 0; plan.is_permuted() && place < period_; place += lanes_of_vector) {
            const std::uint8_t* order = plan.sources.data() + place;
            const std::int64_t least = *std::min_element(order, order + lanes_of_vector);
            const std::int64_t first = least / lanes_of_vector * lanes_of_vector;
            const std::int64_t second = min_of(first + lanes_of_vector, period_ - lanes_of_vector);
            first_[place / lanes_of_vector] = first;
            second_[place / lanes_of_vector] = second;
            for (std::int64_t i = 0; i < lanes_of_vector; ++i) {
                index_[place + i] = static_cast<std::int32_t>(order[i] - first);
            }
        }
    }

    /// Returns the terms at places [t, t + lanes_of_vector) of the plan's order, for a row whose terms begin at `in`.
    HWY_INLINE F32 operator()(const float* in, std::int64_t t) const {
        const std::int64_t place = t & (period_ - 1), vector = place / lanes_of_vector;
        const F32 low = load(in + t - place + first_[vector]), high = load(in + t - place + second_[vector]);
#if HWY_TARGET == HWY_AVX3
        const __m512i index = _mm512_load_si512(index_ + place);
        return F32(hn::Vec<DF32>{_mm512_permutex2var_ps(low.v.raw, index, high.v.raw)});
#else
        const __m256i index = _mm256_load_si256(reinterpret_cast<const __m256i*>(index_ + place));
        const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));  // bit 3 becomes the sign
        return F32(hn::Vec<DF32>{_mm256_blendv_ps(_mm256_permutevar8x32_ps(low.v.raw, index),
                                                  _mm256_permutevar8x32_ps(high.v.raw, index), is_high)});
#endif
    }

  private:
    std::int64_t period_;
    std::int64_t first_[8] = {}, second_[8] = {};
    alignas(64) std::int32_t index_[64] = {};
};

/// Packs the terms [first, last) of `rows` rows of a, starting at `row`. Writes them in the plan's order to `value` and
/// `exponent` [rows, padded]. `raw` is scratch memory. It must hold one vector more than the rows, each of which is
/// rounded up to whole vectors. Sets specials[r] to the flags of the non-finite values in row r.
template <class E>
inline void pack_rows(const MachinePlan& plan, const MatmulOperand& operand, const float* a, std::int64_t row,
                      std::int64_t rows, std::int64_t first, std::int64_t last, std::int64_t padded, float* raw,
                      float* value, E* exponent, std::uint8_t* specials) {
    const std::int64_t k = last - first;
    const float* in = a + (operand.transposed ? first * operand.ld + row : row * operand.ld + first);
    std::int64_t ld = operand.ld;
    if (operand.transposed) {
        const std::int64_t stride = (k + lanes_of_vector - 1) / lanes_of_vector * lanes_of_vector;
        for (std::int64_t p = 0; p < k; p += lanes_of_vector) {
            pack_transposed(in + p * ld, ld, min_of(lanes_of_vector, k - p), rows, raw + p, stride);
        }
        in = raw;
        ld = stride;
    }
    const GridCut cut(operand.format, plan.a_format, plan.a_base, plan.flushes);
    const PermutedLoads permuted(plan);
    const std::int64_t period = plan.period();
    const bool is_permuted = plan.is_permuted();
    alignas(64) float ordered[64];
    for (std::int64_t r = 0; r < rows; ++r, in += ld) {
        M32 special = first_n(0);
        for (std::int64_t t = 0; t < padded; t += lanes_of_vector) {
            // The last vector of a row may write beyond `padded`. The next row overwrites these elements.
            F32 x(0.0f);
            if (is_permuted && t - (t & (period - 1)) + period <= k) {
                x = permuted(in, t);
            } else if (is_permuted) {
                for (std::int64_t i = 0; i < lanes_of_vector; ++i) {
                    const std::int64_t p = plan.source_at(t + i);
                    ordered[i] = p < k ? in[p] : 0.0f;
                }
                x = load(ordered);
            } else if (t < k) {
                x = load_n(in + t, static_cast<std::size_t>(min_of(k - t, lanes_of_vector)));
            }
            const auto packed = cut(x);
            store(packed.value, value + r * padded + t);
            store_exponents(packed.exponent, packed.zero, exponent + r * padded + t);
            special = special | packed.special;
        }
        specials[r] = 0;
        for (std::int64_t p = 0; any(special) && p < k; ++p) specials[r] |= special_of(operand.format, in[p]);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
