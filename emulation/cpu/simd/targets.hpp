// SPDX-License-Identifier: Apache-2.0
// Include this first in every kernel file. Highway then compiles the file for AVX2 and for AVX-512 (its target AVX3),
// and once more in a baseline pass, which contains the HWY_ONCE code. Kernels must skip the baseline pass with #if
// MACHEPS_SIMD_TARGET: it has no FMA, so MulAdd would round twice. CPUs without AVX2 use the scalar definition.
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
//     namespace macheps { ... return MACHEPS_CHOOSE_TARGET(level, scalar_table, table)(); ... }
//     #endif
// Code outside a target may name a function of a target only as an argument of choose() (simd.hpp). A direct call could
// run instructions that the CPU lacks, even if the function only fills a table. The test `dispatch` enforces this rule.
// A build for one machine (MACHEPS_SIMD=native) has only one of the two targets. The namespace of the other target is
// then an alias. It is never chosen, because available_simd() does not list its instruction set. A build without vectors
// (MACHEPS_SIMD=none, and every processor other than x86-64) has neither target.
#include "emulation/cpu/simd/simd.hpp"

#undef MACHEPS_CHOOSE_TARGET
#if MACHEPS_HAS_VECTORS
#define MACHEPS_CHOOSE_TARGET(level, scalar, function) choose(level, scalar, N_AVX2::function, N_AVX3::function)
#else
#define MACHEPS_CHOOSE_TARGET(level, scalar, function) (static_cast<void>(level), scalar)
#endif

#ifndef HWY_DISABLED_TARGETS
#if !MACHEPS_HAS_VECTORS
#define HWY_DISABLED_TARGETS (~HWY_BASELINE_TARGETS)
#elif defined(MACHEPS_ONLY_AVX512)
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_BASELINE_TARGETS))
#define N_AVX2 N_AVX3
#elif defined(MACHEPS_ONLY_AVX2)
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_BASELINE_TARGETS))
#define N_AVX3 N_AVX2
#else
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3 | HWY_BASELINE_TARGETS))
#endif
#endif
