// SPDX-License-Identifier: Apache-2.0
// In which order a matrix product adds its terms, found from its results alone: Xie et al., "FPRev: Revealing
// Floating-Point Accumulation Orders in Software/Hardware Implementations", arXiv 2411.00442. A product is +M at term
// i, -M at term j and a unit u elsewhere, with M so large that u vanishes beside it. What remains of the units counts
// the terms that joined after the two masks met: the rest is the smallest part of the sum that holds i and j.
//
// Such sizes are an ultrametric, and its tree stands in the edges of a minimum spanning tree (Gower and Ross, "Minimum
// spanning trees and single linkage cluster analysis", Applied Statistics 18, 1969). Kernels add neighbours, or terms a
// power of two apart: k log2 k pairs at such distances hold the spanning tree of their sums, and every set that they
// join must have as many terms as its size says. Where it has not, terms drawn at random settle it. Host only.
#pragma once
#include "core/error.hpp"
#include "emulation/backend.hpp"
#include "emulation/matmul/sum_tree.hpp"

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace macheps {

/// Two terms, the first one the lesser.
using TermPair = std::pair<int, int>;
/// For each pair, the number of terms in the smallest sum that holds both.
using PairSizes = std::function<std::vector<int>(std::span<const TermPair>)>;

/// What is thrown where results are those of no tree (check_failed).
Error no_tree(std::string what);

/// Pairs of terms 1, 2, 4, 8 ... apart, by their first term and then by their second.
std::vector<TermPair> near_pairs(int terms);

/// Two terms of sums that meet others in a rounding of so many terms; whether they meet each other before was not asked.
struct OpenPair {
    TermPair pair;
    int size = 0;
};
/// The tree out of pairs that were all measured beforehand, and what of it they leave open.
struct FoundTree {
    SumTree tree{};
    /// Exact where there are none: each stands for two sums whose own pair is missing in a rounding of three or more.
    std::vector<OpenPair> open{};
    std::string gap{};  ///< in words, what is missing for a tree; there is none then
};
/// Errors: throws no_tree where two answers contradict each other.
FoundTree tree_of_pairs(int terms, std::span<const TermPair> pairs, std::span<const int> sizes);

/// The tree over `terms` terms. Asks for the near pairs; for those that these leave open, at most w / 2 for each term
/// where w terms meet in one rounding; and for about k log k more where the near ones do not hold the tree.
/// Errors: throws no_tree when the answers are those of no tree, as those of exact sums are.
SumTree reveal_tree(int terms, const PairSizes& sizes);

/// Compares the answers with the tree for every pair, or for `most` pairs spread over all of them. Errors: as above.
void verify_tree(const SumTree& tree, const PairSizes& sizes, std::int64_t most = 1 << 15);

/// What a sum does to masks and units.
struct RevealLimits {
    int vanishing_bits = 25;    ///< below M 2^-bits a unit vanishes
    int precision = 24;         ///< significand bits of the result: counts of units must fit
    int largest_exponent = 60;  ///< of M
    int least_exponent = -120;  ///< of u
    bool flushes = false;       ///< subnormal operands read as zeros
};
RevealLimits reveal_limits(const MatmulRule& rule);

/// Powers of two: the products are mask_a mask_b at the masks and unit_a unit_b elsewhere.
struct RevealOperands {
    float mask_a = 1, mask_b = 1, unit_a = 1, unit_b = 1;

    double unit() const { return double{unit_a} * double{unit_b}; }
    /// One row of a and one column of b, `terms` each.
    void fill(int terms, TermPair pair, float* a, float* b) const;
    /// Terms in the smallest sum that holds both masks, from the result. Errors: throws Error when it is no whole
    /// number of units.
    int size_of(int terms, TermPair pair, double result) const;
};
/// Masks and units within the range of the formats; b is 1 everywhere where a's range is enough.
/// Errors: throws Error (usage) when the range is too small for that many terms.
RevealOperands reveal_operands(const Format& a, const Format& b, int terms, const RevealLimits& limits);

/// Answers by running matmuls: one output for each pair. The backend must outlive it.
PairSizes matmul_pair_sizes(Backend& backend, const MatmulRule& rule, const Format& a, const Format& b, int terms);

}  // namespace macheps
