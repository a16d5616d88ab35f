// SPDX-License-Identifier: Apache-2.0
// A Tally in device memory that the threads of a kernel add to. Counts and extremes are exact, so the order of the
// threads does not change the result.
#pragma once
#include "core/tally.hpp"
#include "emulation/gpu/device/threads.hpp"

namespace macheps::gpu {

/// The counts of a Tally in device memory. Its memory must be initialised with `DeviceTally{}`, whose bytes are not all
/// zero.
struct DeviceTally {
    std::uint64_t count = 0;
    std::uint64_t nan_in = 0, inf_in = 0, zero_in = 0;
    std::uint64_t underflow = 0, to_subnormal = 0, overflow = 0, saturated = 0;
    std::uint32_t amax = 0;              ///< bits of max |x|; the bits of two magnitudes compare like the magnitudes
    std::uint32_t amin_nz = 0xffffffff;  ///< bits of min |x| over x != 0; 0xffffffff: no x != 0 yet
};

/// Limits of a format that ThreadTally::add compares values with.
struct TallyLimits {
    float largest = 0;     ///< largest finite value of the format, or of fp32 if that is smaller
    float saturated = 0;   ///< largest finite value of the format; if fp32 cannot hold it, NaN, which equals no value
    float min_normal = 0;  ///< smallest normal number; 0 if the format has no subnormals
};

constexpr TallyLimits tally_limits(const Format& format) {
    const double largest = decode64(format, format.max_finite_code() << format.padding);
    const bool has_subnormals = format.encoding == Encoding::binary;
    const bool fits = largest <= 0x1.fffffep127;
    return {fits ? static_cast<float>(largest) : 0x1.fffffep127f,
            fits ? static_cast<float>(largest) : bit_cast<float>(0x7fc00000u),
            has_subnormals ? static_cast<float>(Format::power_of_two(format.emin())) : 0.0f};
}

/// Tally of one thread, in registers. add() counts like Tally::add, but with 32-bit counters and without fp64.
struct ThreadTally {
    std::uint32_t count = 0;
    std::uint32_t nan_in = 0, inf_in = 0, zero_in = 0;
    std::uint32_t underflow = 0, to_subnormal = 0, overflow = 0, saturated = 0;
    std::uint32_t amax = 0, amin_nz = 0xffffffff;

    /// Counts one element: x is the value before scaling, z the value after scaling, and q the rounded z. One tally can
    /// count 2^32 - 1 elements.
    MACHEPS_HD constexpr void add(const TallyLimits& limits, float x, float z, float q) {
        ++count;
        const std::uint32_t size = bit_cast<std::uint32_t>(x) & 0x7fffffffu;
        if (size >= 0x7f800000u) {
            size > 0x7f800000u ? ++nan_in : ++inf_in;
            return;
        }
        amax = max_of(amax, size);
        if (size == 0) {
            ++zero_in;
        } else {
            amin_nz = min_of(amin_nz, size);
        }
        const float q_size = q < 0 ? -q : q, z_size = z < 0 ? -z : z;
        if (size != 0 && q == 0) ++underflow;
        if (q != 0 && q_size < limits.min_normal) ++to_subnormal;
        if (z_size > limits.largest) ++overflow;
        if (q_size == limits.saturated) ++saturated;
    }

    MACHEPS_HD constexpr ThreadTally& operator+=(const ThreadTally& other) {
        count += other.count;
        nan_in += other.nan_in;
        inf_in += other.inf_in;
        zero_in += other.zero_in;
        underflow += other.underflow;
        to_subnormal += other.to_subnormal;
        overflow += other.overflow;
        saturated += other.saturated;
        amax = max_of(amax, other.amax);
        amin_nz = min_of(amin_nz, other.amin_nz);
        return *this;
    }
};

/// Adds `mine` (a ThreadTally or a DeviceTally) to *total, which may be in global or in shared memory.
template <class Counts>
MACHEPS_KERNEL void add_to(DeviceTally* total, const Counts& mine) {
    const auto add = [](std::uint64_t& to, std::uint64_t count) {
        if (count != 0) atomic_add(&to, count);
    };
    add(total->count, mine.count);
    add(total->nan_in, mine.nan_in);
    add(total->inf_in, mine.inf_in);
    add(total->zero_in, mine.zero_in);
    add(total->underflow, mine.underflow);
    add(total->to_subnormal, mine.to_subnormal);
    add(total->overflow, mine.overflow);
    add(total->saturated, mine.saturated);
    if (mine.amax != 0) atomic_max(&total->amax, mine.amax);
    if (mine.amin_nz != 0xffffffffu) atomic_min(&total->amin_nz, mine.amin_nz);
}

/// Adds a Tally of core/tally.hpp to *total.
MACHEPS_KERNEL inline void add_to(DeviceTally* total, const Tally& mine) {
    add_to(total, DeviceTally{.count = mine.count,
                              .nan_in = mine.nan_in,
                              .inf_in = mine.inf_in,
                              .zero_in = mine.zero_in,
                              .underflow = mine.underflow,
                              .to_subnormal = mine.to_subnormal,
                              .overflow = mine.overflow,
                              .saturated = mine.saturated,
                              .amax = bit_cast<std::uint32_t>(mine.amax),
                              .amin_nz = mine.amin_nz == 0 ? 0xffffffffu : bit_cast<std::uint32_t>(mine.amin_nz)});
}

/// Converts a DeviceTally, copied to the host, to a Tally.
constexpr Tally finish(const DeviceTally& total) {
    return {.count = total.count,
            .nan_in = total.nan_in,
            .inf_in = total.inf_in,
            .zero_in = total.zero_in,
            .underflow = total.underflow,
            .to_subnormal = total.to_subnormal,
            .overflow = total.overflow,
            .saturated = total.saturated,
            .amax = bit_cast<float>(total.amax),
            .amin_nz = total.amin_nz == 0xffffffffu ? 0.0f : bit_cast<float>(total.amin_nz)};
}

}  // namespace macheps::gpu
