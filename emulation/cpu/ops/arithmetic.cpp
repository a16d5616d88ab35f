// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/arithmetic.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/error.hpp"
#include "emulation/cpu/ops/arithmetic.hpp"
#include "emulation/cpu/ops/casts/cast-inl.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

#ifndef MACHEPS_ARITHMETIC_KERNELS
#define MACHEPS_ARITHMETIC_KERNELS
namespace macheps {
using ArithmeticKernel = void (*)(const CastPlan& plan, const float* a, const float* b, const float* c, float* out,
                                  std::int64_t n);

/// How the fp32 result is rounded before the cast.
enum class Through : std::uint8_t {
    nearest,     ///< to nearest even; chosen if rounding twice is innocuous
    odd,         ///< to odd, so that the cast can still round correctly (Boldo and Melquiond 2008)
    odd_or_neg,  ///< to odd, but an exact difference of zero gives -0, as in rounding toward -Inf
};
}  // namespace macheps
#endif

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

using namespace vector_cast;

template <Operation operation>
HWY_INLINE F32 nearest(F32 a, F32 b, F32 c) {
    if constexpr (operation == Operation::add) return a + b;
    if constexpr (operation == Operation::sub) return a - b;
    if constexpr (operation == Operation::mul) return a * b;
    if constexpr (operation == Operation::div) return a / b;
    if constexpr (operation == Operation::sqrt) return sqrt(a);
    return fma(a, b, c);
}

#if HWY_TARGET == HWY_AVX3

template <Operation operation, int direction>
HWY_INLINE VF directed(VF a, VF b, VF c) {
    constexpr int how = direction | _MM_FROUND_NO_EXC;
    if constexpr (operation == Operation::add) return VF{_mm512_add_round_ps(a.raw, b.raw, how)};
    if constexpr (operation == Operation::sub) return VF{_mm512_sub_round_ps(a.raw, b.raw, how)};
    if constexpr (operation == Operation::mul) return VF{_mm512_mul_round_ps(a.raw, b.raw, how)};
    if constexpr (operation == Operation::div) return VF{_mm512_div_round_ps(a.raw, b.raw, how)};
    if constexpr (operation == Operation::sqrt) return VF{_mm512_sqrt_round_ps(a.raw, how)};
    return VF{_mm512_fmadd_round_ps(a.raw, b.raw, c.raw, how)};
}

/// Computes the operation with rounding to odd. The results rounded down and up are equal if the result is exact.
/// Otherwise they are neighbours, and the last bit of one of them is set.
template <Operation operation, bool negative_zero>
HWY_INLINE F32 odd(F32 a, F32 b, F32 c) {
    const VF down = directed<operation, _MM_FROUND_TO_NEG_INF>(a.v, b.v, c.v),
             up = directed<operation, _MM_FROUND_TO_POS_INF>(a.v, b.v, c.v);
    const VF first = negative_zero ? up : down, second = negative_zero ? down : up;
    const __mmask16 is_odd = _mm512_test_epi32_mask(as_int(first).raw, all(1).raw);
    return F32(VF{_mm512_mask_blend_ps(is_odd, second.raw, first.raw)});
}

#else

/// Returns x + y in fp64, rounded to odd. The two-sum algorithm gives the rounding error, whose sign shows on which
/// side of the rounded sum the exact sum is.
HWY_INLINE F64 odd_sum(F64 x, F64 y) {
    const F64 sum = x + y, y_part = sum - x, error = (x - (sum - y_part)) + (y - y_part);
    const DF64 d;
    const hn::RebindToSigned<DF64> di64;
    const auto bits = hn::BitCast(di64, sum.v);
    const auto inexact = hn::Or(hn::Lt(error.v, hn::Zero(d)), hn::Gt(error.v, hn::Zero(d)));  // false for NaN
    // If the exact sum is nearer to zero than `sum`, `inward` is -1 and moves the result one unit toward zero.
    // Otherwise `inward` is 0. Then the last bit is set.
    const auto inward = hn::BroadcastSignBit(hn::BitCast(di64, hn::Xor(error.v, sum.v)));
    const auto cut = hn::Add(bits, inward);
    const auto odd = hn::Or(cut, hn::Set(di64, 1));
    return F64(hn::IfThenElse(inexact, hn::BitCast(d, odd), sum.v));
}

