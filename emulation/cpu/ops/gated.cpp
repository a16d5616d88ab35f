// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/gated.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/gated.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

void multiply(const float* a, const float* b, std::int64_t n, float* out) {
    for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(a + i, count) * load_n(b + i, count);
    });
}

void silu(const float* x, std::int64_t n, float* out) {
    const F32 one(1.0f);
    for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 v = load_n(x + i, count);
        return v / (one + math::exp(-v));
    });
}

void silu_backward(const float* x, const float* dout, std::int64_t n, float* dx) {
    const F32 one(1.0f);
    for_each_vector(n, dx, [=](std::int64_t i, std::size_t count) HWY_ATTR {
        const F32 v = load_n(x + i, count), s = one / (one + math::exp(-v));
        return (load_n(dout + i, count) * s) * (one + v * (one - s));
    });
}

}  // namespace

const GatedKernels& gated_table() {
    static constexpr GatedKernels table{multiply, silu, silu_backward};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

const GatedKernels& gated_kernels(Simd level) {
    static constexpr GatedKernels scalar{.multiply =
                                             [](const float* a, const float* b, std::int64_t n, float* out) {
                                                 for (std::int64_t i = 0; i < n; ++i)
                                                     out[i] = definition::multiply(a[i], b[i]);
                                             },
                                         .silu =
                                             [](const float* x, std::int64_t n, float* out) {
                                                 for (std::int64_t i = 0; i < n; ++i) out[i] = definition::silu(x[i]);
                                             },
                                         .silu_backward =
                                             [](const float* x, const float* dout, std::int64_t n, float* dx) {
                                                 for (std::int64_t i = 0; i < n; ++i)
                                                     dx[i] = definition::silu_backward(x[i], dout[i]);
                                             }};
    return choose(level, scalar, N_AVX2::gated_table(), N_AVX3::gated_table());
}

}  // namespace macheps
#endif
