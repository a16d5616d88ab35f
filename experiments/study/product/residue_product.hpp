// SPDX-License-Identifier: Apache-2.0
// Ozaki's second scheme. Rows and columns become integers. Their product modulo each of several small coprime numbers
// is one narrow product. The Chinese remainder theorem combines them.
#pragma once
#include "experiments/study/product/narrow_product.hpp"

#include <cstdint>
#include <vector>

namespace macheps::study {

inline constexpr int min_moduli = 2, max_moduli = 24;
/// Bits of a residue's magnitude: |r| <= 2^7.
inline constexpr int residue_bits = 7;

/// Returns the first `count` of the greedy list of pairwise coprime numbers from 256 down: 256 255 253 251 247 ...
std::vector<int> coprime_moduli(int count);

/// Returns the maximum number of bits t of an integer, at most 53, for which k 2^(2t + 1) is below the product of the
/// moduli. The residues then determine a sum of k products. Returns 0 if there is no such t.
int residue_integer_bits(int moduli, std::int64_t k);

/// Returns whether sums of k products of residues are exact on the machine.
bool has_exact_residues(const SpelledRule& machine, std::int64_t k);

/// Computes the product with `plan.via.slices` moduli. Element a of row i becomes rint(a 2^(t - E_i)), where 2^E_i is
/// above all magnitudes of the row. Columns of b are treated in the same way. Errors: throws Error (usage) for a
/// machine whose operands cannot hold the residues, and if t would be 0.
NarrowProduct residue_product(Backend& backend, const ViaPlan& plan, const WideOperands& x);

}  // namespace macheps::study
