// SPDX-License-Identifier: Apache-2.0
// Ozaki's second scheme. The rows of a and the columns of b are scaled and rounded to integers. For each of several
// small coprime moduli, one narrow product multiplies the residues. The Chinese remainder theorem combines these
// products.
#pragma once
#include "experiments/study/product/narrow_product.hpp"

#include <cstdint>
#include <vector>

namespace macheps::study {

inline constexpr int min_moduli = 2, max_moduli = 24;
/// The magnitude of a residue is at most 2^residue_bits.
inline constexpr int residue_bits = 7;

/// Returns `count` pairwise coprime numbers, chosen greedily from 256 down: 256 255 253 251 247 ...
std::vector<int> coprime_moduli(int count);

/// Returns the largest t, at most 53, for which k 2^(2t + 1) is below the product of the first `moduli` coprime moduli.
/// The residues then determine the sum of k products of integers of magnitude at most 2^t. Returns 0 if no t >= 1 is
/// possible.
int residue_integer_bits(int moduli, std::int64_t k);

/// Returns whether sums of k products of residues are exact on the machine.
bool has_exact_residues(const SpelledRule& machine, std::int64_t k);

/// Computes the product with `plan.via.slices` moduli. Element a of row i becomes rint(a 2^(t - E_i)), where 2^E_i is
/// above all magnitudes of the row. Columns of b are treated in the same way. Errors: throws Error (usage) if the
/// machine's operand format cannot hold the residues, or if t would be 0.
NarrowProduct residue_product(Backend& backend, const ViaPlan& plan, const WideOperands& x);

}  // namespace macheps::study
