// SPDX-License-Identifier: Apache-2.0
// Include first in every kernel file: of Highway's targets we compile AVX2 and AVX-512 (AVX3). The baseline pass is
// compiled too (it is where HWY_ONCE code lives), but kernels must skip it with #if MACHEPS_SIMD_TARGET: without FMA its
// MulAdd rounds twice. The scalar definition serves there.
//
// A kernel file reads:
//     #include "emulation/cpu/simd/targets.hpp"
//     #undef HWY_TARGET_INCLUDE
//     #define HWY_TARGET_INCLUDE "emulation/cpu/this_file.cpp"
//     #include <hwy/foreach_target.h>
//     #include <hwy/highway.h>
//     #include "emulation/cpu/simd/vec-inl.hpp"            (F32, I32, M32 and the math functions on them)
//     HWY_BEFORE_NAMESPACE();
//     namespace macheps::HWY_NAMESPACE {
//     #if MACHEPS_SIMD_TARGET                               (vec-inl.hpp defines it: AVX2 and AVX-512)
//         ... kernels; `Kernels table()` ...
//     #endif
//     }
//     HWY_AFTER_NAMESPACE();
//     #if HWY_ONCE
//     namespace macheps { ... return choose(level, scalar_table, N_AVX2::table, N_AVX3::table)(); ... }
//     #endif
// Code outside a target names a function of a target only as an argument of choose() (simd.hpp): a call before the choice would
// run instructions that the CPU may lack, even if the function only fills a table. The test `dispatch` enforces this.
// A build for one machine (MACHEPS_SIMD=native) has one of the two. The other's name then means the same kernels, which nobody
// asks for under it: available_simd() does not list it.
#ifndef HWY_DISABLED_TARGETS
#if defined(MACHEPS_ONLY_AVX512)
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_BASELINE_TARGETS))
#define N_AVX2 N_AVX3
#elif defined(MACHEPS_ONLY_AVX2)
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_BASELINE_TARGETS))
#define N_AVX3 N_AVX2
#else
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3 | HWY_BASELINE_TARGETS))
#endif
#endif
