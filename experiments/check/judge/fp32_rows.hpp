// SPDX-License-Identifier: Apache-2.0
// The bits of an operation on rows whose every step is fp32 arithmetic, in a declared order and with functions that are
// rounded correctly: what a kernel claims that says `bits` of it.
#pragma once
#include "experiments/check/judge/bits.hpp"

namespace macheps::check {

/// Every step of the list is rounded to fp32, to nearest even; of two usual ways to a number it is the first. Sums go by
/// the declared order: `lanes32` gives element i to chain i mod 32 and folds the chains by halves, as a warp's shuffles do;
/// `pairwise` halves at the greatest power of two below the length; `blocks128` sums blocks as chains and those pairwise;
/// `kahan` compensates, in order.
/// Errors: throws Declined where the declaration leaves bits open: sums in any order or a narrow format, functions that are
/// not exact, a softmax in blocks, a variance in one pass, inputs wider than fp32, outputs that are places or random.
MachineOutputs fp32_outputs(const Problem& problem, ThreadPool& pool);

}  // namespace macheps::check
