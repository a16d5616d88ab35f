// SPDX-License-Identifier: Apache-2.0
// A step of Adam as one of the frameworks' kernels computes it, over a chunk of one tensor, for one instruction set.
#pragma once
#include "emulation/adam.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// An Adam step with its constants and prepared casts, and the kernel that computes it.
struct AdamWork {
    AdamWork(Simd simd, const Adam& args);

    AdamConstants constants;
    CastPlan arithmetic;
    Caster value, moment1, moment2;
    /// Updates elements [first, first + n) of a tensor, n <= 1024 and first a multiple of 1024. Pointers are to element
    /// `first`. If `stats` is not null, adds the counts to *stats and returns the chunk's sums.
    definition::UpdateSums (*kernel)(const AdamWork& work, float* p, const float* g, float* m, float* v,
                                     std::int64_t first, std::int64_t n, UpdateStats* stats);
};

}  // namespace macheps
