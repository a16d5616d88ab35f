// SPDX-License-Identifier: Apache-2.0
// The rules that macheps claims for a library's products: those that policies and `macheps check --machine` offer for such a
// problem. A result that refutes one is a difference, whichever other rule it agrees with. Host only.
#pragma once
#include "emulation/evidence/library/rules.hpp"

namespace macheps::evidence {

/// The facts about a library that select its claims.
struct ClaimedLibrary {
    std::string architecture{};  ///< `sm_90`: rules are claimed for no other
    /// Rules are named for outputs that lie by rows. For other libraries the operands are exchanged.
    bool is_row_major = false;
};

/// Returns the name of the claimed rule or machine, as LibraryCandidate::names has it; empty if nothing is claimed.
std::string claimed_rule(const LibraryProblem& problem, const LibraryAlgorithm& algorithm,
                         const ClaimedLibrary& library);

/// Returns whether the candidate is the claimed rule. A machine's name claims one chain of it over all of k.
bool is_claimed(const LibraryCandidate& candidate, std::string_view claim);

}  // namespace macheps::evidence
