// SPDX-License-Identifier: Apache-2.0
// Backend::matmul on the CPU. The output is divided into rectangles, which are the tasks of the thread pool.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Computes the product that struct Matmul describes; definition::matmul_element defines each of its elements. The bits
/// depend on neither `simd` nor the pool.
/// Shapes: as in Matmul; the arguments must be consistent (Backend checks them).
/// NaN and infinity are data, not errors. If `tally` is not null, adds the statistics of the last cast to *tally, even
/// if that cast is the identity.
void matmul(Simd simd, ThreadPool& pool, const Matmul& args, Tally* tally = nullptr);

}  // namespace macheps
