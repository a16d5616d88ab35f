// SPDX-License-Identifier: Apache-2.0
// CastFidelity: what the values before and behind a cast show beyond counts and ErrorSums. Read on the host, and summed one element
// after the other in fp64, so that every engine and any number of threads give the same figures.
#pragma once
#include "emulation/cpu/ops/casts/fidelity.hpp"
#include "experiments/training/model/rounder.hpp"
#include "reports/rows/event.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps::training {

/// The values of one cast, as numbers. `y` is in the units of x; `codes` are the values of the format, in its own units.
struct CastValues {
    std::span<const float> x, y, codes;
    std::int64_t columns = 1;  ///< of the tensor that the values lie in, row by row
    float encode_scale = 1;    ///< of the whole tensor; not read where groups have scales of their own
    Contraction contraction = Contraction::last;
};

/// What a slot's casts round to, and which elements share a scale there.
struct CastKind {
    Format format = fp32;
    const Granularity* granularity = no_scale;
};

/// Sums over casts of one kind; pairs that are not finite on both sides are left out of all but overflow_rounded.
class CastFidelity {
  public:
    void add(const CastKind& kind, const CastValues& values);
    /// A cast that changed nothing of values whose largest magnitude is `amax`.
    void add_identity(float amax);

    /// Fills in the columns that these figures are for; `row` has amax and amin_nz.
    void fill(reports::SiteRow& row, const CastKind& kind) const;

  private:
    void add_blocks(const Granularity& granularity, const CastValues& values);

    FidelityFigures figures_;
    std::uint64_t block_flush_ = 0;
};

}  // namespace macheps::training
