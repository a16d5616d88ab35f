// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/optimizer.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

using definition::UpdateSums;

/// What one chunk needs between its passes.
struct Scratch {
    alignas(64) float before[chunk], wanted[chunk], a[chunk], b[chunk];
};

constexpr std::int64_t f64_step = static_cast<std::int64_t>(f64_lanes);

/// Counts a chunk, and sums it as the definition does. The last few elements, fewer than 32, are added one by one.
UpdateSums observe(UpdateStats& stats, const float* before, const float* after, const float* wanted, std::int64_t n) {
    F64 sums[3][lanes / f64_step];
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (std::int64_t l = 0; l < lanes; l += vector_step) {
            const F32 old_p = load(before + i + l), new_p = load(after + i + l), u = load(wanted + i + l);
            const M32 nonzero = u != F32(0.0f);
            stats.nonzero += count(nonzero);
            stats.lost += count(nonzero & (new_p == old_p));
            for (const bool upper : {false, true}) {
                const auto half = [=](F32 x) HWY_ATTR { return upper ? promote_upper(x) : promote_lower(x); };
                const F64 moved = half(new_p) - half(old_p), w = half(u);
                const std::int64_t at = l / f64_step + (upper ? 1 : 0);
                sums[0][at] = sums[0][at] + w * w;
                sums[1][at] = sums[1][at] + moved * moved;
                sums[2][at] = sums[2][at] + moved * w;
            }
        }
    }
    stats.count += static_cast<std::uint64_t>(i);
    double lane[3][lanes];
    for (int s = 0; s < 3; ++s) {
        for (std::int64_t l = 0; l < lanes; l += f64_step) store(sums[s][l / f64_step], &lane[s][l]);
    }
    for (std::int64_t l = 0; i < n; ++i, ++l) {
        const UpdateSums term = definition::observe(stats, before[i], after[i], wanted[i]);
        lane[0][l] += term.wanted2;
        lane[1][l] += term.moved2;
        lane[2][l] += term.moved_wanted;
    }
    return {detail::fold_lanes(lane[0]), detail::fold_lanes(lane[1]), detail::fold_lanes(lane[2])};
}

/// Values that a vector loop has just written: rounded as `cast` says, unless that changes nothing.
void finish(const Cast& cast, const Caster& caster, float* x, std::int64_t first, std::int64_t n) {
    if (!cast.is_identity()) caster(x, x, n, nullptr, static_cast<std::uint64_t>(first));
}

template <class Values>
HWY_INLINE void for_each_index(std::int64_t n, const Values& f) {
    for (std::int64_t i = 0; i < n; i += vector_step) f(i, static_cast<std::size_t>(min_of(vector_step, n - i)));
}

/// p = before + the rounded update, where the policy rounds updates.
void round_update(const Cast& cast, const Caster& caster, float* p, std::int64_t first, std::int64_t n, Scratch& scratch) {
    if (cast.is_identity()) return;
    caster(scratch.wanted, scratch.b, n, nullptr, static_cast<std::uint64_t>(first));
    for_each_vector(n, p, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(scratch.before + i, count) + load_n(scratch.b + i, count);
    });
}

/// adamw_fp32 of the definitions, before the stores are rounded. Leaves u in `wanted`.
void adamw_fp32(const AdamW& a, float* p, const float* g, float* m, float* v, std::int64_t n, Scratch& scratch) {
    const F32 beta1(a.beta1), one_minus_beta1(a.one_minus_beta1), beta2(a.beta2), one_minus_beta2(a.one_minus_beta2);
    const F32 step_size(a.step_size), sqrt_bias2(a.sqrt_bias2), eps(a.eps), decay(a.decay);
    const bool decays = a.decay != 0;
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 grad = load_n(g + i, count), old_p = load_n(p + i, count);
        const F32 m_new = beta1 * load_n(m + i, count) + one_minus_beta1 * grad;
        const F32 v_new = beta2 * load_n(v + i, count) + one_minus_beta2 * (grad * grad);
        const F32 step = (step_size * m_new) / (sqrt(v_new) / sqrt_bias2 + eps);
        const F32 u = canonical(-(decays ? decay * old_p + step : step));
        store_n(old_p, scratch.before + i, count);
        store_n(u, scratch.wanted + i, count);
        store_n(canonical(old_p + u), p + i, count);
        store_n(canonical(m_new), m + i, count);
        store_n(canonical(v_new), v + i, count);
    });
}

