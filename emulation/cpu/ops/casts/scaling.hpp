// SPDX-License-Identifier: Apache-2.0
// Backend::scaled_cast on the CPU.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/scaling/scaling.hpp"

namespace macheps {

/// Casts an array with one scale for each group of elements, and writes the decode scales of the groups to `decode`.
/// Shapes: in and out [rows, columns]; decode [group rows, group columns], row-major, where scale_grid() returns the
/// two sizes.
/// The results do not depend on `simd` or the pool. Adds to *tally if `tally` is not null. The tally counts each
/// element once, with its value before scaling as the input.
ScaledResult scaled_cast(Simd simd, ThreadPool& pool, const float* in, float* out, float* decode, std::int64_t rows,
                         std::int64_t columns, const ScaledCast& how, Tally* tally);

}  // namespace macheps
