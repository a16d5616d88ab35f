// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/elementwise.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

void add(const float* a, const float* b, std::int64_t n, float* out) {
    for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(a + i, count) + load_n(b + i, count);
    });
}

void multiply(const float* a, const float* b, std::int64_t n, float* out) {
    for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
        return load_n(a + i, count) * load_n(b + i, count);
    });
}

void scale(const float* x, float factor, std::int64_t n, float* out) {
    for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR { return load_n(x + i, count) * factor; });
}

HWY_INLINE F32 gelu_tanh_inner(F32 x) {
    return math::tanh(F32(definition::gelu_k0) * (x + F32(definition::gelu_k1) * ((x * x) * x)));
}

void gelu(Gelu kind, const float* x, std::int64_t n, float* out) {
    const F32 half(0.5f), one(1.0f);
    if (kind == Gelu::erf) {
        for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            const F32 v = load_n(x + i, count);
            return (half * v) * (one + math::erf(v * F32(definition::sqrt_half)));
        });
    } else {
        for_each_vector(n, out, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            const F32 v = load_n(x + i, count);
            return (half * v) * (one + gelu_tanh_inner(v));
        });
    }
}

void gelu_backward(Gelu kind, const float* x, const float* dout, std::int64_t n, float* dx) {
    const F32 half(0.5f), one(1.0f);
    if (kind == Gelu::erf) {
        for_each_vector(n, dx, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            const F32 v = load_n(x + i, count);
            const F32 below = half * (one + math::erf(v * F32(definition::sqrt_half)));
            const F32 density = F32(definition::inverse_sqrt_2pi) * math::exp(F32(-0.5f) * (v * v));
            return load_n(dout + i, count) * (below + v * density);
        });
    } else {
        for_each_vector(n, dx, [=](std::int64_t i, std::size_t count) HWY_ATTR {
            const F32 v = load_n(x + i, count), t = gelu_tanh_inner(v);
            const F32 inner_slope = F32(definition::gelu_k0) * (one + F32(definition::gelu_3k1) * (v * v));
            return load_n(dout + i, count) * (half * (one + t) + (half * v) * ((one - t * t) * inner_slope));
        });
    }
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

const ElementwiseKernels& elementwise_table() {
    static constexpr ElementwiseKernels table{.add = add,
                                              .multiply = multiply,
                                              .scale = scale,
                                              .gelu = gelu,
                                              .gelu_backward = gelu_backward,
                                              .silu = silu,
                                              .silu_backward = silu_backward};
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

const ElementwiseKernels& elementwise_kernels(Simd level) {
    static constexpr ElementwiseKernels scalar{
        .add =
            [](const float* a, const float* b, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < n; ++i) out[i] = definition::add(a[i], b[i]);
            },
        .multiply =
            [](const float* a, const float* b, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < n; ++i) out[i] = definition::multiply(a[i], b[i]);
            },
        .scale =
            [](const float* x, float factor, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < n; ++i) out[i] = definition::scale(x[i], factor);
            },
        .gelu =
            [](Gelu kind, const float* x, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < n; ++i) out[i] = definition::gelu(kind, x[i]);
            },
        .gelu_backward =
            [](Gelu kind, const float* x, const float* dout, std::int64_t n, float* dx) {
                for (std::int64_t i = 0; i < n; ++i) dx[i] = definition::gelu_backward(kind, x[i], dout[i]);
            },
        .silu =
            [](const float* x, std::int64_t n, float* out) {
                for (std::int64_t i = 0; i < n; ++i) out[i] = definition::silu(x[i]);
            },
        .silu_backward =
            [](const float* x, const float* dout, std::int64_t n, float* dx) {
                for (std::int64_t i = 0; i < n; ++i) dx[i] = definition::silu_backward(x[i], dout[i]);
            }};
    return choose(level, scalar, N_AVX2::elementwise_table(), N_AVX3::elementwise_table());
}

}  // namespace macheps
#endif