/// Converts fp64 to fp32, rounded to odd.
HWY_INLINE F32 odd_narrow(F64 lower, F64 upper) {
    const F32 near = demote(lower, upper);
    const auto apart = [](F64 exact, F64 rounded, auto& outward) HWY_ATTR {
        const auto e = hn::Abs(exact.v), r = hn::Abs(rounded.v);
        outward = hn::Gt(r, e);
        return hn::Or(outward, hn::Lt(r, e));
    };
    hn::Mask<DF64> outward_lower, outward_upper;
    const auto inexact_lower = apart(lower, promote_lower(near), outward_lower);
    const auto inexact_upper = apart(upper, promote_upper(near), outward_upper);
    const auto narrow = [](hn::Mask<DF64> low, hn::Mask<DF64> high) HWY_ATTR {
        const DF64 d;
        return hn::ConcatEven(di, hn::BitCast(di, hn::VecFromMask(d, high)), hn::BitCast(di, hn::VecFromMask(d, low)));
    };
    const VI inexact = narrow(inexact_lower, inexact_upper), outward = narrow(outward_lower, outward_upper);
    return F32(as_float(hn::Or(hn::Add(as_int(near.v), outward), hn::And(inexact, all(1)))));
}

/// Computes the operation in fp64, precisely enough for odd_narrow() to return the exact result rounded to odd. fp64
/// holds products of fp32 numbers exactly. A quotient or root that is not an fp32 number does not become one when it is
/// rounded to fp64 (53 >= 2 * 24 + 2).
template <Operation operation>
HWY_INLINE F64 odd_wide(F64 a, F64 b, F64 c) {
    if constexpr (operation == Operation::add) return odd_sum(a, b);
    if constexpr (operation == Operation::sub) return odd_sum(a, -b);
    if constexpr (operation == Operation::mul) return a * b;
    if constexpr (operation == Operation::div) return a / b;
    if constexpr (operation == Operation::sqrt) return sqrt(a);
    return odd_sum(a * b, c);
}

template <Operation operation, bool negative_zero>
HWY_INLINE F32 odd(F32 a, F32 b, F32 c) {
    const F32 result = odd_narrow(odd_wide<operation>(promote_lower(a), promote_lower(b), promote_lower(c)),
                                  odd_wide<operation>(promote_upper(a), promote_upper(b), promote_upper(c)));
    constexpr bool sums = operation == Operation::add || operation == Operation::sub || operation == Operation::fma;
    if constexpr (!negative_zero || !sums) return result;
    // If the result is +0, there are two cases. If both terms are +0, the result stays +0. If terms with opposite signs
    // cancel, the result becomes -0.
    const F32 x = operation == Operation::fma ? a * b : a, y = operation == Operation::fma   ? c
                                                               : operation == Operation::sub ? -b
                                                                                             : b;
    const VI signs = hn::Or(as_int(x.v), as_int(y.v));
    const auto cancels = hn::And(hn::Eq(result.v, hn::Zero(df)), hn::RebindMask(df, hn::Lt(signs, hn::Zero(di))));
    return F32(hn::IfThenElse(cancels, hn::Set(df, -0.0f), result.v));
}

#endif

template <Operation operation, Through through>
HWY_INLINE F32 compute(F32 a, F32 b, F32 c) {
    if constexpr (through == Through::nearest) return nearest<operation>(a, b, c);
    return odd<operation, through == Through::odd_or_neg>(a, b, c);
}

template <Operation operation>
inline constexpr int operands = operation == Operation::sqrt  ? 1
                                : operation == Operation::fma ? 3
                                                              : 2;

/// Computes the fp32 results, which a cast then rounds.
template <Operation operation, Through through>
void unrounded(const CastPlan&, const float* a, const float* b, const float* c, float* out, std::int64_t n) {
    for_each_vector(n, out, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 x = load_n(a + i, count);
        const F32 y = operands<operation> > 1 ? load_n(b + i, count) : x;
        const F32 z = operands<operation> > 2 ? load_n(c + i, count) : x;
        return compute<operation, through>(x, y, z);
    });
}

template <Operation operation>
ArithmeticKernel unrounded_kernel(Through through) {
    switch (through) {
        case Through::nearest:
            return unrounded<operation, Through::nearest>;
        case Through::odd:
            return unrounded<operation, Through::odd>;
        default:
            return unrounded<operation, Through::odd_or_neg>;
    }
}

#if HWY_TARGET == HWY_AVX3

