// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/casts/odd_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/codec.hpp"
#include "emulation/cpu/ops/casts/cast64.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

/// Converts to fp32 with rounding to odd. The processor first converts to nearest. If this rounded away from zero, the
/// function subtracts one unit in the last place. If the conversion was inexact, the function sets the last bit. A
/// finite number that became an infinity goes back to the largest finite number, whose last bit is set.
HWY_INLINE F32 to_odd(F64 lower, F64 upper) {
    const DI32 di;
    const DF64 wide;
    const F32 nearest = demote(lower, upper);
    const auto verdict = [&](F64 x, F64 y) HWY_ATTR {
        // Returns the sum of two flags: 2 if y is larger in magnitude than x, and 1 if y differs from x. A NaN counts
        // as different; setting the last bit leaves it a NaN.
        const auto larger = hn::IfThenElseZero(hn::Gt(hn::Abs(y.v), hn::Abs(x.v)), hn::Set(wide, 2.0));
        return F64(hn::Add(larger, hn::IfThenZeroElse(hn::Eq(y.v, x.v), hn::Set(wide, 1.0))));
    };
    const F32 verdicts = demote(verdict(lower, promote_lower(nearest)), verdict(upper, promote_upper(nearest)));
    const auto marks = hn::ConvertTo(di, verdicts.v);
    const auto back = hn::ShiftRight<1>(marks), odd = hn::And(marks, hn::Set(di, 1));
    return from_bits(I32(hn::Or(hn::Sub(bits(nearest).v, back), odd)));
}

}  // namespace

void round_array_to_odd(const double* x, float* out, std::int64_t n) {
    constexpr auto lanes = static_cast<std::int64_t>(f32_lanes), half = static_cast<std::int64_t>(f64_lanes);
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) store(to_odd(load(x + i), load(x + i + half)), out + i);
    for (; i < n; ++i) out[i] = round_to_odd(x[i]);
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX2 {
void round_array_to_odd(const double* x, float* out, std::int64_t n);
}
namespace N_AVX3 {
void round_array_to_odd(const double* x, float* out, std::int64_t n);
}

float round_to_odd(double x) {
    if (x != x) return bit_cast<float>(encode(fp32, x, Round::nearest_even, Overflow::nonsaturate));
    return bit_cast<float>(encode(fp32, x, Round::to_odd, Overflow::nonsaturate));
}

void round_to_odd(Simd simd, const double* x, float* out, std::int64_t n) {
    const auto scalar = [](const double* from, float* to, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) to[i] = round_to_odd(from[i]);
    };
    MACHEPS_CHOOSE_TARGET(simd, scalar, round_array_to_odd)(x, out, n);
}

}  // namespace macheps
#endif
