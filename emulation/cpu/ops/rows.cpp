// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/rows.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

/// The largest of n elements that are not NaN, -Inf if there are none. The definition lets NaN win, but a NaN in the
/// row makes the sum of its exponentials NaN whatever they are taken relative to.
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

void layernorm(const float* x, const float* gamma, const float* beta, std::int64_t rows, std::int64_t n, float eps,
               float* out, float* mean_out, float* rstd_out) {
    const auto elements = static_cast<float>(n);
    for (std::int64_t r = 0; r < rows; ++r, x += n, out += n) {
        const float* row = x;  // a copy that the lambdas hold in a register
        const float mean =
            vector_sum(n, [=](std::int64_t i, std::size_t count) HWY_ATTR { return load_n(row + i, count); }) /
            elements;
        const float variance = vector_sum(n,
                                          [=](std::int64_t i, std::size_t count) HWY_ATTR {
                                              const F32 d = load_n(row + i, count) - mean;
                                              return d * d;
                                          }) /
                               elements;
        const float rstd = 1.0f / macheps::sqrt(variance + eps);
        for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            const F32 d = load_n(row + i, count) - mean;
            return (d * rstd) * load_n(gamma + i, count) + load_n(beta + i, count);
        });
        mean_out[r] = definition::canonical(mean);
        rstd_out[r] = definition::canonical(rstd);
    }
}

void layernorm_backward(const float* x, const float* gamma, const float* means, const float* rstds, const float* dout,
                        std::int64_t rows, std::int64_t n, float* dx) {
    const auto elements = static_cast<float>(n);
    for (std::int64_t r = 0; r < rows; ++r) {
        const float *row = x + r * n, *d = dout + r * n;
        const float mean = means[r], rstd = rstds[r];
        const auto g = [=](std::int64_t i, std::size_t count)
                           HWY_ATTR { return load_n(d + i, count) * load_n(gamma + i, count); };
        const auto xhat = [=](std::int64_t i, std::size_t count)
                              HWY_ATTR { return (load_n(row + i, count) - mean) * rstd; };
        const float g_mean = vector_sum(n, g) / elements;
        const float gx_mean =
            vector_sum(n, [=](std::int64_t i, std::size_t count) HWY_ATTR { return g(i, count) * xhat(i, count); }) /
            elements;
        for_each_vector(n, dx + r * n, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            return F32(rstd) * ((g(i, count) - g_mean) - xhat(i, count) * gx_mean);
        });
    }
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

/// Calls block(c, vectors, count) for the columns of [first, last): four whole vectors at a time, then one, the last of
/// `count` columns.
template <class Block>
HWY_INLINE void for_column_blocks(std::int64_t first, std::int64_t last, const Block& block) {
    std::int64_t c = first;
    for (; c + 4 * vector_step <= last; c += 4 * vector_step) block(c, std::integral_constant<int, 4>(), f32_lanes);
    for (; c < last; c += vector_step) {
        block(c, std::integral_constant<int, 1>(), static_cast<std::size_t>(min_of(vector_step, last - c)));
    }
}

void layernorm_backward_columns(const float* x, const float* mean, const float* rstd, const float* dout,
                                std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last, float* dgamma,
                                float* dbeta) {
    for_column_blocks(first, last, [=](std::int64_t c, auto vectors, std::size_t count) HWY_ATTR {
        F32 gamma_sum[vectors], beta_sum[vectors];
        for (std::int64_t r = 0; r < rows; ++r) {
            for (int j = 0; j < vectors; ++j) {
                const std::int64_t at = r * n + c + j * vector_step;
                const F32 d = load_n(dout + at, count);
                gamma_sum[j] = gamma_sum[j] + d * ((load_n(x + at, count) - mean[r]) * rstd[r]);
                beta_sum[j] = beta_sum[j] + d;
            }
        }
        for (int j = 0; j < vectors; ++j) {
            store_n(canonical(gamma_sum[j]), dgamma + c + j * vector_step, count);
            store_n(canonical(beta_sum[j]), dbeta + c + j * vector_step, count);
        }
    });
}

void column_sum(const float* x, std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last, float* out) {
    for_column_blocks(first, last, [=](std::int64_t c, auto vectors, std::size_t count) HWY_ATTR {
        F32 sum[vectors];
        for (std::int64_t r = 0; r < rows; ++r) {
            for (int j = 0; j < vectors; ++j) sum[j] = sum[j] + load_n(x + r * n + c + j * vector_step, count);
        }
        for (int j = 0; j < vectors; ++j) store_n(canonical(sum[j]), out + c + j * vector_step, count);
    });
}

}  // namespace

const RowKernels& row_table() {
    static constexpr RowKernels table{.layernorm = layernorm,
                                      .layernorm_backward = layernorm_backward,
                                      .softmax_causal = softmax_causal,
                                      .softmax_causal_backward = softmax_causal_backward,
                                      .log_softmax = log_softmax,
                                      .nll_backward = nll_backward,
                                      .layernorm_backward_columns = layernorm_backward_columns,
                                      .column_sum = column_sum};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

const RowKernels& row_kernels(Simd level) {
    static constexpr RowKernels scalar{
        .layernorm =
            [](const float* x, const float* gamma, const float* beta, std::int64_t rows, std::int64_t n, float eps,
               float* out, float* mean, float* rstd) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    definition::layernorm_row(x + r * n, gamma, beta, n, eps, out + r * n, mean + r, rstd + r);
                }
            },
        .layernorm_backward =
            [](const float* x, const float* gamma, const float* mean, const float* rstd, const float* dout,
               std::int64_t rows, std::int64_t n, float* dx) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    definition::layernorm_backward_row(x + r * n, gamma, mean[r], rstd[r], dout + r * n, n, dx + r * n);
                }
            },
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
        .nll_backward =
            [](const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n, float factor,
               float* dx) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    for (std::int64_t c = 0; c < n; ++c) {
                        dx[r * n + c] = definition::nll_backward(logp[r * n + c], c == targets[r], factor);
                    }
                }
            },
        .layernorm_backward_columns =
            [](const float* x, const float* mean, const float* rstd, const float* dout, std::int64_t rows,
               std::int64_t n, std::int64_t first, std::int64_t last, float* dgamma, float* dbeta) {
                for (std::int64_t c = first; c < last; ++c) {
                    definition::layernorm_backward_column(x, mean, rstd, dout, rows, n, c, dgamma, dbeta);
                }
            },
        .column_sum =
            [](const float* x, std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last, float* out) {
                for (std::int64_t c = first; c < last; ++c) out[c] = definition::column_sum(x, rows, n, c);
            }};
    return choose(level, scalar, N_AVX2::row_table(), N_AVX3::row_table());
}

}  // namespace macheps
#endif
