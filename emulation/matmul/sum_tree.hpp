// SPDX-License-Identifier: Apache-2.0
// The order of a sum: which terms and partial sums meet in which rounding. Host only.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A sum as a tree. Nodes 0 .. terms - 1 are the terms; node terms + i is sums[i], whose children stand before it. A
/// sum whose children meet in one rounding has more than two.
struct SumTree {
    int terms = 0;
    std::vector<std::vector<int>> sums{};  ///< children in the order of their least term; the root comes last
    std::int64_t probes = 0;               ///< pairs that were measured to find the tree

    bool operator==(const SumTree& other) const { return terms == other.terms && sums == other.sums; }
    /// Terms below each node.
    std::vector<int> sizes() const;
    /// How many sums have so many children.
    std::map<int, int> ways() const;
    /// Sums on the longest way from a term to the root.
    int depth() const;
    /// No sum has more than one sum among its children.
    bool is_chain() const;
    /// Every sum is of two, each of half as many terms (of a power of two) as it has.
    bool is_balanced() const;
    /// Terms of each block, where the sum is a chain of blocks of neighbouring terms that are chains themselves, two blocks
    /// or more; empty otherwise. A block of one term is no block: it cannot be told from a longer one before it.
    std::vector<int> blocks() const;
};

// The tree as text: one line per sum in the order of evaluation; indented, root first; nested brackets; Graphviz.
std::string tree_steps(const SumTree& tree);
/// Reads what tree_steps writes. Errors: throws Error if a line is not a sum of terms and earlier sums, each used once.
SumTree parse_tree_steps(int terms, std::string_view steps);
std::string tree_indented(const SumTree& tree);
std::string tree_brackets(const SumTree& tree);
std::string tree_dot(const SumTree& tree, std::string_view title);
/// `16 terms in 15 sums (15 of 2), depth 15: a chain`, or `a chain of blocks: 2 of 320, 192, 168`.
std::string tree_summary(const SumTree& tree);

}  // namespace macheps
