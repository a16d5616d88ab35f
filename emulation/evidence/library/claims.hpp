// SPDX-License-Identifier: Apache-2.0
// The rules that macheps claims for a library's products: the rules that policies and `macheps check --machine` offer
// for such a problem. A result that refutes its claimed rule is a difference, even if it agrees with another rule. Host
// only.
#pragma once
#include "emulation/evidence/library/rules.hpp"

namespace macheps::evidence {

/// The facts about a library that select its claims.
struct ClaimedLibrary {
    std::string architecture{};  ///< `sm_90`; for other architectures no rule is claimed
    /// Rule names refer to row-major outputs. For other libraries, the operands are exchanged.
    bool is_row_major = false;
};

/// Returns the name of the claimed rule or machine, as in LibraryCandidate::names, or an empty string if nothing is
/// claimed.
std::string claimed_rule(const LibraryProblem& problem, const LibraryAlgorithm& algorithm,
                         const ClaimedLibrary& library);

/// Returns whether the candidate is the claimed rule. The name of a machine claims one chain of this machine over all
/// of k.
bool is_claimed(const LibraryCandidate& candidate, std::string_view claim);

}  // namespace macheps::evidence
