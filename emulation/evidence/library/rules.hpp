// SPDX-License-Identifier: Apache-2.0
// Lists the MatmulRules that a library's kernel may follow, and computes their results for some of its outputs. Host
// only.
#pragma once
#include "emulation/evidence/library/operands.hpp"

namespace macheps::evidence {

/// One way in which a library may compute a product, and all rules and machines that describe it.
struct LibraryCandidate {
    std::vector<std::string> names;  ///< named rules, then the rule in words and other machines with the same sums
    MatmulRule rule{};
    bool converts = false;                   ///< operands are rounded to tf32 first; if not, the instruction cuts them
    Round conversion = Round::nearest_even;  ///< rounding mode if `converts` is true
    bool is_exchanged = false;               ///< the rule computes b^T a^T
};

/// Returns every rule that fits the types and scales of the problem and the number of slices that `algorithm` reports.
/// The list also contains rules that join the slices in other ways, and rules without slices, because a library's
/// report is not evidence. Rules that compute the same sums form one candidate.
std::vector<LibraryCandidate> library_candidates(const LibraryProblem& problem, const LibraryAlgorithm& algorithm);

/// A sample of a product: some rows of a and some columns of b, as a smaller problem.
struct LibrarySample {
    std::vector<std::int64_t> rows, columns;
    LibraryProblem problem{};
    LibraryOperands operands{};
};
LibrarySample library_sample(const LibraryProblem& problem, const LibraryOperands& operands,
                             std::vector<std::int64_t> rows, std::vector<std::int64_t> columns);

/// Suffix of the name of a rule whose operands are exchanged.
inline constexpr std::string_view exchanged_words = ", operands exchanged";

/// Computes the candidate's results for the rows and columns of the sample on `host`.
std::vector<float> candidate_results(Backend& host, const LibraryCandidate& candidate, const LibrarySample& sample);

}  // namespace macheps::evidence
