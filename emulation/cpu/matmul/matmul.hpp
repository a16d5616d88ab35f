// SPDX-License-Identifier: Apache-2.0
// Backend::matmul on the CPU: the output in rectangles, one for each task of the thread pool.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// struct Matmul says what it computes; definition::matmul_element says it element by element.
/// The bits depend on neither `simd` nor the pool.
/// Shapes: as in Matmul; the arguments must be consistent (Backend checks them). Numeric trouble is data.
/// Adds to *tally, when it is not null, what the last cast did (the identity counts too).
void matmul(Simd simd, ThreadPool& pool, const Matmul& args, Tally* tally = nullptr);

}  // namespace macheps
