// SPDX-License-Identifier: Apache-2.0
// CastFidelity: figures about casts, in addition to the counts (Tally) and ErrorSums. The host reads the values before
// and after each cast and sums them sequentially in fp64, so the figures do not depend on the engine or the number of
// threads.
#pragma once
#include "emulation/cpu/ops/casts/fidelity.hpp"
#include "experiments/training/model/rounder.hpp"
#include "reports/rows/event.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps::training {

/// The values of one cast: the input `x`, the decoded result `y` in the units of `x`, and the result `codes` before
/// decoding, in the units of the format.
struct CastValues {
    std::span<const float> x, y, codes;
    std::int64_t columns = 1;  ///< number of columns of the tensor, which is stored row by row
    float encode_scale = 1;    ///< scale of the whole tensor; unused if groups have their own scales
    Contraction contraction = Contraction::last;
};

/// The format of a slot's casts, and the groups of elements that share a scale.
struct CastKind {
    Format format = fp32;
    const Granularity* granularity = no_scale;
};

/// Sums over casts of one kind. Elements whose input or result is not finite count only in overflow_rounded.
class CastFidelity {
  public:
    void add(const CastKind& kind, const CastValues& values);
    /// Adds a cast that changed nothing. `amax` is the largest magnitude of its values.
    void add_identity(float amax);

    /// Fills in the columns for these figures. `row` must already contain amax and amin_nz.
    void fill(reports::SiteRow& row, const CastKind& kind) const;

  private:
    void add_blocks(const Granularity& granularity, const CastValues& values);

    FidelityFigures figures_;
    std::uint64_t block_flush_ = 0;
};

}  // namespace macheps::training
