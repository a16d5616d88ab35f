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

namespace elementwise {
// Names that elementwise.inl uses from the scalar namespace macheps::elementwise.
using macheps::elementwise::gelu_3k1;
using macheps::elementwise::gelu_k0;
using macheps::elementwise::gelu_k1;
using macheps::elementwise::inverse_sqrt_2pi;
using macheps::elementwise::Operations;
using macheps::elementwise::sqrt_half;
}  // namespace elementwise
#define MACHEPS_MATH_FN HWY_INLINE
#define MACHEPS_MATH_REAL F32
#include "emulation/elementwise.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL

// These types return a vector of results that begins at element i. They are not lambdas, because GCC does not inline a
// long lambda and would then load its constants again for each vector.
template <class F>
struct UnaryVector {
    const float* x;
    HWY_INLINE F32 operator()(std::int64_t i, std::size_t count) const { return F::value(load_n(x + i, count)); }
};
template <class F>
struct BackwardVector {
    const float *x, *dout;
    HWY_INLINE F32 operator()(std::int64_t i, std::size_t count) const {
        return F::backward(load_n(x + i, count), load_n(dout + i, count));
    }
};
template <class F>
struct BinaryVector {
    const float *a, *b;
    HWY_INLINE F32 operator()(std::int64_t i, std::size_t count) const {
        return F::value(load_n(a + i, count), load_n(b + i, count));
    }
};
template <class F>
struct NumberVector {
    const float* a;
    float b;
    HWY_INLINE F32 operator()(std::int64_t i, std::size_t count) const {
        return F::value(load_n(a + i, count), F32(b));
    }
};

struct VectorLoops {
    template <class F>
    static void unary(const float* x, std::int64_t n, float* out) {
        for_each_vector(n, out, UnaryVector<F>{x});
    }
    template <class F>
    static void backward(const float* x, const float* dout, std::int64_t n, float* dx) {
        for_each_vector(n, dx, BackwardVector<F>{x, dout});
    }
    template <class F>
    static void binary(const float* a, const float* b, std::int64_t n, float* out) {
        for_each_vector(n, out, BinaryVector<F>{a, b});
    }
    template <class F>
    static void binary_by_number(const float* a, float b, std::int64_t n, float* out) {
        for_each_vector(n, out, NumberVector<F>{a, b});
    }
};

}  // namespace

const ElementwiseKernels& elementwise_table() {
    static constexpr ElementwiseKernels table =
        kernel_table<VectorLoops>(elementwise::Unaries{}, elementwise::Binaries{});
    return table;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

namespace {

struct ScalarLoops {
    template <class F>
    static void unary(const float* x, std::int64_t n, float* out) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = definition::map<F>(x[i]);
    }
    template <class F>
    static void backward(const float* x, const float* dout, std::int64_t n, float* dx) {
        for (std::int64_t i = 0; i < n; ++i) dx[i] = definition::map_backward<F>(x[i], dout[i]);
    }
    template <class F>
    static void binary(const float* a, const float* b, std::int64_t n, float* out) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = definition::map<F>(a[i], b[i]);
    }
    template <class F>
    static void binary_by_number(const float* a, float b, std::int64_t n, float* out) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = definition::map<F>(a[i], b);
    }
};

const ElementwiseKernels& scalar_table() {
    static constexpr ElementwiseKernels table =
        kernel_table<ScalarLoops>(elementwise::Unaries{}, elementwise::Binaries{});
    return table;
}

}  // namespace

const ElementwiseKernels& elementwise_kernels(Simd level) {
    return MACHEPS_CHOOSE_TARGET(level, scalar_table, elementwise_table)();
}

}  // namespace macheps
#endif
