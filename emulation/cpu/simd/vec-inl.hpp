// SPDX-License-Identifier: Apache-2.0
// Vector types for the target that Highway is compiling: F32 and I32 (8 lanes on AVX2, 16 on AVX-512), their mask M32,
// and F64 and M64 with half as many lanes. The types have operators, and F32 has the functions of core/math.inl.
// Included once per SIMD target.
#include "core/math.hpp"

#if defined(MACHEPS_VEC_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_VEC_INL
#undef MACHEPS_VEC_INL
#else
#define MACHEPS_VEC_INL
#endif

/// Highway compiles a kernel file in several passes. This macro is 1 in the passes for AVX2 and AVX-512. It is 0 in the
/// other passes, which must not contain kernels.
#undef MACHEPS_SIMD_TARGET
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define MACHEPS_SIMD_TARGET 1
#else
#define MACHEPS_SIMD_TARGET 0
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF32 = hn::ScalableTag<float>;
using DI32 = hn::ScalableTag<std::int32_t>;
using DU32 = hn::ScalableTag<std::uint32_t>;
using DF64 = hn::ScalableTag<double>;
inline constexpr std::size_t f32_lanes = HWY_TARGET == HWY_AVX3 ? 16 : 8;
inline constexpr std::size_t f64_lanes = f32_lanes / 2;

struct M32 {
    hn::Mask<DF32> m;
};
struct I32 {
    hn::Vec<DI32> v;
    HWY_INLINE I32() : v(hn::Zero(DI32())) {}
    HWY_INLINE I32(hn::Vec<DI32> x) : v(x) {}
    HWY_INLINE I32(std::int32_t x) : v(hn::Set(DI32(), x)) {}
};
struct F32 {
    hn::Vec<DF32> v;
    HWY_INLINE F32() : v(hn::Zero(DF32())) {}
    HWY_INLINE F32(hn::Vec<DF32> x) : v(x) {}
    HWY_INLINE F32(float x) : v(hn::Set(DF32(), x)) {}
};
struct M64 {
    hn::Mask<DF64> m;
};
struct F64 {
    hn::Vec<DF64> v;
    HWY_INLINE F64() : v(hn::Zero(DF64())) {}
    HWY_INLINE F64(hn::Vec<DF64> x) : v(x) {}
    HWY_INLINE F64(double x) : v(hn::Set(DF64(), x)) {}
};

// --- unaligned loads and stores. The `_n` forms access only the first n elements. The other lanes of a load are zeros.
HWY_INLINE F32 load(const float* p) { return F32(hn::LoadU(DF32(), p)); }
HWY_INLINE F32 load_n(const float* p, std::size_t n) {
    return n >= f32_lanes ? load(p) : F32(hn::MaskedLoad(hn::FirstN(DF32(), n), DF32(), p));
}
HWY_INLINE void store(F32 x, float* p) { hn::StoreU(x.v, DF32(), p); }
HWY_INLINE void store_n(F32 x, float* p, std::size_t n) {
    if (n >= f32_lanes) return store(x, p);
    hn::BlendedStore(x.v, hn::FirstN(DF32(), n), DF32(), p);
}
HWY_INLINE I32 load(const std::int32_t* p) { return I32(hn::LoadU(DI32(), p)); }
HWY_INLINE I32 load_n(const std::int32_t* p, std::size_t n) {
    return n >= f32_lanes ? load(p) : I32(hn::MaskedLoad(hn::FirstN(DI32(), n), DI32(), p));
}
HWY_INLINE void store(I32 x, std::int32_t* p) { hn::StoreU(x.v, DI32(), p); }
HWY_INLINE void store_n(I32 x, std::int32_t* p, std::size_t n) {
    if (n >= f32_lanes) return store(x, p);
    hn::BlendedStore(x.v, hn::FirstN(DI32(), n), DI32(), p);
}
HWY_INLINE F64 load(const double* p) { return F64(hn::LoadU(DF64(), p)); }
HWY_INLINE F64 load_n(const double* p, std::size_t n) {
    return n >= f64_lanes ? load(p) : F64(hn::MaskedLoad(hn::FirstN(DF64(), n), DF64(), p));
}
HWY_INLINE void store(F64 x, double* p) { hn::StoreU(x.v, DF64(), p); }
HWY_INLINE void store_n(F64 x, double* p, std::size_t n) {
    if (n >= f64_lanes) return store(x, p);
    hn::BlendedStore(x.v, hn::FirstN(DF64(), n), DF64(), p);
}
HWY_INLINE F32 broadcast(float x) { return F32(x); }
HWY_INLINE F64 broadcast(double x) { return F64(x); }

