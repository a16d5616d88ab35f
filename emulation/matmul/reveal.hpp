// SPDX-License-Identifier: Apache-2.0
// Finds the order in which a matrix product adds its terms, from its results alone: Xie et al., "FPRev: Revealing
// Floating-Point Accumulation Orders in Software/Hardware Implementations", arXiv 2411.00442. The products are the mask
// +M at term i, the mask -M at term j, and a unit u at all other terms. M is so large that u vanishes when added to it.
// The result counts the units that were added after the two masks cancelled. All terms that are not counted form the
// smallest partial sum that contains i and j.
//
// The sizes of these partial sums are an ultrametric on the terms, and a minimum spanning tree of the terms determines
// the tree of the sum (Gower and Ross, "Minimum spanning trees and single linkage cluster analysis", Applied Statistics
// 18, 1969). Kernels usually add terms that are neighbours or whose distance is a power of two. Then the pairs at these
// distances, about k log2 k pairs, contain a spanning tree. As a check, the terms that these pairs connect to one
// partial sum are counted. If their number differs from the measured size of the partial sum, further pairs with
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
/// Function that measures, for each pair, the number of terms in the smallest partial sum that contains both terms.
using PairSizes = std::function<std::vector<int>(std::span<const TermPair>)>;

/// Returns the Error (check_failed) to throw if the results do not fit any tree.
Error no_tree(std::string what);

/// Returns the pairs of terms that are 1, 2, 4, 8 ... apart, sorted by the first term and then by the second.
std::vector<TermPair> near_pairs(int terms);

/// One term from each of two subtrees of a sum of `size` terms. The pairs that were measured show that the sum adds
/// both subtrees, probably in one rounding with others. They do not show whether the two subtrees are already added to
/// each other earlier.
struct OpenPair {
    TermPair pair;
    int size = 0;
};
/// The tree that a fixed list of measured pairs determines, and the pairs that are still to be measured.
struct FoundTree {
    SumTree tree{};
    /// If no measured pair connects two subtrees of a sum with three or more children, this list has one pair of terms
    /// for these two subtrees. If the list is empty, the tree is certain.
    std::vector<OpenPair> open{};
    std::string gap{};  ///< description of missing information; if it is not empty, `tree` is incomplete
};
/// Builds the tree from the measured sizes of the pairs. Errors: throws no_tree if two sizes contradict each other.
FoundTree tree_of_pairs(int terms, std::span<const TermPair> pairs, std::span<const int> sizes);

/// Returns the tree of a sum of k = `terms` terms. First measures near_pairs(). Then measures the pairs in
/// FoundTree::open, which are at most w / 2 pairs per term if w terms are added in one rounding. If all these pairs do
/// not determine the tree, measures about k log k more pairs.
/// Errors: throws no_tree if the measured sizes do not fit any tree. Those of an exact sum do not.
SumTree reveal_tree(int terms, const PairSizes& sizes);

/// Measures all pairs, or `most` pairs spread evenly over them, and compares their sizes with the tree. Errors: throws
/// no_tree if a size differs.
void verify_tree(const SumTree& tree, const PairSizes& sizes, std::int64_t most = 1 << 15);

/// Limits of a sum within which the mask M and the unit u have to be chosen.
struct RevealLimits {
    int vanishing_bits = 25;    ///< a unit below M 2^-vanishing_bits vanishes when added to M
    int precision = 24;         ///< significand bits of the result, in which the number of units must fit
    int largest_exponent = 60;  ///< upper bound for the exponent of M
    int min_exponent = -120;    ///< lower bound for the exponent of u
    bool flushes = false;       ///< subnormal operands are read as zeros
};
RevealLimits reveal_limits(const MatmulRule& rule);

/// Magnitudes of the operands, all powers of two. The products are M = mask_a mask_b and -M at the two masks, and
/// u = unit_a unit_b at all other terms.
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

/// Returns a function that measures pairs by running matmuls, with one output for each pair. The backend must outlive
/// the function.
PairSizes matmul_pair_sizes(Backend& backend, const MatmulRule& rule, const Format& a, const Format& b, int terms);

}  // namespace macheps
