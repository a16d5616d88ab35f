// SPDX-License-Identifier: Apache-2.0
// MachinePlan: data that the vector kernels need for one matmul on a matrix unit, in addition to its FusedPlan.
#pragma once
#include "emulation/matmul/fused_plan.hpp"
#include "emulation/matmul/matmul.hpp"

#include <array>

namespace macheps {

struct ExponentRange {
    int least = 1000, most = -1000;
};

/// Flags for the non-finite values of a row or column.
inline constexpr std::uint8_t has_nan = 1, has_infinity = 2;

inline std::uint8_t special_of(const Format& format, float x) {
    const Factor f = factor_of_value(format, x);
    return f.is_nan() ? has_nan : f.is_infinite() ? has_infinity : 0;
}

/// A FusedPlan with additional values that the kernels need for every vector. The order of terms repeats after period()
/// terms, a power of two of at most 64.
struct MachinePlan : FusedPlan {
    explicit MachinePlan(const FusedPlan& fused)
        : FusedPlan(fused),
          scale_count(scale_block == 0 ? 0 : instruction_k / scale_block),
          flushes(rule.model == SumModel::flushed_pairs),
          a_base(a_format.emin()),
          b_base(b_format.emin()) {
        for (int place = 0; place < period(); ++place) {
            sources[static_cast<std::size_t>(place)] = static_cast<std::uint8_t>(source(place));
        }
    }

    std::array<std::uint8_t, 64> sources{};  ///< source(place) for every place of one period
    int scale_count;                         ///< scales per instruction
    bool flushes;                            ///< subnormal operands are read as zeros
    int a_base, b_base;                      ///< stored exponents are relative to these

    /// Returns source(place) from the table.
    std::int64_t source_at(std::int64_t place) const {
        if (!is_permuted()) return place;
        const std::int64_t within = place & (period() - 1);
        return place - within + sources[static_cast<std::size_t>(within)];
    }
};

/// A block scale in the form that the kernels read: its magnitude, without the bits that do not fit into its format. A
/// NaN stays NaN.
struct PackedScale {
    float value;
    /// Exponent of the value. For a zero, it is so low that the sum of the exponents of two scales is below -5000. For
    /// a NaN, it is so high that the sum is above 5000.
    int exponent;
};
inline PackedScale packed_scale(const Format& format, float scale) {
    // Nearly all scales are normal numbers that their format represents exactly.
    const std::uint32_t size = bit_cast<std::uint32_t>(scale) & 0x7fffffffu;
    const int exponent = static_cast<int>(size >> 23) - 127;
    const bool is_on_grid = (size & ((1u << (24 - format.precision)) - 1)) == 0;
    if (is_on_grid && exponent >= format.emin() && exponent > -127 && exponent < 128) {
        return {bit_cast<float>(size), exponent};
    }
    const Factor f = definition::scale_factor(format, scale);
    return {static_cast<float>(f.value()), f.is_nan() ? 100000 : f.is_zero() ? -20000 : f.exponent};
}

/// Returns true if the exponents of all values of the format fit in 8 bits.
constexpr bool has_narrow_exponents(const Format& format) { return format.exponent_bits() <= 5; }

}  // namespace macheps
