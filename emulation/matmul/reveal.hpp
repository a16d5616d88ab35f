// SPDX-License-Identifier: Apache-2.0
// Finds the order in which a matrix product adds its terms, from its results alone: Xie et al., "FPRev: Revealing
// Floating-Point Accumulation Orders in Software/Hardware Implementations", arXiv 2411.00442. The products are the mask
// +M at term i, the mask -M at term j, and a unit u at all other terms. M is so large that u vanishes when added to it.
// The result counts the units that were added after the two masks cancelled. The other terms form the smallest partial
// sum that contains i and j.
//
// The sizes of these partial sums are an ultrametric, and a minimum spanning tree determines its tree (Gower and Ross,
// "Minimum spanning trees and single linkage cluster analysis", Applied Statistics 18, 1969). Kernels add neighbours,
// or terms a power of two apart, so the k log2 k pairs at such distances contain the spanning tree of their sums. As a
// check, every set that these pairs join must have as many terms as its size says. If one has not, further pairs with
// randomly drawn terms are measured. Host only.
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

/// Two terms, the smaller index first.
using TermPair = std::pair<int, int>;
/// Function that measures, for each pair, the number of terms in the smallest partial sum that contains both.
using PairSizes = std::function<std::vector<int>(std::span<const TermPair>)>;

/// Returns the Error (check_failed) to throw if results do not belong to any tree.
Error no_tree(std::string what);

/// Returns the pairs of terms that are 1, 2, 4, 8 ... apart, sorted by the first term and then by the second.
std::vector<TermPair> near_pairs(int terms);

/// Two terms whose parts of the tree meet in one rounding of `size` terms, according to other pairs. Whether these two
/// parts already meet before was not measured.
struct OpenPair {
    TermPair pair;
    int size = 0;
};
/// Tree found from pairs that were all measured beforehand, and the points that they leave open.
struct FoundTree {
    SumTree tree{};
    /// Pairs that were not measured, each for two parts that meet in a rounding of three or more. If there are none,
    /// the tree is exact.
    std::vector<OpenPair> open{};
    std::string gap{};  ///< in words, the missing information; if not empty, `tree` is incomplete
};
/// Builds the tree. Errors: throws no_tree if two answers contradict each other.
FoundTree tree_of_pairs(int terms, std::span<const TermPair> pairs, std::span<const int> sizes);

/// Returns the tree over `terms` terms. Measures the near pairs and the pairs that these leave open, which are at most
/// w / 2 per term if w terms meet in one rounding. If the near pairs do not determine the tree, measures about k log k
/// more.
/// Errors: throws no_tree if the answers do not belong to any tree, like those of exact sums.
SumTree reveal_tree(int terms, const PairSizes& sizes);

/// Compares the answers with the tree for every pair, or for `most` pairs spread over all of them. Errors: throws
/// no_tree if one differs.
void verify_tree(const SumTree& tree, const PairSizes& sizes, std::int64_t most = 1 << 15);

/// Limits on masks and units in a sum.
struct RevealLimits {
    int vanishing_bits = 25;    ///< a unit below M 2^-bits vanishes
    int precision = 24;         ///< significand bits of the result: counts of units must fit
    int largest_exponent = 60;  ///< upper bound for M
    int min_exponent = -120;    ///< lower bound for u
    bool flushes = false;       ///< subnormal operands read as zeros
};
RevealLimits reveal_limits(const MatmulRule& rule);

/// Powers of two: the products are mask_a mask_b at the masks and unit_a unit_b elsewhere.
struct RevealOperands {
    float mask_a = 1, mask_b = 1, unit_a = 1, unit_b = 1;

    double unit() const { return double{unit_a} * double{unit_b}; }
    /// Fills one row of a and one column of b with `terms` numbers each.
    void fill(int terms, TermPair pair, float* a, float* b) const;
    /// Returns the number of terms in the smallest partial sum that contains both masks. Errors: throws Error if the
    /// result is not a whole number of units.
    int size_of(int terms, TermPair pair, double result) const;
};
/// Returns masks and units within the range of the formats. b is 1 everywhere if the range of a is sufficient.
/// Errors: throws Error (usage) if the range is too small for that many terms.
RevealOperands reveal_operands(const Format& a, const Format& b, int terms, const RevealLimits& limits);

/// Measures by running matmuls, with one output for each pair. The backend must outlive the result.
PairSizes matmul_pair_sizes(Backend& backend, const MatmulRule& rule, const Format& a, const Format& b, int terms);

}  // namespace macheps
