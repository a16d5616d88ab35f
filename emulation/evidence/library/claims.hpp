// SPDX-License-Identifier: Apache-2.0
// The rules that macheps claims for the products of a library. They are the rules that policies and `macheps check
// --machine` offer for the same problem. If a result does not follow its claimed rule, the verdict is `differs`, even
// if the result agrees with another rule. Host only.
#pragma once
#include "emulation/evidence/library/rules.hpp"

namespace macheps::evidence {

/// Properties of a library that determine which rules are claimed for it.
struct ClaimedLibrary {
    std::string architecture{};  ///< `sm_90`; for other architectures no rule is claimed
    /// Whether outputs are row-major, as the names of rules assume. If they are column-major, the claimed rule is the
    /// one with exchanged operands.
    bool is_row_major = false;
};

/// Returns the name of the claimed rule or machine, as in LibraryCandidate::names, or an empty string if nothing is
/// claimed.
std::string claimed_rule(const LibraryProblem& problem, const LibraryAlgorithm& algorithm,
                         const ClaimedLibrary& library);

/// Returns whether the candidate is the claimed rule. If `claim` is the name of a machine, the claimed rule is one
/// chain of this machine over all of k.
bool is_claimed(const LibraryCandidate& candidate, std::string_view claim);

}  // namespace macheps::evidence