// --- F32
HWY_INLINE F32 operator+(F32 a, F32 b) { return F32(hn::Add(a.v, b.v)); }
HWY_INLINE F32 operator-(F32 a, F32 b) { return F32(hn::Sub(a.v, b.v)); }
HWY_INLINE F32 operator*(F32 a, F32 b) { return F32(hn::Mul(a.v, b.v)); }
HWY_INLINE F32 operator/(F32 a, F32 b) { return F32(hn::Div(a.v, b.v)); }
HWY_INLINE F32 operator-(F32 a) { return F32(hn::Neg(a.v)); }
HWY_INLINE F32 fma(F32 a, F32 b, F32 c) { return F32(hn::MulAdd(a.v, b.v, c.v)); }
HWY_INLINE F32 sqrt(F32 a) { return F32(hn::Sqrt(a.v)); }
HWY_INLINE F32 abs(F32 a) { return F32(hn::Abs(a.v)); }
HWY_INLINE M32 operator<(F32 a, F32 b) { return {hn::Lt(a.v, b.v)}; }
HWY_INLINE M32 operator>(F32 a, F32 b) { return {hn::Gt(a.v, b.v)}; }
HWY_INLINE M32 operator<=(F32 a, F32 b) { return {hn::Le(a.v, b.v)}; }
HWY_INLINE M32 operator>=(F32 a, F32 b) { return {hn::Ge(a.v, b.v)}; }
HWY_INLINE M32 operator==(F32 a, F32 b) { return {hn::Eq(a.v, b.v)}; }
/// Returns true for NaN, as in C++; Highway's Ne returns false for NaN on AVX2.
HWY_INLINE M32 operator!=(F32 a, F32 b) { return {hn::Not(hn::Eq(a.v, b.v))}; }
HWY_INLINE F32 select(M32 mask, F32 a, F32 b) { return F32(hn::IfThenElse(mask.m, a.v, b.v)); }
HWY_INLINE I32 bits(F32 a) { return I32(hn::BitCast(DI32(), a.v)); }
HWY_INLINE F32 from_bits(I32 a) { return F32(hn::BitCast(DF32(), a.v)); }

// --- masks
HWY_INLINE M32 operator&(M32 a, M32 b) { return {hn::And(a.m, b.m)}; }
HWY_INLINE M32 operator|(M32 a, M32 b) { return {hn::Or(a.m, b.m)}; }
HWY_INLINE M32 operator!(M32 a) { return {hn::Not(a.m)}; }
HWY_INLINE M32 first_n(std::size_t n) { return {hn::FirstN(DF32(), n)}; }
HWY_INLINE bool any(M32 a) { return !hn::AllFalse(DF32(), a.m); }
HWY_INLINE std::size_t count(M32 a) { return hn::CountTrue(DF32(), a.m); }

// --- I32: arithmetic wraps around. >> is an arithmetic shift, and shift_right_logical() is a logical shift.
HWY_INLINE I32 operator+(I32 a, I32 b) { return I32(hn::Add(a.v, b.v)); }
HWY_INLINE I32 operator-(I32 a, I32 b) { return I32(hn::Sub(a.v, b.v)); }
HWY_INLINE I32 operator*(I32 a, I32 b) { return I32(hn::Mul(a.v, b.v)); }
HWY_INLINE I32 operator&(I32 a, I32 b) { return I32(hn::And(a.v, b.v)); }
HWY_INLINE I32 operator|(I32 a, I32 b) { return I32(hn::Or(a.v, b.v)); }
HWY_INLINE I32 operator^(I32 a, I32 b) { return I32(hn::Xor(a.v, b.v)); }
HWY_INLINE I32 operator~(I32 a) { return I32(hn::Not(a.v)); }
HWY_INLINE I32 operator<<(I32 a, int n) { return I32(hn::ShiftLeftSame(a.v, n)); }
HWY_INLINE I32 operator>>(I32 a, int n) { return I32(hn::ShiftRightSame(a.v, n)); }
HWY_INLINE I32 shift_right_logical(I32 a, int n) {
    return I32(hn::BitCast(DI32(), hn::ShiftRightSame(hn::BitCast(DU32(), a.v), n)));
}
HWY_INLINE M32 operator<(I32 a, I32 b) { return {hn::RebindMask(DF32(), hn::Lt(a.v, b.v))}; }
HWY_INLINE M32 operator>(I32 a, I32 b) { return {hn::RebindMask(DF32(), hn::Gt(a.v, b.v))}; }
HWY_INLINE M32 operator==(I32 a, I32 b) { return {hn::RebindMask(DF32(), hn::Eq(a.v, b.v))}; }
HWY_INLINE I32 select(M32 mask, I32 a, I32 b) { return I32(hn::IfThenElse(hn::RebindMask(DI32(), mask.m), a.v, b.v)); }
HWY_INLINE F32 to_float(I32 a) { return F32(hn::ConvertTo(DF32(), a.v)); }