/// Computes the results and casts them in one pass.
template <Operation operation, Through through, Known known>
void rounded(const CastPlan& plan, const float* a, const float* b, const float* c, float* out, std::int64_t n) {
    const VectorRounder<Round::nearest_even> r(plan);
    const VF nan = as_float(all(0x7fc00000));
    const VI canonical_table = all(Classes{.zero = response::source,
                                           .infinity = response::source,
                                           .negative = response::source,
                                           .positive = response::source}
                                       .table());
    Seen seen;
    const auto one = [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 x = load_n(a + i, count), y = load_n(b + i, count);
        const F32 z = operands<operation> > 2 ? load_n(c + i, count) : x;
        const VF result = fix_up(nan, compute<operation, through>(x, y, z).v, canonical_table);
        return F32(cast_vector<Round::nearest_even, known>(r, result, hn::Zero(du), seen));
    };
    std::int64_t i = 0;
    for (; i + vector_step <= n; i += vector_step) store(one(i, f32_lanes), out + i);
    if (i < n) store_n(one(i, static_cast<std::size_t>(n - i)), out + i, static_cast<std::size_t>(n - i));
}

template <Operation operation, Through through>
ArithmeticKernel rounded_kernel(const CastPlan& plan) {
    if (plan.carries_to_inf) {
        return rounded<operation, through, Known{.wide = true, .carries_to_inf = true, .unit_scale = true}>;
    }
    if (plan.cast.format == fp16) return rounded<operation, through, Known{.fp16 = true, .unit_scale = true}>;
    return rounded<operation, through, Known{.beyond = true, .unit_scale = true}>;
}

/// Returns a kernel that computes and casts in one pass, or null if the plan needs two passes.
ArithmeticKernel fused_kernel(Operation operation, const CastPlan& plan, Through through) {
    const bool beyond = plan.path == CastPlan::Path::narrow && !plan.signless && !plan.infinity_is_max;
    if (plan.cast.round != Round::nearest_even || !(plan.carries_to_inf || beyond)) return nullptr;
    if (operation == Operation::fma) {
        return through == Through::nearest ? rounded_kernel<Operation::fma, Through::nearest>(plan)
                                           : rounded_kernel<Operation::fma, Through::odd>(plan);
    }
    if (through != Through::nearest) return nullptr;
    switch (operation) {
        case Operation::add:
            return rounded_kernel<Operation::add, Through::nearest>(plan);
        case Operation::sub:
            return rounded_kernel<Operation::sub, Through::nearest>(plan);
        case Operation::mul:
            return rounded_kernel<Operation::mul, Through::nearest>(plan);
        default:
            return nullptr;
    }
}

#else

ArithmeticKernel fused_kernel(Operation, const CastPlan&, Through) { return nullptr; }

#endif

}  // namespace

ArithmeticKernel fused_arithmetic(Operation operation, const CastPlan& plan, Through through) {
    return fused_kernel(operation, plan, through);
}

