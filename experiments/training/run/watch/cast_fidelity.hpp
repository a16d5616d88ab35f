// SPDX-License-Identifier: Apache-2.0
// CastFidelity: figures about the values before and after a cast that counts and ErrorSums do not contain. The values
// are read on the host and summed one after the other in fp64, so every engine and any number of threads give the same
// figures.
#pragma once
#include "emulation/cpu/ops/casts/fidelity.hpp"
#include "experiments/training/model/rounder.hpp"
#include "reports/rows/event.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps::training {

/// The values of one cast. `y` is in the units of x; `codes` are the values of the format, in its own units.
struct CastValues {
    std::span<const float> x, y, codes;
    std::int64_t columns = 1;  ///< of the tensor, which is stored row by row
    float encode_scale = 1;    ///< of the whole tensor; not read if groups have scales
    Contraction contraction = Contraction::last;
};

/// The format of a slot's casts, and the elements that share a scale.
struct CastKind {
    Format format = fp32;
    const Granularity* granularity = no_scale;
};

/// Sums over casts of one kind. Pairs with a value that is not finite count only in overflow_rounded.
class CastFidelity {
  public:
    void add(const CastKind& kind, const CastValues& values);
    /// Adds a cast that changed nothing. `amax` is the largest magnitude of its values.
    void add_identity(float amax);

    /// Fills in the columns of these figures. `row` already has amax and amin_nz.
    void fill(reports::SiteRow& row, const CastKind& kind) const;

  private:
    void add_blocks(const Granularity& granularity, const CastValues& values);

    FidelityFigures figures_;
    std::uint64_t block_flush_ = 0;
};

}  // namespace macheps::training
