// SPDX-License-Identifier: Apache-2.0
// Include this first in every kernel file. Highway then compiles the file for AVX2 and for AVX-512 (its target AVX3),
// and once more in a baseline pass, which contains the HWY_ONCE code. Kernels must skip that pass with #if
// MACHEPS_SIMD_TARGET, because without FMA its MulAdd rounds twice. The scalar definition is used there.
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
// Code outside a target names a function of a target only as an argument of choose() (simd.hpp): a call before the
// choice would run instructions that the CPU may lack, even if the function only fills a table. The test `dispatch`
// enforces this.
// A build for one machine (MACHEPS_SIMD=native) has one of the two targets. The name of the other is then an alias of
// it, and is never chosen, because available_simd() does not list that instruction set.
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
