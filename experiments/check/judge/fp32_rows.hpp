// SPDX-License-Identifier: Apache-2.0
// The bits of a row operation whose every step is fp32 arithmetic, with a declared order of sums and correctly rounded
// functions. A kernel for rows claims them if it declares `bits`.
#pragma once
#include "experiments/check/judge/bits.hpp"

namespace macheps::check {

/// Returns the outputs with every step of the list rounded to fp32, to nearest even. If a node allows two usual ways to
/// compute a number, it is computed in the first one. Sums are added in the declared order:
/// - `lanes32` gives element i to chain i mod 32 and folds the chains by halves, as the shuffles of a warp do.
/// - `pairwise` splits at the largest power of two below the length.
/// - `blocks128` sums blocks of 128 as chains, and then the blocks pairwise.
/// - `kahan` adds in order, with compensation.
///
/// Errors: throws Declined if the declaration does not determine bits: sums in any order or in a narrow format,
/// functions that are not correctly rounded, a softmax in blocks, a variance in one pass or by updates, inputs wider
/// than fp32, outputs that are indices or random.
MachineOutputs fp32_outputs(const Problem& problem, ThreadPool& pool);

}  // namespace macheps::check