ArithmeticKernel unrounded_arithmetic(Operation operation, Through through) {
    switch (operation) {
        case Operation::add:
            return unrounded_kernel<Operation::add>(through);
        case Operation::sub:
            return unrounded_kernel<Operation::sub>(through);
        case Operation::mul:
            return unrounded_kernel<Operation::mul>(through);
        case Operation::div:
            return unrounded_kernel<Operation::div>(through);
        case Operation::sqrt:
            return unrounded_kernel<Operation::sqrt>(through);
        default:
            return unrounded_kernel<Operation::fma>(through);
    }
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX2 {
ArithmeticKernel unrounded_arithmetic(Operation operation, Through through);
}
namespace N_AVX3 {
ArithmeticKernel unrounded_arithmetic(Operation operation, Through through);
ArithmeticKernel fused_arithmetic(Operation operation, const CastPlan& plan, Through through);
}  // namespace N_AVX3

namespace {

constexpr std::int64_t block = 1 << 14, stretch = 1024;  ///< elements per task and per pass (a pass fits in L1)

int operand_count(Operation operation) {
    return operation == Operation::sqrt ? 1 : operation == Operation::fma ? 3 : 2;
}

/// Returns the code of operand x[i]. Operands on the grid encode exactly, except the smallest (most negative)
/// fixed-point number, whose code encode64() never returns.
std::uint64_t code_of(Format f, const float* x, std::int64_t i) {
    if (x == nullptr) return 0;
    if (f.encoding == Encoding::fixed_point && x[i] == decode(f, f.sign_bit())) return f.sign_bit();
    return encode64(f, x[i], Round::nearest_even, Overflow::nonsaturate);
}

void define(Operation operation, const Cast& to, const float* a, const float* b, const float* c, float* out,
            std::int64_t n, std::uint64_t first_element) {
    const Format f = to.format;
    if (operand_count(operation) < 2) b = nullptr;
    if (operand_count(operation) < 3) c = nullptr;
    for (std::int64_t i = 0; i < n; ++i) {
        RandomBits random{};
        if (to.round == Round::stochastic && to.can_draw()) {
            random = {random_bits(to.key, first_element + static_cast<std::uint64_t>(i)) >> (32 - to.random_bits),
                      to.random_bits};
        }
        const std::uint64_t code =
            op(operation, f, code_of(f, a, i), code_of(f, b, i), code_of(f, c, i), to.round, to.overflow, random).bits;
        out[i] = decode(f, code);
    }
}

}  // namespace

bool is_innocuous_through_fp32(Operation operation, const Format& f) {
    if (f == fp32) return true;
    if (operation == Operation::fma) {
        constexpr std::array exhaustively{e4m3fn, e4m3fnuz, e3m4, e2m3fn, e3m2fn, e2m1fn};
        return std::find(exhaustively.begin(), exhaustively.end(), f) != exhaustively.end();
    }
    if (f.encoding != Encoding::binary || f.precision > 11 || f.emin() < -126) return false;
    if (operation == Operation::add || operation == Operation::sub || operation == Operation::sqrt) return true;
    // Formats qualify if all their products and quotients are exact or normal in fp32. Those of bf16 may be neither,
    // but a comparison of all of them found no difference.
    const int least = f.emin() - f.fraction_bits(), top = (1 << f.exponent_bits()) - f.exponent_bias;
    return (2 * least >= -149 && least - top >= -126 && 2 * top <= 127) || f == bf16;
}

void arithmetic_array(Simd simd, ThreadPool& pool, Operation operation, const Cast& to, const float* a, const float* b,
                      const float* c, float* out, std::int64_t n, std::int64_t first_element) {
    if (to.format.bits > 32 || to.encode_scale != 1) {
        throw Error({.what = to.encode_scale != 1
                                 ? std::string("arithmetic does not support an encode_scale")
                                 : "arithmetic does not support codes of " + std::to_string(to.format.bits) + " bits",
                     .where = "arithmetic_array",
                     .fix = "use a format of at most 32 bits, and an encode_scale of 1",
                     .exit = Exit::usage});
    }
    const Caster caster(simd, to);
    const CastPlan plan(to);
    // Rounding to odd to the 24 bits of fp32 is enough for formats of at most 22 significant bits.
    const bool is_nearest = to.round == Round::nearest_even && is_innocuous_through_fp32(operation, to.format);
    const bool vector = simd != Simd::scalar && to.round != Round::stochastic &&
                        (is_nearest || (to.format.precision <= 22 && to.format.emin() >= -127));
    const Through through = is_nearest                ? Through::nearest
                            : to.round == Round::down ? Through::odd_or_neg
                                                      : Through::odd;
    ArithmeticKernel fused = nullptr, unrounded = nullptr;
    if (vector) {
#if MACHEPS_HAS_VECTORS && !defined(MACHEPS_ONLY_AVX2)
        const auto none = [](Operation, const CastPlan&, Through) -> ArithmeticKernel { return nullptr; };
        fused = choose(simd, none, none, N_AVX3::fused_arithmetic)(operation, plan, through);
#endif
        const auto no_kernel = [](Operation, Through) -> ArithmeticKernel { return nullptr; };
        unrounded = MACHEPS_CHOOSE_TARGET(simd, no_kernel, unrounded_arithmetic)(operation, through);
    }
    const auto from = [](const float* x, std::int64_t i) { return x == nullptr ? x : x + i; };
    pool.run((n + block - 1) / block, [&](std::int64_t task) {
        for (std::int64_t i = task * block, end = std::min(n, i + block); i < end; i += stretch) {
            const std::int64_t count = std::min(stretch, end - i);
            if (fused != nullptr) {
                fused(plan, a + i, from(b, i), from(c, i), out + i, count);
            } else if (unrounded != nullptr) {
                unrounded(plan, a + i, from(b, i), from(c, i), out + i, count);
                caster(out + i, out + i, count, nullptr, static_cast<std::uint64_t>(first_element + i));
            } else {
                define(operation, to, a + i, from(b, i), from(c, i), out + i, count,
                       static_cast<std::uint64_t>(first_element + i));
            }
        }
    });
}

}  // namespace macheps
#endif
