// SPDX-License-Identifier: Apache-2.0
// Backend::scaled_cast on the CPU.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/scaling/scaling.hpp"

namespace macheps {

/// Casts with a scale for each group.
/// Shapes: in, out [rows, columns]; decode [group rows, group columns] row-major, as scale_grid() counts them.
/// Bits depend on neither `simd` nor the pool. Adds to *tally if `tally` is not null. The counts are those of a single
/// cast whose input is x before scaling.
ScaledResult scaled_cast(Simd simd, ThreadPool& pool, const float* in, float* out, float* decode, std::int64_t rows,
                         std::int64_t columns, const ScaledCast& how, Tally* tally);

}  // namespace macheps
