// SPDX-License-Identifier: Apache-2.0
// The order in which a library adds: FPRev (emulation/matmul/reveal.hpp) with a library's matmul as the black box. Host
// only.
#pragma once
#include "emulation/evidence/library/rules.hpp"
#include "emulation/matmul/reveal.hpp"

namespace macheps::evidence {

/// Returns the limits of masks and units that follow from the problem. `is_narrow`: fp32 results have only 13 fraction
/// bits, as in one chain of fp8 instructions.
RevealLimits library_limits(const LibraryProblem& problem, bool is_narrow);

/// Returns a function that finds the sizes of sums by running the plan. If b is 1 everywhere, it uses the rows of one
/// product, otherwise its diagonal. Errors: the function throws Error (check_failed) if columns that should be the same
/// are not.
PairSizes library_pair_sizes(LibraryPlan& plan, const LibraryProblem& problem, const RevealOperands& operands);

struct LibraryOrder {
    SumTree tree{};
    std::string no_tree{};             ///< why there is no tree
    std::vector<std::string> rules{};  ///< candidates that add in this order
    std::size_t candidates = 0;        ///< number of candidates with a known order
    bool has_claimed = false;          ///< the claimed rule adds in this order
};
struct RevealOptions {
    std::string claim{};  ///< the claimed rule, if there is one
    bool fault = false;   ///< the tree is deliberately wrong
};

/// Reveals the tree and verifies it on other pairs.
/// Errors: throws Error (usage) if the range of the formats is too small for the number of terms, and all errors of the
/// plan.
LibraryOrder reveal_library_tree(LibraryPlan& plan, const LibraryProblem& problem);

/// Finds the rules that add in the order of `order.tree`.
void find_rules(LibraryOrder& order, const LibraryProblem& problem, const LibraryAlgorithm& algorithm, Backend& host,
                const std::string& claim);

/// Reveals the tree and finds the rules that have the same one.
/// Errors: as reveal_library_tree.
LibraryOrder reveal_library(LibraryPlan& plan, const LibraryProblem& problem, Backend& host,
                            const RevealOptions& options = {});

/// Returns the tree in one line of about `most` characters or less: `256 terms in 16 sums (1 of 16, 15 of 17), depth
/// 16: a chain; s1 = 0-15; s2 = s1 + 16-31; ...`
std::string one_line(const SumTree& tree, std::size_t most = 400);

}  // namespace macheps::evidence
