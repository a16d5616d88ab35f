// SPDX-License-Identifier: Apache-2.0
// Finds the MatmulRules that reproduce the results of a library. Each candidate is evaluated on the host and compared
// bit by bit. Host only.
#pragma once
#include "emulation/evidence/library/rules.hpp"

namespace macheps::evidence {

struct MatchOptions {
    std::uint64_t seed = 1;
    bool fault = false;                                ///< every candidate is deliberately wrong in one element
    std::int64_t products = 1 << 22;                   ///< approximate number of products that are computed per class
    std::size_t classes = std::size(library_classes);  ///< number of classes of finite operands to use
    std::string claim{};                               ///< the claimed rule, if there is one
};

/// Findings about a plan.
struct LibraryFinding {
    std::vector<LibraryCandidate> equal{};  ///< candidates that agree on all finite operands
    std::vector<LibraryCandidate> equal_with_specials{};
    std::size_t candidates = 0;  ///< candidates that were tried
    std::uint64_t trials = 0;    ///< outputs that were compared with all candidates that agree, or with the closest one
    std::uint64_t special_trials = 0;
    bool varies = false;                 ///< a second run returned other bits
    std::string closest{};               ///< if none agrees: the candidate with the smallest share of differing outputs
    std::uint64_t mismatches = 0;        ///< mismatches of the closest candidate
    std::string difference{};            ///< first difference of the closest candidate
    std::string special_difference{};    ///< first difference on special values (of the claimed rule if `has_claimed`)
    bool has_claimed = false;            ///< the claimed rule is in `equal`
    std::uint64_t claim_mismatches = 0;  ///< mismatches of the claimed rule if it is not in `equal`
    std::string claim_difference{};      ///< the first of these mismatches, as text
};

LibraryFinding match_library(LibraryPlan& plan, const LibraryProblem& problem, Backend& host,
                             const MatchOptions& options);

}  // namespace macheps::evidence
