// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/rms_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/rms_norm.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

void normalise(const float* x, std::int64_t rows, std::int64_t n, float eps, float* out, float* rstd_out) {
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

void normalise_backward(const float* x, const float* rstds, const float* dout, std::int64_t rows, std::int64_t n,
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

}  // namespace

const RmsNormKernels& rms_norm_table() {
    static constexpr RmsNormKernels table{normalise, normalise_backward, multiply_columns};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

const RmsNormKernels& rms_norm_kernels(Simd level) {
    static constexpr RmsNormKernels scalar{
        .normalise =
            [](const float* x, std::int64_t rows, std::int64_t n, float eps, float* out, float* rstd) {
                for (std::int64_t r = 0; r < rows; ++r)
                    definition::rms_normalise_row(x + r * n, n, eps, out + r * n, rstd + r);
            },
        .normalise_backward =
            [](const float* x, const float* rstd, const float* dout, std::int64_t rows, std::int64_t n, float* dx) {
                for (std::int64_t r = 0; r < rows; ++r)
                    definition::rms_normalise_backward_row(x + r * n, rstd[r], dout + r * n, n, dx + r * n);
            },
        .multiply_columns =
            [](const float* x, const float* factors, std::int64_t rows, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < rows * n; ++i) out[i] = definition::multiply(x[i], factors[i % n]);
            }};
    return choose(level, scalar, N_AVX2::rms_norm_table(), N_AVX3::rms_norm_table());
}

}  // namespace macheps
#endif
