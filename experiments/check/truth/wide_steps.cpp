// SPDX-License-Identifier: Apache-2.0
// Compiles only for the Highway targets that the CPU engine uses (AVX2 and AVX-512). Other CPUs run plain loops.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "experiments/check/truth/wide_steps.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "experiments/check/truth/wide_steps.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::check::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace hn = hwy::HWY_NAMESPACE;

// Functions that wide.inl requires, for vectors.

using Doubles = hn::ScalableTag<double>;
struct Mask {
    hn::Mask<Doubles> m;
};
struct Lanes {
    hn::Vec<Doubles> v;
    HWY_INLINE Lanes() : v(hn::Zero(Doubles())) {}
    HWY_INLINE Lanes(hn::Vec<Doubles> x) : v(x) {}
    HWY_INLINE Lanes(double x) : v(hn::Set(Doubles(), x)) {}
};
HWY_INLINE Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.v, b.v); }
HWY_INLINE Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.v, b.v); }
HWY_INLINE Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.v, b.v); }
HWY_INLINE Lanes operator/(Lanes a, Lanes b) { return hn::Div(a.v, b.v); }
HWY_INLINE Lanes operator-(Lanes a) { return hn::Neg(a.v); }
HWY_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return hn::MulAdd(a.v, b.v, c.v); }
HWY_INLINE Mask operator<(Lanes a, Lanes b) { return {hn::Lt(a.v, b.v)}; }
HWY_INLINE Mask operator>(Lanes a, Lanes b) { return {hn::Gt(a.v, b.v)}; }
HWY_INLINE Mask operator<=(Lanes a, Lanes b) { return {hn::Le(a.v, b.v)}; }
HWY_INLINE Mask operator==(Lanes a, Lanes b) { return {hn::Eq(a.v, b.v)}; }
HWY_INLINE Mask operator!(Mask a) { return {hn::Not(a.m)}; }
HWY_INLINE Lanes select(Mask mask, Lanes a, Lanes b) { return hn::IfThenElse(mask.m, a.v, b.v); }
HWY_INLINE Lanes size_of(Lanes a) { return hn::Abs(a.v); }
HWY_INLINE Lanes floor_of(Lanes a) { return hn::Floor(a.v); }
HWY_INLINE Mask is_finite(Lanes a) { return {hn::IsFinite(a.v)}; }
HWY_INLINE bool any_of(Mask a) { return !hn::AllFalse(Doubles(), a.m); }
HWY_INLINE double max_of(Lanes a) { return hn::GetLane(hn::MaxOfLanes(Doubles(), a.v)); }

#define MACHEPS_MATH_FN HWY_INLINE
#define MACHEPS_MATH_REAL Lanes
#include "core/exp64.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL

/// Returns exp of each lane, with the same bits as math::exp.
HWY_INLINE Lanes exp(Lanes x) {
    const hn::RebindToSigned<Doubles> di;
    Lanes shifted;
    const Lanes y = math::detail::exp_mantissa(x, shifted);
    const auto power = hn::Sub(hn::BitCast(di, shifted.v), hn::BitCast(di, Lanes(macheps::math::detail::exp_magic).v));
    const auto half = hn::ShiftRight<1>(power);
    const auto two_to = [&](auto n) HWY_ATTR {
        return Lanes(hn::BitCast(Doubles(), hn::ShiftLeft<52>(hn::Add(n, hn::Set(di, 1023)))));
    };
    Lanes z = (y * two_to(half)) * two_to(hn::Sub(power, half));
    z = select(x > Lanes(710.0), Lanes(macheps::math::detail::infinity64()), z);
    z = select(x < Lanes(-746.0), Lanes(0.0), z);
    return select(x == x, z, Lanes(macheps::math::detail::nan64()));
}

struct Wides {  // explicit constructors: implicit ones are not compiled for the SIMD target
    Lanes high, low;
    HWY_INLINE Wides() : high(), low() {}
    HWY_INLINE Wides(Lanes high_part, Lanes low_part) : high(high_part), low(low_part) {}
};
#define MACHEPS_MATH_FN HWY_INLINE
#define MACHEPS_MATH_REAL Lanes
#define MACHEPS_MATH_WIDE Wides
#include "experiments/check/truth/wide.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_WIDE

namespace {

HWY_INLINE Wides load(const Wide* from) {
    Wides x;
    hn::LoadInterleaved2(Doubles(), reinterpret_cast<const double*>(from), x.high.v, x.low.v);
    return x;
}
HWY_INLINE void store(const Wides& x, Wide* to) {
    hn::StoreInterleaved2(x.high.v, x.low.v, Doubles(), reinterpret_cast<double*>(to));
}
HWY_INLINE Wides all(const Wide& x) { return {Lanes(x.high), Lanes(x.low)}; }

/// Applies `step` to whole vectors and, at the end of a row, to single numbers.
template <class Step>
HWY_INLINE void two(WideRow x, WideRow y, Wide* out, std::size_t count, const Step& step) {
    const std::size_t lanes = hn::Lanes(Doubles());
    const Wides one_x = all(x.first[0]), one_y = all(y.first[0]);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        store(step(x.is_one ? one_x : load(x.first + i), y.is_one ? one_y : load(y.first + i)), out + i);
    for (; i < count; ++i) out[i] = step(x.first[x.is_one ? 0 : i], y.first[y.is_one ? 0 : i]);
}
template <class Step>
HWY_INLINE void one(const Wide* x, Wide* out, std::size_t count, const Step& step) {
    const std::size_t lanes = hn::Lanes(Doubles());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) store(step(load(x + i)), out + i);
    for (; i < count; ++i) out[i] = step(x[i]);
}

