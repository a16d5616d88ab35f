// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/rows.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

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

void rms_normalise(const float* x, std::int64_t rows, std::int64_t n, float eps, float* out, float* rstd_out) {
    const auto elements = static_cast<float>(n);
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * n;
        const float mean_square = vector_sum(n,
                                             [=](std::int64_t i, std::size_t count) HWY_ATTR {
                                                 const F32 v = load_n(row + i, count);
                                                 return v * v;
                                             }) /
                                  elements;
        const float rstd = 1.0f / macheps::sqrt(mean_square + eps);
        for_each_vector(n, out + r * n,
                        [=](std::int64_t i, std::size_t count) HWY_ATTR { return load_n(row + i, count) * rstd; });
        rstd_out[r] = definition::canonical(rstd);
    }
}

void rms_normalise_backward(const float* x, const float* rstds, const float* dout, std::int64_t rows, std::int64_t n,
                            float* dx) {
    const auto elements = static_cast<float>(n);
    for (std::int64_t r = 0; r < rows; ++r) {
        const float *row = x + r * n, *d = dout + r * n;
        const float rstd = rstds[r];
        const auto xhat = [=](std::int64_t i, std::size_t count) HWY_ATTR { return load_n(row + i, count) * rstd; };
        const float dx_mean = vector_sum(n, [=](std::int64_t i, std::size_t count)
                                                HWY_ATTR { return load_n(d + i, count) * xhat(i, count); }) /
                              elements;
        for_each_vector(n, dx + r * n, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            return F32(rstd) * (load_n(d + i, count) - xhat(i, count) * dx_mean);
        });
    }
}

void multiply_columns(const float* x, const float* factors, std::int64_t rows, std::int64_t n, float* out) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * n;
        for_each_vector(n, out + r * n, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            return load_n(row + i, count) * load_n(factors + i, count);
        });
    }
}

/// Divides the columns [first, last) into vectors and calls block(c, vectors, count) for each `vectors` of them: first
/// for four full vectors at a time, then for one at a time. The last vector of a call has `count` columns.
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
                                      .layernorm_backward_columns = layernorm_backward_columns,
                                      .rms_normalise = rms_normalise,
                                      .rms_normalise_backward = rms_normalise_backward,
                                      .multiply_columns = multiply_columns,
                                      .column_sum = column_sum};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

namespace {

const RowKernels& scalar_table() {
    static constexpr RowKernels table{
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
        .layernorm_backward_columns =
            [](const float* x, const float* mean, const float* rstd, const float* dout, std::int64_t rows,
               std::int64_t n, std::int64_t first, std::int64_t last, float* dgamma, float* dbeta) {
                for (std::int64_t c = first; c < last; ++c) {
                    definition::layernorm_backward_column(x, mean, rstd, dout, rows, n, c, dgamma, dbeta);
                }
            },
        .rms_normalise =
            [](const float* x, std::int64_t rows, std::int64_t n, float eps, float* out, float* rstd) {
                for (std::int64_t r = 0; r < rows; ++r)
                    definition::rms_normalise_row(x + r * n, n, eps, out + r * n, rstd + r);
            },
        .rms_normalise_backward =
            [](const float* x, const float* rstd, const float* dout, std::int64_t rows, std::int64_t n, float* dx) {
                for (std::int64_t r = 0; r < rows; ++r)
                    definition::rms_normalise_backward_row(x + r * n, rstd[r], dout + r * n, n, dx + r * n);
            },
        .multiply_columns =
            [](const float* x, const float* factors, std::int64_t rows, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < rows * n; ++i) out[i] = definition::multiply(x[i], factors[i % n]);
            },
        .column_sum =
            [](const float* x, std::int64_t rows, std::int64_t n, std::int64_t first, std::int64_t last, float* out) {
                for (std::int64_t c = first; c < last; ++c) out[c] = definition::column_sum(x, rows, n, c);
            }};
    return table;
}

}  // namespace

const RowKernels& row_kernels(Simd level) { return MACHEPS_CHOOSE_TARGET(level, scalar_table, row_table)(); }

}  // namespace macheps
#endif
