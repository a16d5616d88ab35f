// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/adam.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>

#include "emulation/cpu/ops/adam.hpp"
#include "emulation/cpu/ops/casts/cast-inl.hpp"
#include "emulation/cpu/ops/update-inl.hpp"

#ifndef MACHEPS_ADAM_KERNELS
#define MACHEPS_ADAM_KERNELS
namespace macheps {
using AdamKernelPointer = decltype(AdamWork::kernel);

/// How the result of each line of an Adam kernel (emulation/adam.inl) is rounded.
enum class LineRounding : std::uint8_t {
    none,    ///< not at all, because the arithmetic is fp32 or the kernel rounds no line
    wide,    ///< to a format of fp32's range, such as bf16
    narrow,  ///< to a format of a smaller range, such as fp16
    other,   ///< the scalar definition computes each element
};

inline LineRounding line_rounding(const CastPlan& plan) {
    if (plan.cast.format == fp32) return LineRounding::none;
    if (plan.path == CastPlan::Path::wide && plan.carries_to_inf) return LineRounding::wide;
    return plan.path == CastPlan::Path::narrow && !plan.signless ? LineRounding::narrow : LineRounding::other;
}
}  // namespace macheps
#endif

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

namespace adam {

using macheps::adam::Operations;

/// The lanes of an fp32 vector, converted to fp64.
struct Doubles {
    F64 lower, upper;
    HWY_INLINE Doubles(F64 l, F64 u) : lower(l), upper(u) {}
    HWY_INLINE explicit Doubles(double x) : lower(x), upper(x) {}
};
HWY_INLINE Doubles operator+(Doubles a, Doubles b) { return {a.lower + b.lower, a.upper + b.upper}; }
HWY_INLINE Doubles operator-(Doubles a, Doubles b) { return {a.lower - b.lower, a.upper - b.upper}; }
HWY_INLINE Doubles operator*(Doubles a, Doubles b) { return {a.lower * b.lower, a.upper * b.upper}; }
HWY_INLINE Doubles widen(F32 x) { return {promote_lower(x), promote_upper(x)}; }
HWY_INLINE F32 narrow(Doubles x) { return demote(x.lower, x.upper); }

}  // namespace adam
#define MACHEPS_MATH_FN HWY_INLINE
#define MACHEPS_MATH_REAL F32
#define MACHEPS_MATH_WIDE Doubles
#include "emulation/adam.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_WIDE

struct Unrounded {
    HWY_INLINE explicit Unrounded(const CastPlan&) {}
    HWY_INLINE F32 operator()(F32 x) const { return x; }
};

template <vector_cast::Known known>
struct Rounded {
    vector_cast::VectorRounder<Round::nearest_even> rounder;
    HWY_INLINE explicit Rounded(const CastPlan& plan) : rounder(plan) {}
    HWY_INLINE F32 operator()(F32 x) const {
        vector_cast::Seen seen;
        return F32(vector_cast::cast_vector<Round::nearest_even, known>(rounder, canonical(x).v,
                                                                        hn::Zero(vector_cast::du), seen));
    }
};

/// Runs Kernel on a chunk. Does not apply the casts of the stored values.
template <class Kernel, class Rounding>
void run_lines(const AdamWork& work, float* p, const float* g, float* m, float* v, std::int64_t n,
               UpdateScratch& scratch) {
    const AdamConstants constants = work.constants;
    const Rounding rounding(work.arithmetic);
    for (std::int64_t i = 0; i < n; i += vector_step) {
        const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
        const F32 old_p = load_n(p + i, count), old_v = load_n(v + i, count);
        adam::Element x{old_p, load_n(g + i, count), load_n(m + i, count), old_v};
        Kernel::step(x, constants, rounding);
        store_n(old_p, scratch.before + i, count);
        store_n(old_v, scratch.moment + i, count);
        store_n(canonical(x.p - old_p), scratch.wanted + i, count);
        store_n(canonical(x.p), p + i, count);
        store_n(canonical(x.m), m + i, count);
        store_n(canonical(x.v), v + i, count);
    }
}

template <class Kernel>
definition::UpdateSums run(const AdamWork& work, float* p, const float* g, float* m, float* v, std::int64_t first,
                           std::int64_t n, UpdateStats* stats) {
    UpdateScratch scratch;
    const LineRounding rounding = line_rounding(work.arithmetic);
    if constexpr (Kernel::rounds) {
        if (rounding == LineRounding::wide) {
            using Wide = Rounded<vector_cast::Known{.wide = true, .carries_to_inf = true}>;
            run_lines<Kernel, Wide>(work, p, g, m, v, n, scratch);
        } else if (rounding == LineRounding::narrow) {
            run_lines<Kernel, Rounded<vector_cast::Known{}>>(work, p, g, m, v, n, scratch);
        }
    }
    if (rounding == LineRounding::none) run_lines<Kernel, Unrounded>(work, p, g, m, v, n, scratch);
    finish(work.constants.value_cast, work.value, p, first, n);
    finish(work.constants.moment1_cast, work.moment1, m, first, n);
    finish(work.constants.moment2_cast, work.moment2, v, first, n);
    if (stats == nullptr) return {};
    observe_moments(*stats, g, scratch.moment, v, n);
    return observe(*stats, scratch.before, p, scratch.wanted, n);
}

template <class... Kernel>
constexpr std::array<AdamKernelPointer, sizeof...(Kernel)> table_of(adam::Operations<Kernel...>) {
    return {run<Kernel>...};
}

}  // namespace

AdamKernelPointer adam_kernel(std::size_t place) {
    static constexpr auto table = table_of(adam::Kernels{});
    return table[place];
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX2 {
AdamKernelPointer adam_kernel(std::size_t place);
}
namespace N_AVX3 {
AdamKernelPointer adam_kernel(std::size_t place);
}

namespace {

template <class Kernel>
definition::UpdateSums scalar_run(const AdamWork& work, float* p, const float* g, float* m, float* v,
                                  std::int64_t first, std::int64_t n, UpdateStats* stats) {
    return lane_sum<definition::UpdateSums>(n, [&](std::int64_t i) {
        const auto at = static_cast<std::uint64_t>(first + i);
        const auto after = definition::adam<Kernel>(p[i], g[i], m[i], v[i], work.constants, at);
        return definition::store(after, stats, p[i], g[i], m[i], v[i]);
    });
}

template <class... Kernel>
constexpr std::array<AdamKernelPointer, sizeof...(Kernel)> table_of(elementwise::Operations<Kernel...>) {
    return {scalar_run<Kernel>...};
}

AdamKernelPointer kernel_for(Simd simd, const CastPlan& arithmetic, std::size_t place) {
    static constexpr auto scalar = table_of(adam::Kernels{});
    const auto scalar_kernel = [](std::size_t at) { return scalar[at]; };
    if (line_rounding(arithmetic) == LineRounding::other) return scalar_kernel(place);
    return MACHEPS_CHOOSE_TARGET(simd, scalar_kernel, adam_kernel)(place);
}

}  // namespace

AdamWork::AdamWork(Simd simd, const Adam& args)
    : constants(adam_constants(args)),
      arithmetic(Cast{.format = constants.arithmetic}),
      value(simd, args.value_cast),
      moment1(simd, args.moment1_cast),
      moment2(simd, args.moment2_cast),
      kernel(kernel_for(simd, arithmetic, args.kernel.place)) {}

}  // namespace macheps
#endif