// --- F64
HWY_INLINE F64 operator+(F64 a, F64 b) { return F64(hn::Add(a.v, b.v)); }
HWY_INLINE F64 operator-(F64 a, F64 b) { return F64(hn::Sub(a.v, b.v)); }
HWY_INLINE F64 operator*(F64 a, F64 b) { return F64(hn::Mul(a.v, b.v)); }
HWY_INLINE F64 operator/(F64 a, F64 b) { return F64(hn::Div(a.v, b.v)); }
HWY_INLINE F64 operator-(F64 a) { return F64(hn::Neg(a.v)); }
HWY_INLINE F64 fma(F64 a, F64 b, F64 c) { return F64(hn::MulAdd(a.v, b.v, c.v)); }
HWY_INLINE F64 sqrt(F64 a) { return F64(hn::Sqrt(a.v)); }
HWY_INLINE M64 operator<(F64 a, F64 b) { return {hn::Lt(a.v, b.v)}; }
HWY_INLINE M64 operator==(F64 a, F64 b) { return {hn::Eq(a.v, b.v)}; }
HWY_INLINE M64 operator!(M64 a) { return {hn::Not(a.m)}; }
HWY_INLINE F64 select(M64 mask, F64 a, F64 b) { return F64(hn::IfThenElse(mask.m, a.v, b.v)); }
/// Converts the first half of the lanes (promote_lower) or the second half (promote_upper) to fp64, which is exact.
HWY_INLINE F64 promote_lower(F32 a) { return F64(hn::PromoteTo(DF64(), hn::LowerHalf(a.v))); }
HWY_INLINE F64 promote_upper(F32 a) { return F64(hn::PromoteTo(DF64(), hn::UpperHalf(hn::Half<DF32>(), a.v))); }
/// Rounds both halves to fp32 and returns `lower` in the first lanes.
HWY_INLINE F32 demote(F64 lower, F64 upper) {
    const hn::Half<DF32> half;
    return F32(hn::Combine(DF32(), hn::DemoteTo(half, upper.v), hn::DemoteTo(half, lower.v)));
}

#define MACHEPS_MATH_FN HWY_INLINE
#define MACHEPS_MATH_REAL F32
#define MACHEPS_MATH_INT I32
#include "core/math.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_INT

#define MACHEPS_MATH_FN HWY_INLINE
#define MACHEPS_MATH_REAL F64
#include "core/exp64.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL

namespace math {

/// Returns e^x with the bits of the scalar fp64 function, for x <= 0. NaN gives NaN.
HWY_INLINE F64 exp_not_positive(F64 x) {
    const hn::RebindToSigned<DF64> di;
    F64 shifted;
    const F64 y = detail::exp_mantissa(x, shifted);
    const auto power = hn::Sub(hn::BitCast(di, shifted.v), hn::BitCast(di, F64(macheps::math::detail::exp_magic).v));
    const auto half = hn::ShiftRight<1>(power);
    const auto two_to = [&](auto n) HWY_ATTR {
        return F64(hn::BitCast(DF64(), hn::ShiftLeft<52>(hn::Add(n, hn::Set(di, 1023)))));
    };
    return select(x < F64(-746.0), F64(), (y * two_to(half)) * two_to(hn::Sub(power, half)));
}

/// sin and cos call the scalar functions lane by lane, because no hot path uses them.
HWY_INLINE F32 sin(F32 x) {
    float lane[f32_lanes];
    store(x, lane);
    for (float& y : lane) y = macheps::math::sin(y);
    return load(lane);
}
HWY_INLINE F32 cos(F32 x) {
    float lane[f32_lanes];
    store(x, lane);
    for (float& y : lane) y = macheps::math::cos(y);
    return load(lane);
}

}  // namespace math

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
