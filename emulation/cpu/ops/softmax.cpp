// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/softmax.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

/// Returns the largest of n elements, or -Inf if all are NaN. Unlike the definition, this function ignores NaNs. The
/// final results are the same: if the row has a NaN, the sum of the exponentials is NaN whichever maximum is
/// subtracted.
HWY_INLINE float row_max(const float* x, std::int64_t n) {
    const F32 lowest(bit_cast<float>(0xff800000u));
    F32 top = lowest;
    for (std::int64_t i = 0; i < n; i += vector_step) {
        const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
        const F32 v = load_n(x + i, count);
        top = select(first_n(count), select(v > top, v, top), top);
    }
    return hn::GetLane(hn::MaxOfLanes(DF32(), top.v));
}

void softmax_causal(const float* scores, std::int64_t first_row, std::int64_t rows, std::int64_t n, float* out) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t visible = (first_row + r) % n + 1;
        const float* row = scores + r * n;
        float* p = out + r * n;
        const float top = row_max(row, visible);
        const float sum = vector_sum(visible, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            const F32 e = math::exp(load_n(row + i, count) - top);
            store_n(e, p + i, count);
            return e;
        });
        for_each_vector(visible, p,
                        [=](std::int64_t i, std::size_t count) HWY_ATTR { return load_n(p + i, count) / sum; });
        std::fill(p + visible, p + n, 0.0f);
    }
}

void softmax_causal_backward(const float* probabilities, const float* dprobabilities, std::int64_t first_row,
                             std::int64_t rows, std::int64_t n, float* dscores) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t visible = (first_row + r) % n + 1;
        const float *p = probabilities + r * n, *dp = dprobabilities + r * n;
        float* ds = dscores + r * n;
        const float sum = vector_sum(visible, [=](std::int64_t i, std::size_t count)
                                                  HWY_ATTR { return load_n(p + i, count) * load_n(dp + i, count); });
        for_each_vector(visible, ds, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            return load_n(p + i, count) * (load_n(dp + i, count) - sum);
        });
        std::fill(ds + visible, ds + n, 0.0f);
    }
}

void log_softmax(const float* x, std::int64_t rows, std::int64_t n, float* out) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * n;
        const float top = row_max(row, n);
        const float sum = vector_sum(
            n, [=](std::int64_t i, std::size_t count) HWY_ATTR { return math::exp(load_n(row + i, count) - top); });
        const float total = top + macheps::math::log(sum);
        for_each_vector(n, out + r * n,
                        [=](std::int64_t i, std::size_t count) HWY_ATTR { return load_n(row + i, count) - total; });
    }
}

/// Returns the sum of exp(x[i] - row_top) over at most 1024 elements by the lane rule. The outer loop goes over the 32
/// lanes, one vector of lanes at a time, as in stats.cpp. Elements beyond n count as -Inf, whose exponential adds +0.
/// `row_top` is a scalar because of GCC: if the function had vector arguments, GCC would not clear the upper halves of
/// the registers after the call, and scalar code would become very slow on Intel CPUs.
double chunk_exponentials(const float* x, std::int64_t n, double row_top) {
    const F64 top(row_top);
    constexpr auto half = static_cast<std::int64_t>(f64_lanes);
    const F32 lowest(bit_cast<float>(0xff800000u));
    HWY_ALIGN double sum[lanes];
    for (std::int64_t l = 0; l < lanes; l += vector_step) {
        F64 lower, upper;
        for (std::int64_t i = l; i < n; i += lanes) {
            const auto count = static_cast<std::size_t>(min_of(vector_step, n - i));
            const F32 v = select(first_n(count), load_n(x + i, count), lowest);
            lower = lower + math::exp_not_positive(promote_lower(v) - top);
            upper = upper + math::exp_not_positive(promote_upper(v) - top);
        }
        store(lower, sum + l);
        store(upper, sum + l + half);
    }
    return detail::fold_lanes(sum);
}

void cross_entropy(const float* x, const std::int32_t* targets, std::int64_t rows, std::int64_t n, double* losses) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * n;
        const double top = row_max(row, n);
        const double sum = n <= chunk
                               ? chunk_exponentials(row, n, top)
                               : lane_sum<double>((n + chunk - 1) / chunk, [&](std::int64_t c) HWY_ATTR {
                                     return chunk_exponentials(row + c * chunk, min_of(chunk, n - c * chunk), top);
                                 });
        losses[r] = definition::canonical(macheps::math::log(sum) + (top - row[targets[r]]));
    }
}

void nll_backward(const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n, float factor,
                  float* dx) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = logp + r * n;
        const float at_target = definition::nll_backward(row[targets[r]], true, factor);
        for_each_vector(n, dx + r * n, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            return math::exp(load_n(row + i, count)) * factor;
        });
        dx[r * n + targets[r]] = at_target;
    }
}

}  // namespace

const SoftmaxKernels& softmax_table() {
    static constexpr SoftmaxKernels table{.softmax_causal = softmax_causal,
                                          .softmax_causal_backward = softmax_causal_backward,
                                          .log_softmax = log_softmax,
                                          .cross_entropy = cross_entropy,
                                          .nll_backward = nll_backward};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

namespace {

const SoftmaxKernels& scalar_table() {
    static constexpr SoftmaxKernels table{
        .softmax_causal =
            [](const float* scores, std::int64_t first_row, std::int64_t rows, std::int64_t n, float* out) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    definition::softmax_row(scores + r * n, (first_row + r) % n + 1, n, out + r * n);
                }
            },
        .softmax_causal_backward =
            [](const float* p, const float* dp, std::int64_t first_row, std::int64_t rows, std::int64_t n,
               float* dscores) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    const std::int64_t visible = (first_row + r) % n + 1;
                    definition::softmax_backward_row(p + r * n, dp + r * n, visible, n, dscores + r * n);
                }
            },
        .log_softmax =
            [](const float* x, std::int64_t rows, std::int64_t n, float* out) {
                for (std::int64_t r = 0; r < rows; ++r) definition::log_softmax_row(x + r * n, n, out + r * n);
            },
        .cross_entropy =
            [](const float* x, const std::int32_t* targets, std::int64_t rows, std::int64_t n, double* losses) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    losses[r] = definition::cross_entropy(x + r * n, n, targets[r]);
                }
            },
        .nll_backward =
            [](const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n, float factor,
               float* dx) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    for (std::int64_t c = 0; c < n; ++c) {
                        dx[r * n + c] = definition::nll_backward(logp[r * n + c], c == targets[r], factor);
                    }
                }
            }};
    return table;
}

}  // namespace

const SoftmaxKernels& softmax_kernels(Simd level) {
    return MACHEPS_CHOOSE_TARGET(level, scalar_table, softmax_table)();
}

}  // namespace macheps
#endif
