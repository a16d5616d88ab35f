// SPDX-License-Identifier: Apache-2.0
// Ozaki's second scheme: rows and columns become integers, their product is made modulo small coprime numbers, one narrow
// product for each, and put together by the Chinese remainder theorem.
#pragma once
#include "experiments/study/product/narrow_product.hpp"

#include <cstdint>
#include <vector>

namespace macheps::study {

inline constexpr int least_moduli = 2, most_moduli = 24;
/// Bits of a residue's magnitude: |r| <= 2^7.
inline constexpr int residue_bits = 7;

/// The first `count` of the greedy list of pairwise coprime numbers from 256 down: 256 255 253 251 247 ...
std::vector<int> coprime_moduli(int count);

/// The most bits t of an integer, 53 at the most, with which k 2^(2t + 1) is below the product of the moduli: then a sum of
/// k products is known from its residues. 0 where there are none.
int residue_integer_bits(int moduli, std::int64_t k);

/// True where sums of k products of residues are exact on the machine.
bool has_exact_residues(const SpelledRule& machine, std::int64_t k);

/// `plan.via.slices` moduli. Element a of row i becomes rint(a 2^(t - E_i)), 2^E_i above all of the row; columns of b alike.
/// Errors: throws Error (usage) for a machine whose operands cannot hold the residues, and where t would be 0.
NarrowProduct residue_product(Backend& backend, const ViaPlan& plan, const WideOperands& x);

}  // namespace macheps::study
