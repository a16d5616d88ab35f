// SPDX-License-Identifier: Apache-2.0
// In which order a library adds: FPRev (emulation/matmul/reveal.hpp) with a library's matmul as the black box. Host only.
#pragma once
#include "emulation/evidence/library/rules.hpp"
#include "emulation/matmul/reveal.hpp"

namespace macheps::evidence {

/// What a sum of this kind does to masks and units, as far as the problem tells. `is_narrow`: fp32 results with 13
/// fraction bits, as one chain of fp8 instructions has.
RevealLimits library_limits(const LibraryProblem& problem, bool is_narrow);

/// Answers by running the plan: rows of one product where b is 1 everywhere, else its diagonal.
/// Errors: throws Error (check_failed) when columns that should be alike are not.
PairSizes library_pair_sizes(LibraryPlan& plan, const LibraryProblem& problem, const RevealOperands& operands);

struct LibraryOrder {
    SumTree tree{};
    std::string no_tree{};             ///< why there is none
    std::vector<std::string> rules{};  ///< candidates that add in this order
    std::size_t candidates = 0;        ///< whose order is known
    bool has_claimed = false;          ///< the claimed rule adds in this order
};
struct RevealOptions {
    std::string claim{};  ///< the rule that the library is said to follow, if there is one
    bool fault = false;   ///< the tree is wrong on purpose
};

/// The tree, verified on other pairs.
/// Errors: throws Error (usage) when the formats' range is too small for so many terms, and what the plan throws.
LibraryOrder reveal_library_tree(LibraryPlan& plan, const LibraryProblem& problem);

/// Finds the rules that add in the order of `order.tree`.
void find_rules(LibraryOrder& order, const LibraryProblem& problem, const LibraryAlgorithm& algorithm, Backend& host,
                const std::string& claim);

/// The tree, and the rules that have the same one.
/// Errors: throws Error (usage) when the formats' range is too small for so many terms, and what the plan throws.
LibraryOrder reveal_library(LibraryPlan& plan, const LibraryProblem& problem, Backend& host,
                            const RevealOptions& options = {});

/// `256 terms in 16 sums (1 of 16, 15 of 17), depth 16: a chain; s1 = 0-15; s2 = s1 + 16-31; ...`, at most `most`
/// characters.
std::string one_line(const SumTree& tree, std::size_t most = 400);

}  // namespace macheps::evidence
