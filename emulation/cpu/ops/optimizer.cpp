// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/optimizer.hpp"
#include "emulation/cpu/ops/update-inl.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

using definition::UpdateSums;

/// Sets p = before + cast(update), unless `cast` is the identity.
void round_update(const Cast& cast, const Caster& caster, float* p, std::int64_t first, std::int64_t n,
                  UpdateScratch& scratch) {
    if (cast.is_identity()) return;
    caster(scratch.wanted, scratch.b, n, nullptr, static_cast<std::uint64_t>(first));
    for_each_vector(n, p, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(scratch.before + i, count) + load_n(scratch.b + i, count);
    });
}

/// Computes definition::adamw_fp32() without the casts of the update and of the stored values. Writes the update u to
/// scratch.wanted.
void adamw_fp32(const AdamW& a, float* p, const float* g, float* m, float* v, std::int64_t n, UpdateScratch& scratch) {
    const F32 beta1(a.beta1), one_minus_beta1(a.one_minus_beta1), beta2(a.beta2), one_minus_beta2(a.one_minus_beta2);
    const F32 step_size(a.step_size), sqrt_bias2(a.sqrt_bias2), eps(a.eps), decay(a.decay);
    const bool decays = a.decay != 0;
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 grad = load_n(g + i, count), old_p = load_n(p + i, count), old_v = load_n(v + i, count);
        const F32 m_new = beta1 * load_n(m + i, count) + one_minus_beta1 * grad;
        const F32 v_new = beta2 * old_v + one_minus_beta2 * (grad * grad);
        const F32 step = (step_size * m_new) / (sqrt(v_new) / sqrt_bias2 + eps);
        const F32 u = canonical(-(decays ? decay * old_p + step : step));
        store_n(old_p, scratch.before + i, count);
        store_n(old_v, scratch.moment + i, count);
        store_n(u, scratch.wanted + i, count);
        store_n(canonical(old_p + u), p + i, count);
        store_n(canonical(m_new), m + i, count);
        store_n(canonical(v_new), v + i, count);
    });
}

/// Computes definition::adamw_narrow() one operation at a time, without the casts of the stored values.
void adamw_narrow(const AdamWStep& step, float* p, const float* g, float* m, float* v, std::int64_t n,
                  UpdateScratch& scratch) {
    const AdamW& a = step.args;
    const auto round = [&](float* x) { step.arithmetic(x, x, n, nullptr, 0); };
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 old_p = load_n(p + i, count), old_m = load_n(m + i, count), old_v = load_n(v + i, count);
        store_n(old_p, scratch.before + i, count);
        store_n(old_v, scratch.moment + i, count);
        store_n(canonical(old_p * F32(1.0f - a.decay)), scratch.a + i, count);
        store_n(canonical(old_m + F32(a.one_minus_beta1) * (load_n(g + i, count) - old_m)), m + i, count);
        store_n(canonical(F32(a.beta2) * old_v), v + i, count);
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
    UpdateScratch scratch;
    if (step.args.arithmetic == fp32) {
        adamw_fp32(step.args, p, g, m, v, n, scratch);
        round_update(step.args.update_cast, step.update, p, first, n, scratch);
    } else {
        adamw_narrow(step, p, g, m, v, n, scratch);
    }
    finish(step.args.value_cast, step.value, p, first, n);
    finish(step.args.moment1_cast, step.moment1, m, first, n);
    finish(step.args.moment2_cast, step.moment2, v, first, n);
    if (stats == nullptr) return {};
    observe_moments(*stats, g, scratch.moment, v, n);
    return observe(*stats, scratch.before, p, scratch.wanted, n);
}

UpdateSums sgd(const SgdStep& step, float* p, const float* g, float* m, std::int64_t first, std::int64_t n,
               UpdateStats* stats) {
    UpdateScratch scratch;
    const F32 lr(step.args.lr), momentum(step.args.momentum), decay(step.args.decay);
    const bool buffered = step.args.momentum != 0, decays = step.args.decay != 0;
    for_each_index(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 old_p = load_n(p + i, count);
        F32 b = load_n(g + i, count);
        if (decays) b = canonical(b + decay * old_p);
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
        const auto after = definition::adamw(p[i], g[i], m[i], v[i], step.args, static_cast<std::uint64_t>(first + i));
        return definition::store(after, stats, p[i], g[i], m[i], v[i]);
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
    const auto table = []() -> const OptimizerKernels& { return scalar; };
    return MACHEPS_CHOOSE_TARGET(level, table, optimizer_table)();
}

}  // namespace macheps
#endif
