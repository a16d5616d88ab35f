// SPDX-License-Identifier: Apache-2.0
// Computes the outputs of an operation on rows bit for bit, for kernels that declare `bits`. Such a kernel claims that
// every step is fp32 arithmetic, that functions are correctly rounded, and that sums have the declared order.
#pragma once
#include "experiments/check/judge/bits.hpp"

namespace macheps::check {

/// Returns the outputs of a kernel that rounds every step to fp32, to nearest even. If a step has two usual formulas,
/// the first one is used. Sums are added in the declared order:
/// - `lanes32` gives element i to chain i mod 32 and folds the chains by halves, as the shuffles of a warp do.
/// - `pairwise` splits at the largest power of two below the length.
/// - `blocks128` sums blocks of 128 as chains, and then the blocks pairwise.
/// - `kahan` adds in order, with compensation.
///
/// Errors: throws Declined if the declaration does not determine the bits. Examples are sums in any order or in a
/// narrow format, functions that are not correctly rounded, a softmax in blocks, a variance in one pass or by updates,
/// inputs wider than fp32, and outputs that are indices or stochastically rounded.
MachineOutputs fp32_outputs(const Problem& problem, ThreadPool& pool);

}  // namespace macheps::check
