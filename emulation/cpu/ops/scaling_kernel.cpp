// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/scaling_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/scaling_kernel.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

template <bool ignore_nan>
HWY_INLINE I32 magnitude(I32 x) {
    const I32 size(hn::And(x.v, I32(0x7fffffff).v));
    if constexpr (!ignore_nan) return size;
    return I32(hn::IfThenZeroElse(hn::Gt(size.v, I32(0x7f800000).v), size.v));
}

HWY_INLINE I32 larger(I32 a, I32 b) { return I32(hn::Max(a.v, b.v)); }

/// Calls f(first, count) for vectors of [0, n).
template <class Function>
HWY_INLINE void each_vector(std::int64_t n, const Function& f) {
    std::int64_t i = 0;
    for (; i + vector_step <= n; i += vector_step) f(i, f32_lanes);
    if (i < n) f(i, static_cast<std::size_t>(n - i));
}

template <bool ignore_nan>
void find_largest(const float* x, std::int64_t n, std::int64_t block, std::int32_t* out) {
    const auto* bits = reinterpret_cast<const std::int32_t*>(x);
    if (block == 1) {
        each_vector(n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
            store_n(larger(load_n(out + i, count), magnitude<ignore_nan>(load_n(bits + i, count))), out + i, count);
        });
        return;
    }
    for (std::int64_t first = 0; first < n; first += block, ++out) {
        I32 top;
        each_vector(min_of(block, n - first), [&](std::int64_t i, std::size_t count) HWY_ATTR {
            top = larger(top, magnitude<ignore_nan>(load_n(bits + first + i, count)));
        });
        *out = max_of(*out, hn::GetLane(hn::MaxOfLanes(DI32(), top.v)));
    }
}

void largest(const float* x, std::int64_t n, std::int64_t block, bool ignore_nan, std::int32_t* out) {
    ignore_nan ? find_largest<true>(x, n, block, out) : find_largest<false>(x, n, block, out);
}

void multiply(const float* x, const float* scales, std::int64_t n, std::int64_t block, float* z) {
    if (block == 1) {
        for_each_vector(n, z, [&](std::int64_t i, std::size_t count) HWY_ATTR {
            return load_n(x + i, count) * load_n(scales + i, count);
        });
        return;
    }
    for (std::int64_t first = 0; first < n; first += block, ++scales) {
        const F32 scale(*scales);
        for_each_vector(min_of(block, n - first), z + first, [&](std::int64_t i, std::size_t count) HWY_ATTR {
            return load_n(x + first + i, count) * scale;
        });
    }
}

constexpr ScalingKernels kernels{largest, multiply};

}  // namespace

const ScalingKernels* kernels_of_scaling() { return &kernels; }

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace {

void define_largest(const float* x, std::int64_t n, std::int64_t block, bool ignore_nan, std::int32_t* out) {
    for (std::int64_t i = 0; i < n; ++i) {
        std::int32_t size = bit_cast<std::int32_t>(x[i]) & 0x7fffffff;
        if (ignore_nan && size > 0x7f800000) size = 0;
        out[i / block] = max_of(out[i / block], size);
    }
}

void define_multiply(const float* x, const float* scales, std::int64_t n, std::int64_t block, float* z) {
    for (std::int64_t i = 0; i < n; ++i) z[i] = definition::canonical(x[i] * scales[i / block]);
}

constexpr ScalingKernels definitions{define_largest, define_multiply};

}  // namespace

const ScalingKernels& scaling_kernels(Simd simd) {
    switch (simd) {
        case Simd::avx2:
            return *N_AVX2::kernels_of_scaling();
        case Simd::avx512:
            return *N_AVX3::kernels_of_scaling();
        default:
            return definitions;
    }
}

}  // namespace macheps
#endif
