// SPDX-License-Identifier: Apache-2.0
// Exact counts of the effects of a cast, such as underflows and overflows. -0 counts as zero.
#pragma once
#include "core/codec.hpp"

namespace macheps {

/// Counts over the elements of one cast of x, with
///   z = fl32(x * encode_scale), q = z rounded to the format, y = q * decode_scale.
/// All fields except count, nan_in and inf_in cover only finite x.
struct Tally {
    std::uint64_t count = 0;
    std::uint64_t nan_in = 0, inf_in = 0, zero_in = 0;
    std::uint64_t underflow = 0;     ///< x != 0 and q == 0
    std::uint64_t to_subnormal = 0;  ///< 0 < |q| < 2^emin
    std::uint64_t overflow = 0;      ///< |z| > largest finite value of the format
    std::uint64_t saturated = 0;     ///< |q| == largest finite value
    float amax = 0;                  ///< max |x|; 0 if no x is finite
    float amin_nz = 0;               ///< min |x| over x != 0; 0 if there is none

    constexpr bool operator==(const Tally&) const = default;

    /// Counts one element. `x` is its value before scaling, `z` its value after scaling, and `q` is `z` after rounding.
    MACHEPS_HD constexpr void add(Format f, float x, float z, float q) {
        ++count;
        const std::uint32_t magnitude = bit_cast<std::uint32_t>(x) & 0x7fffffffu;
        if (magnitude >= 0x7f800000u) {
            magnitude > 0x7f800000u ? ++nan_in : ++inf_in;
            return;
        }
        const float size = bit_cast<float>(magnitude);
        amax = max_of(amax, size);
        if (magnitude == 0) {
            ++zero_in;
        } else {
            amin_nz = amin_nz == 0 ? size : min_of(amin_nz, size);
        }
        const double limit = decode64(f, f.max_finite_code() << f.padding), q_size = q < 0 ? -double{q} : double{q};
        if (magnitude != 0 && q == 0) ++underflow;
        const bool has_subnormals = f.encoding == Encoding::binary;
        if (has_subnormals && q != 0 && q_size < Format::power_of_two(f.emin())) ++to_subnormal;
        if ((z < 0 ? -double{z} : double{z}) > limit) ++overflow;
        if (q_size == limit) ++saturated;
    }

    MACHEPS_HD constexpr Tally& operator+=(const Tally& other) {
        count += other.count;
        nan_in += other.nan_in;
        inf_in += other.inf_in;
        zero_in += other.zero_in;
        underflow += other.underflow;
        to_subnormal += other.to_subnormal;
        overflow += other.overflow;
        saturated += other.saturated;
        amax = max_of(amax, other.amax);
        amin_nz = amin_nz == 0 ? other.amin_nz : other.amin_nz == 0 ? amin_nz : min_of(amin_nz, other.amin_nz);
        return *this;
    }
};

}  // namespace macheps
