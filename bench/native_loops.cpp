// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/native_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bench/native_loops.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET

void native_loop_of_target(Operation operation, const float* a, const float* b, const float* c, float* out,
                           std::int64_t n) {
    constexpr auto step = static_cast<std::int64_t>(f32_lanes);
    switch (operation) {
        case Operation::add:
            for (std::int64_t i = 0; i < n; i += step) store(load(a + i) + load(b + i), out + i);
            break;
        case Operation::mul:
            for (std::int64_t i = 0; i < n; i += step) store(load(a + i) * load(b + i), out + i);
            break;
        case Operation::fma:
            for (std::int64_t i = 0; i < n; i += step) store(fma(load(a + i), load(b + i), load(c + i)), out + i);
            break;
        default:
            break;
    }
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps::bench {

namespace {

void scalar_loop(Operation operation, const float* a, const float* b, const float* c, float* out, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        out[i] = operation == Operation::add   ? a[i] + b[i]
                 : operation == Operation::mul ? a[i] * b[i]
                                               : fma(a[i], b[i], c[i]);
    }
}

}  // namespace

void native_loop(Simd simd, Operation operation, const float* a, const float* b, const float* c, float* out,
                 std::int64_t n) {
    choose(simd, scalar_loop, N_AVX2::native_loop_of_target, N_AVX3::native_loop_of_target)(operation, a, b, c, out, n);
}

}  // namespace macheps::bench
#endif
