// SPDX-License-Identifier: Apache-2.0
// Optimiser steps over a chunk of one tensor, for one instruction set.
#pragma once
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/definitions.hpp"

namespace macheps {

/// The arguments of an AdamW step, with a Caster prepared for each of its casts.
struct AdamWStep {
    AdamWStep(Simd simd, const AdamW& a)
        : args(a),
          value(simd, a.value_cast),
          update(simd, a.update_cast),
          moment1(simd, a.moment1_cast),
          moment2(simd, a.moment2_cast),
          arithmetic(simd, Cast{.format = a.arithmetic}) {}

    AdamW args;
    Caster value, update, moment1, moment2, arithmetic;
};

struct SgdStep {
    SgdStep(Simd simd, const Sgd& s) : args(s), value(simd, s.value_cast), update(simd, s.update_cast) {}

    Sgd args;
    Caster value, update;
};

/// Kernels that update elements [first, first + n) of a tensor, where n <= 1024 and `first` is a multiple of 1024. The
/// pointers point to element `first`. If `stats` is not null, a kernel adds the counts of these elements to *stats. It
/// returns the other statistics of these elements, which are sums.
struct OptimizerKernels {
    definition::UpdateSums (*adamw)(const AdamWStep& step, float* p, const float* g, float* m, float* v,
                                    std::int64_t first, std::int64_t n, UpdateStats* stats);
    /// m may be null when momentum == 0.
    definition::UpdateSums (*sgd)(const SgdStep& step, float* p, const float* g, float* m, std::int64_t first,
                                  std::int64_t n, UpdateStats* stats);
};

const OptimizerKernels& optimizer_kernels(Simd level);

}  // namespace macheps
