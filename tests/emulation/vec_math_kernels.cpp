// SPDX-License-Identifier: Apache-2.0
// Functions on arrays that call the vector forms of core/math.inl, compiled once for each SIMD target.
#include "emulation/cpu/simd/targets.hpp"

#include "tests/emulation/vec_math_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/emulation/vec_math_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/simd/vec-inl.hpp"

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

#define MACHEPS_MATH_ARRAY(name)                                     \
    void name##_array(const float* x, float* y, std::size_t n) {     \
        for (std::size_t i = 0; i < n; i += f32_lanes) {             \
            store_n(math::name(load_n(x + i, n - i)), y + i, n - i); \
        }                                                            \
    }
MACHEPS_MATH_ARRAY(exp)
MACHEPS_MATH_ARRAY(expm1)
MACHEPS_MATH_ARRAY(log)
MACHEPS_MATH_ARRAY(log1p)
MACHEPS_MATH_ARRAY(tanh)
MACHEPS_MATH_ARRAY(erf)
MACHEPS_MATH_ARRAY(rsqrt)
MACHEPS_MATH_ARRAY(sin)
MACHEPS_MATH_ARRAY(cos)
#undef MACHEPS_MATH_ARRAY

void halve_in_fp64(const float* x, float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; i += f32_lanes) {
        const F32 in = load_n(x + i, n - i);
        store_n(demote(promote_lower(in) * 0.5, promote_upper(in) * 0.5), y + i, n - i);
    }
}

test::ArrayFunctions array_functions() {
    return {exp_array, expm1_array, log_array, log1p_array, tanh_array,
            erf_array, rsqrt_array, sin_array, cos_array,   halve_in_fp64};
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace macheps::test {

ArrayFunctions vector_functions(Simd level) {
    return choose(level, nullptr, N_AVX2::array_functions, N_AVX3::array_functions)();
}

}  // namespace macheps::test
#endif
