// SPDX-License-Identifier: Apache-2.0
#include "emulation/scaling/cast_plan.hpp"

namespace macheps {

namespace {

std::int32_t magnitude_bits(Format f, std::uint64_t code) {
    return bit_cast<std::int32_t>(decode(f, code << f.padding));
}

}  // namespace

CastPlan::CastPlan(const Cast& c) : cast(c) {
    const Format& f = c.format;
    const float scale = c.encode_scale;
    const bool scales =
        scale != 0 && scale - scale == 0;  // fast kernels give wrong counts if the scale is zero, Inf or NaN
    if (f == e8m0fnu && c.round != Round::stochastic && c.round != Round::to_odd) {
        path = Path::power_of_two;
        nan_bits = 0x7fc00000;
        infinity_is_max = c.overflow == Overflow::saturate;
        overflow_bits = infinity_is_max ? magnitude_bits(f, f.max_finite_code()) : nan_bits;
    }
    if (f.encoding == Encoding::power_of_two || f.precision < 2 || f.precision > 24 || f.emin() < -126 || !scales) {
        return;
    }
    if (decode64(f, f.max_finite_code() << f.padding) > 0x1.fffffep127) return;

    const bool limited = c.overflow == Overflow::saturate || !f.can_overflow();
    drop = 24 - f.precision;
    emin_bits = (f.emin() + 127) << 23;
    max_bits = magnitude_bits(f, f.max_finite_code());
    overflow_bits = limited ? max_bits : f.has_inf() ? 0x7f800000 : 0x7fc00000;
    nan_bits = f.has_nan() ? 0x7fc00000 : max_bits;
    signless = !f.has_negative_zero();
    nan_keeps_sign = scale == 1 && f.has_nan();  // multiplication by another scale gives the canonical NaN
    infinity_is_max = limited;
    carries_to_inf = !limited && f.has_inf() && f.exponent_bits() == 8;
    nan_is_max = !f.has_nan();

    const int emax = (max_bits >> 23) - 127;
    clamp_bits = (emax + 128) << 23;
    if (f.emin() == -126 && !signless) {
        path = Path::wide;
    } else if (drop >= 1 && emax + 1 + drop <= 127 && f.emin() >= -64) {
        path = Path::narrow;
    }
}

}  // namespace macheps
