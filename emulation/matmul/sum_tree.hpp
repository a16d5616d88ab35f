// SPDX-License-Identifier: Apache-2.0
// Order of a sum as a tree: which terms and partial sums are added in which rounding. Host only.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A sum as a tree. Nodes 0 .. terms - 1 are the terms. Node terms + i is sums[i], whose children have smaller numbers.
/// A sum with more than two children adds them all in one rounding.
struct SumTree {
    int terms = 0;
    std::vector<std::vector<int>> sums{};  ///< children sorted by their smallest term; the root comes last
    std::int64_t probes = 0;               ///< number of pairs that were measured to find the tree

    bool operator==(const SumTree& other) const { return terms == other.terms && sums == other.sums; }
    /// Returns the number of terms below each node.
    std::vector<int> sizes() const;
    /// Returns how many sums there are for each number of children.
    std::map<int, int> ways() const;
    /// Returns the number of sums on the longest path from a term to the root.
    int depth() const;
    /// Returns whether every sum has at most one sum among its children.
    bool is_chain() const;
    /// Returns whether every sum has two children with equal numbers of terms. The number of terms is then a power of
    /// two.
    bool is_balanced() const;
    /// Returns the number of terms of each block if the sum is a chain of two or more blocks, and each block is a chain
    /// of neighbouring terms. Returns an empty list otherwise. A single term is not a block: it cannot be distinguished
    /// from the end of a longer block.
    std::vector<int> blocks() const;
};

// Functions that return the tree as text:
//   tree_steps      one line per sum, in the order of evaluation
//   tree_indented   one line per sum or run of terms, indented by depth, the root first
//   tree_brackets   nested brackets
//   tree_dot        a Graphviz graph
std::string tree_steps(const SumTree& tree);
/// Parses the output of tree_steps. Errors: throws Error if a line is not a sum of terms and earlier sums, or if a term
/// or sum is not used exactly once.
SumTree parse_tree_steps(int terms, std::string_view steps);
std::string tree_indented(const SumTree& tree);
std::string tree_brackets(const SumTree& tree);
std::string tree_dot(const SumTree& tree, std::string_view title);
/// Returns a summary such as `16 terms in 15 sums (15 of 2), depth 15: a chain`. It may also end in words such as
/// `a chain of blocks: 2 of 320, 192, 168`.
std::string tree_summary(const SumTree& tree);

}  // namespace macheps