/// adamw_narrow of the definitions, a primitive at a time, before the stores are rounded by their own casts.
void adamw_narrow(const AdamWStep& step, float* p, const float* g, float* m, float* v, std::int64_t n,
                  Scratch& scratch) {
    const AdamW& a = step.args;
    const auto round = [&](float* x) { step.arithmetic(x, x, n, nullptr, 0); };
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 old_p = load_n(p + i, count), old_m = load_n(m + i, count);
        store_n(old_p, scratch.before + i, count);
        store_n(canonical(old_p * F32(1.0f - a.decay)), scratch.a + i, count);
        store_n(canonical(old_m + F32(a.one_minus_beta1) * (load_n(g + i, count) - old_m)), m + i, count);
        store_n(canonical(F32(a.beta2) * load_n(v + i, count)), v + i, count);
    });
    if (a.decay != 0) {
        round(scratch.a);
    } else {
        std::copy(scratch.before, scratch.before + n, scratch.a);
    }
    round(m);
    round(v);
    for_each_vector(n, v, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 grad = load_n(g + i, count);
        return load_n(v + i, count) + (F32(a.one_minus_beta2) * grad) * grad;
    });
    round(v);
    for_each_vector(n, scratch.b,
                    [&](std::int64_t i, std::size_t count) HWY_ATTR { return sqrt(load_n(v + i, count)); });
    round(scratch.b);
    for_each_vector(n, scratch.b, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(scratch.b + i, count) / F32(a.sqrt_bias2);
    });
    round(scratch.b);
    for_each_vector(n, scratch.b, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(scratch.b + i, count) + F32(a.eps);
    });
    round(scratch.b);
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 change = F32(a.step_size) * (load_n(m + i, count) / load_n(scratch.b + i, count));
        const F32 p_new = load_n(scratch.a + i, count) - change;
        store_n(canonical(p_new - load_n(scratch.before + i, count)), scratch.wanted + i, count);
        store_n(canonical(p_new), p + i, count);
    });
    round(p);
}

UpdateSums adamw(const AdamWStep& step, float* p, const float* g, float* m, float* v, std::int64_t first,
                 std::int64_t n, UpdateStats* stats) {
    Scratch scratch;
    if (step.args.arithmetic == fp32) {
        adamw_fp32(step.args, p, g, m, v, n, scratch);
        round_update(step.args.update_cast, step.update, p, first, n, scratch);
    } else {
        adamw_narrow(step, p, g, m, v, n, scratch);
    }
    finish(step.args.value_cast, step.value, p, first, n);
    finish(step.args.moment1_cast, step.moment1, m, first, n);
    finish(step.args.moment2_cast, step.moment2, v, first, n);
    return stats == nullptr ? UpdateSums{} : observe(*stats, scratch.before, p, scratch.wanted, n);
}

UpdateSums sgd(const SgdStep& step, float* p, const float* g, float* m, std::int64_t first, std::int64_t n,
               UpdateStats* stats) {
    Scratch scratch;
    const F32 lr(step.args.lr), momentum(step.args.momentum);
    const bool buffered = step.args.momentum != 0;
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 old_p = load_n(p + i, count);
        F32 b = load_n(g + i, count);
        if (buffered) {
            b = canonical(momentum * load_n(m + i, count) + b);
            store_n(b, m + i, count);
        }
        const F32 u = canonical(-(lr * b));
        store_n(old_p, scratch.before + i, count);
        store_n(u, scratch.wanted + i, count);
        store_n(canonical(old_p + u), p + i, count);
    });
    round_update(step.args.update_cast, step.update, p, first, n, scratch);
    finish(step.args.value_cast, step.value, p, first, n);
    return stats == nullptr ? UpdateSums{} : observe(*stats, scratch.before, p, scratch.wanted, n);
}

}  // namespace

const OptimizerKernels& optimizer_table() {
    static constexpr OptimizerKernels table{adamw, sgd};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

namespace {

using definition::UpdateSums;

UpdateSums scalar_adamw(const AdamWStep& step, float* p, const float* g, float* m, float* v, std::int64_t first,
                        std::int64_t n, UpdateStats* stats) {
    return lane_sum<UpdateSums>(n, [&](std::int64_t i) {
        const float before = p[i];
        const auto after =
            definition::adamw(before, g[i], m[i], v[i], step.args, static_cast<std::uint64_t>(first + i));
        p[i] = after.p;
        m[i] = after.m;
        v[i] = after.v;
        return stats == nullptr ? UpdateSums{} : definition::observe(*stats, before, after.p, after.wanted);
    });
}

UpdateSums scalar_sgd(const SgdStep& step, float* p, const float* g, float* m, std::int64_t first, std::int64_t n,
                      UpdateStats* stats) {
    const bool buffered = step.args.momentum != 0;
    return lane_sum<UpdateSums>(n, [&](std::int64_t i) {
        const float before = p[i];
        const auto after =
            definition::sgd(before, g[i], buffered ? m[i] : 0.0f, step.args, static_cast<std::uint64_t>(first + i));
        p[i] = after.p;
        if (buffered) m[i] = after.m;
        return stats == nullptr ? UpdateSums{} : definition::observe(*stats, before, after.p, after.wanted);
    });
}

}  // namespace

const OptimizerKernels& optimizer_kernels(Simd level) {
    static constexpr OptimizerKernels scalar{scalar_adamw, scalar_sgd};
    return choose(level, scalar, N_AVX2::optimizer_table(), N_AVX3::optimizer_table());
}

}  // namespace macheps
#endif