void add(WideRow x, WideRow y, Wide* out, std::size_t n) {
    two(x, y, out, n, [](auto a, auto b) HWY_ATTR { return a + b; });
}
void subtract(WideRow x, WideRow y, Wide* out, std::size_t n) {
    two(x, y, out, n, [](auto a, auto b) HWY_ATTR { return a - b; });
}
void multiply(WideRow x, WideRow y, Wide* out, std::size_t n) {
    two(x, y, out, n, [](auto a, auto b) HWY_ATTR { return a * b; });
}
void divide(WideRow x, WideRow y, Wide* out, std::size_t n) {
    two(x, y, out, n, [](auto a, auto b) HWY_ATTR { return a / b; });
}
void exponentials(const Wide* x, Wide* out, std::size_t n) {
    one(x, out, n, [](auto a) HWY_ATTR { return exponential(a); });
}
void sigmoids(const Wide* x, Wide* out, std::size_t n) {
    one(x, out, n, [](auto a) HWY_ATTR { return logistic(a); });
}
void tangents(const Wide* x, Wide* out, std::size_t n) {
    one(x, out, n, [](auto a) HWY_ATTR { return hyperbolic_tangent(a); });
}
void errors(const Wide* x, Wide* out, std::size_t n) {
    one(x, out, n, [](auto a) HWY_ATTR { return error_function(a); });
}

Wide sum(const Wide* x, std::size_t count) {
    const std::size_t lanes = hn::Lanes(Doubles()), vectors = wide_sum_lanes / lanes;
    Wides sums[4];
    std::size_t i = 0;
    for (; i + wide_sum_lanes <= count; i += wide_sum_lanes) {
        for (std::size_t v = 0; v < vectors; ++v) sums[v] = sums[v] + load(x + i + v * lanes);
    }
    Wide parts[wide_sum_lanes];
    for (std::size_t v = 0; v < vectors; ++v) store(sums[v], parts + v * lanes);
    for (std::size_t j = 0; i + j < count; ++j) parts[j] = parts[j] + x[i + j];
    for (std::size_t half = wide_sum_lanes / 2; half > 0; half /= 2) {
        for (std::size_t j = 0; j < half; ++j) parts[j] = parts[j] + parts[j + half];
    }
    return parts[0];
}

}  // namespace

const WideSteps& steps() {
    static constexpr WideSteps table{add, subtract, multiply, divide, exponentials, sigmoids, tangents, errors, sum};
    return table;
}
#endif
}  // namespace macheps::check::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps::check {

namespace N_AVX2 {
const WideSteps& steps();
}
namespace N_AVX3 {
const WideSteps& steps();
}

namespace {

template <class Step>
void two_plainly(WideRow x, WideRow y, Wide* out, std::size_t count, Step step) {
    for (std::size_t i = 0; i < count; ++i) out[i] = step(x.first[x.is_one ? 0 : i], y.first[y.is_one ? 0 : i]);
}
template <class Step>
void one_plainly(const Wide* x, Wide* out, std::size_t count, Step step) {
    for (std::size_t i = 0; i < count; ++i) out[i] = step(x[i]);
}

Wide sum_plainly(const Wide* x, std::size_t count) {
    Wide parts[wide_sum_lanes];
    for (std::size_t i = 0; i < count; ++i) parts[i % wide_sum_lanes] = parts[i % wide_sum_lanes] + x[i];
    for (std::size_t half = wide_sum_lanes / 2; half > 0; half /= 2) {
        for (std::size_t j = 0; j < half; ++j) parts[j] = parts[j] + parts[j + half];
    }
    return parts[0];
}

constexpr WideSteps plain{
    [](WideRow x, WideRow y, Wide* out, std::size_t n) {
        two_plainly(x, y, out, n, [](Wide a, Wide b) { return a + b; });
    },
    [](WideRow x, WideRow y, Wide* out, std::size_t n) {
        two_plainly(x, y, out, n, [](Wide a, Wide b) { return a - b; });
    },
    [](WideRow x, WideRow y, Wide* out, std::size_t n) {
        two_plainly(x, y, out, n, [](Wide a, Wide b) { return a * b; });
    },
    [](WideRow x, WideRow y, Wide* out, std::size_t n) {
        two_plainly(x, y, out, n, [](Wide a, Wide b) { return a / b; });
    },
    [](const Wide* x, Wide* out, std::size_t n) { one_plainly(x, out, n, [](Wide a) { return exponential(a); }); },
    [](const Wide* x, Wide* out, std::size_t n) { one_plainly(x, out, n, [](Wide a) { return logistic(a); }); },
    [](const Wide* x, Wide* out, std::size_t n) {
        one_plainly(x, out, n, [](Wide a) { return hyperbolic_tangent(a); });
    },
    [](const Wide* x, Wide* out, std::size_t n) { one_plainly(x, out, n, [](Wide a) { return error_function(a); }); },
    sum_plainly};

}  // namespace

const WideSteps& wide_steps(Simd simd) {
    return MACHEPS_CHOOSE_TARGET(
        simd, []() -> const WideSteps& { return plain; }, steps)();
}

}  // namespace macheps::check
#endif
