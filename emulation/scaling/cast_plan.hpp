// SPDX-License-Identifier: Apache-2.0
// CastPlan: precomputed values of a Cast for the fast kernels of CPU and GPU.
#pragma once
#include "emulation/definitions.hpp"

namespace macheps {

/// Values that fast kernels need for a Cast, computed once. Fields whose names end in `_bits` are fp32 bit patterns of
/// magnitudes.
struct CastPlan {
    enum class Path : std::uint8_t {
        scalar,        ///< no fast path: the definition is used
        wide,          ///< formats with the exponent range of fp32 (fp32, tf32, bf16): rounds away the low bits of x
        narrow,        ///< formats with a smaller exponent range: rounds by adding and subtracting a power of two
        power_of_two,  ///< e8m0fnu: computes only the exponent; the definition computes the tally
    };

    CastPlan() = default;
    explicit CastPlan(const Cast& cast);

    Cast cast{};
    Path path = Path::scalar;
    bool signless = false;  ///< fnuz, fixed point: zero and NaN lose their sign
    bool nan_keeps_sign = false;
    bool infinity_is_max = false;  ///< the cast turns an infinity into the largest finite value
    bool nan_is_max = false;
    bool carries_to_inf = false;     ///< wide: a carry out of the largest finite value gives the correct infinity
    int drop = 0;                    ///< bits of fp32's significand that the format lacks
    std::int32_t emin_bits = 0;      ///< 2^emin
    std::int32_t max_bits = 0;       ///< the largest finite value
    std::int32_t clamp_bits = 0;     ///< narrow: the power of two above max_bits; larger inputs give the same result
    std::int32_t overflow_bits = 0;  ///< result of an overflow, unless the rounding mode gives the largest number
    std::int32_t nan_bits = 0;       ///< result of a NaN
};

namespace definition {

/// Returns the result of cast_element() for Round::nearest_even, in about fifteen operations. The path of the plan must
/// be wide or narrow. The narrow path adds and subtracts 2^(e + drop), where 2^e is the binade of x. The addition
/// rounds x correctly, because the last place of the sum equals the spacing of the format's numbers near x.
MACHEPS_HD inline float cast_nearest_even(const CastPlan& plan, float x) {
    const float u = plan.cast.encode_scale == 1 ? x : x * plan.cast.encode_scale;
    const auto bits = bit_cast<std::int32_t>(u);
    const std::int32_t magnitude = bits & 0x7fffffff;
    std::int32_t q;
    if (plan.path == CastPlan::Path::wide) {
        const std::int32_t half = plan.drop == 0 ? 0 : 1 << (plan.drop - 1);
        const std::int32_t odd = plan.drop == 0 ? 0 : magnitude >> plan.drop & 1;
        // The type is unsigned because the sum may overflow if x is NaN. The sum is not used in that case.
        const std::uint32_t sum =
            static_cast<std::uint32_t>(magnitude) + static_cast<std::uint32_t>(plan.drop == 0 ? 0 : half - 1 + odd);
        q = static_cast<std::int32_t>(sum & ~((1u << plan.drop) - 1));
        q = q > plan.max_bits ? plan.overflow_bits : q;
    } else {
        const float binade = bit_cast<float>(max_of(magnitude & 0x7f800000, plan.emin_bits));
        const float c = binade * bit_cast<float>((127 + plan.drop) << 23), m = bit_cast<float>(magnitude);
        const float rounded = (m + c) - c;
        q = rounded <= bit_cast<float>(plan.max_bits) ? bit_cast<std::int32_t>(rounded) : plan.overflow_bits;
    }
    const bool is_nan = magnitude > 0x7f800000;
    q = is_nan ? plan.nan_bits : q;
    const bool drops_sign = plan.signless ? is_nan || q == 0 || q > 0x7f800000 : is_nan && !plan.nan_keeps_sign;
    return bit_cast<float>(drops_sign ? q : q | (bits & INT32_MIN));
}

}  // namespace definition

}  // namespace macheps
