// SPDX-License-Identifier: Apache-2.0
// Finds the order in which a library adds. FPRev (emulation/matmul/reveal.hpp) uses the matmul of the library as a
// black box. Host only.
#pragma once
#include "emulation/evidence/library/rules.hpp"
#include "emulation/matmul/reveal.hpp"

namespace macheps::evidence {

/// Returns the limits on FPRev's masks and units for a problem. `is_narrow` means that fp32 results have only 13
/// fraction bits, which is the case for one chain of fp8 instructions.
RevealLimits library_limits(const LibraryProblem& problem, bool is_narrow);

/// Returns a function that runs the plan to find, for pairs of terms, the size of the partial sum in which the two
/// terms meet. If b is 1 everywhere, each row of a product measures one pair of terms. Otherwise, each element of the
/// diagonal measures one pair. Errors: if b is 1 everywhere and two columns of a row differ, the function throws Error
/// (check_failed).
PairSizes library_pair_sizes(LibraryPlan& plan, const LibraryProblem& problem, const RevealOperands& operands);

struct LibraryOrder {
    SumTree tree{};
    std::string no_tree{};             ///< the reason why no tree was found, or empty
    std::vector<std::string> rules{};  ///< names of the candidates that add in this order
    std::size_t candidates = 0;        ///< number of candidates whose order could be found
    bool has_claimed = false;          ///< the claimed rule adds in this order
};
struct RevealOptions {
    std::string claim{};  ///< the claimed rule, if there is one
    bool fault = false;   ///< the tree is deliberately wrong
};

/// Finds the tree of a library's sum, and verifies it on other pairs of terms.
/// Errors: throws Error (usage) if the range of the formats is too small for the number of terms. Passes on all errors
/// of the plan.
LibraryOrder reveal_library_tree(LibraryPlan& plan, const LibraryProblem& problem);

/// Finds the rules that add in the order of `order.tree`, and records them in `order`.
void find_rules(LibraryOrder& order, const LibraryProblem& problem, const LibraryAlgorithm& algorithm, Backend& host,
                const std::string& claim);

/// Finds the tree of a library's sum, and the rules that have the same tree.
/// Errors: the same as those of reveal_library_tree().
LibraryOrder reveal_library(LibraryPlan& plan, const LibraryProblem& problem, Backend& host,
                            const RevealOptions& options = {});

/// Returns the tree as one line of at most about `most` characters: `256 terms in 16 sums (1 of 16, 15 of 17), depth
/// 16: a chain; s1 = 0-15; s2 = s1 + 16-31; ...`
std::string one_line(const SumTree& tree, std::size_t most = 400);

}  // namespace macheps::evidence
