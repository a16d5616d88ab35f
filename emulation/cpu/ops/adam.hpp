// SPDX-License-Identifier: Apache-2.0
// Adam steps with the rounding of a framework's kernel, on a chunk of one tensor and for one instruction set.
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
    /// Updates elements [first, first + n) of a tensor, where n <= 1024 and `first` is a multiple of 1024. The pointers
    /// point to element `first`. If `stats` is not null, adds the counts of UpdateStats for these elements to *stats,
    /// and returns the sums of UpdateStats for them.
    definition::UpdateSums (*kernel)(const AdamWork& work, float* p, const float* g, float* m, float* v,
                                     std::int64_t first, std::int64_t n, UpdateStats* stats);
};

}  // namespace macheps
