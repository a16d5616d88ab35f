// SPDX-License-Identifier: Apache-2.0
// Which MatmulRules a library's results agree with: candidates, each evaluated on the host and compared by bits.
// Host only.
#pragma once
#include "emulation/evidence/library/rules.hpp"

namespace macheps::evidence {

struct MatchOptions {
    std::uint64_t seed = 1;
    bool fault = false;                                ///< every candidate is wrong on purpose in one element
    std::int64_t products = 1 << 22;                   ///< of a class and candidate that still agrees, about
    std::size_t classes = std::size(library_classes);  ///< of finite operands, the first ones
    std::string claim{};                               ///< the rule that the library is said to follow, if there is one
};

/// What was found out about a plan.
struct LibraryFinding {
    std::vector<LibraryCandidate> equal{};  ///< candidates that agree on all finite operands
    std::vector<LibraryCandidate> equal_with_specials{};
    std::size_t candidates = 0;  ///< that were tried
    std::uint64_t trials = 0;    ///< outputs compared with the candidates that agree, or with the closest
    std::uint64_t special_trials = 0;
    bool varies = false;                 ///< a second run gave other bits
    std::string closest{};               ///< where none agrees: the one with the least share of differences
    std::uint64_t mismatches = 0;        ///< of the closest
    std::string difference{};            ///< the first one of the closest
    std::string special_difference{};    ///< of the claimed candidate in `equal`, else of the first one
    bool has_claimed = false;            ///< the claimed rule is in `equal`
    std::uint64_t claim_mismatches = 0;  ///< of a claimed rule that is not
    std::string claim_difference{};      ///< the first one; empty if no candidate is the claimed rule
};

LibraryFinding match_library(LibraryPlan& plan, const LibraryProblem& problem, Backend& host,
                             const MatchOptions& options);

}  // namespace macheps::evidence
