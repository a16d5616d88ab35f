// SPDX-License-Identifier: Apache-2.0
// A step of Adam by one of the frameworks' kernels, over a chunk of one tensor, for one instruction set.
#pragma once
#include "emulation/adam.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// An Adam with its numbers and casts ready to run, and the kernel that runs it.
struct AdamWork {
    AdamWork(Simd simd, const Adam& args);

    AdamConstants constants;
    CastPlan arithmetic;
    Caster value, moment1, moment2;
    /// Elements [first, first + n) of a tensor, n <= 1024 and first a multiple of 1024; pointers are to element `first`.
    /// The counts are added to *stats and the chunk's sums returned, unless stats is null.
    definition::UpdateSums (*kernel)(const AdamWork& work, float* p, const float* g, float* m, float* v,
                                     std::int64_t first, std::int64_t n, UpdateStats* stats);
};

}  // namespace macheps
