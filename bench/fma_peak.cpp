// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fma_peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bench/fma_peak.hpp"
#include "core/hd.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET

/// Runs twelve independent chains of fma. They are enough to hide the latency of two FMA units (3 to 5 cycles each).
double fma_rounds_of_target(std::int64_t rounds) {
    const F32 factor(0.75f), term(0.25f);
    F32 a, b, c, d, e, f, g, h, i, j, k, l;
    for (std::int64_t round = 0; round < rounds; ++round) {
        a = fma(a, factor, term), b = fma(b, factor, term), c = fma(c, factor, term), d = fma(d, factor, term);
        e = fma(e, factor, term), f = fma(f, factor, term), g = fma(g, factor, term), h = fma(h, factor, term);
        i = fma(i, factor, term), j = fma(j, factor, term), k = fma(k, factor, term), l = fma(l, factor, term);
        // All chains compute the same values. Without this barrier, the compiler would merge them into one chain.
        asm volatile("" : "+v"(a.v.raw), "+v"(b.v.raw), "+v"(c.v.raw), "+v"(d.v.raw), "+v"(e.v.raw), "+v"(f.v.raw));
        asm volatile("" : "+v"(g.v.raw), "+v"(h.v.raw), "+v"(i.v.raw), "+v"(j.v.raw), "+v"(k.v.raw), "+v"(l.v.raw));
    }
    return 2.0 * 12 * f32_lanes * static_cast<double>(rounds);
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps::bench {

namespace {

double scalar_fma_rounds(std::int64_t rounds) {
    float acc = 0;
    for (std::int64_t round = 0; round < rounds; ++round) acc = fma(acc, 0.75f, 0.25f);
    asm volatile("" : : "r"(bit_cast<std::uint32_t>(acc)));
    return 2.0 * static_cast<double>(rounds);
}

}  // namespace

double fma_rounds(Simd simd, std::int64_t rounds) {
    return choose(simd, scalar_fma_rounds, N_AVX2::fma_rounds_of_target, N_AVX3::fma_rounds_of_target)(rounds);
}

}  // namespace macheps::bench
#endif
