// SPDX-License-Identifier: Apache-2.0
// The MatmulRules that a library's kernel may follow, and what each of them makes of some of its outputs. Host only.
#pragma once
#include "emulation/evidence/library/operands.hpp"

namespace macheps::evidence {

/// One way to compute the product, and everything that is called so.
struct LibraryCandidate {
    std::vector<std::string> names;  ///< named rules first, then the rule in words, then machines that sum alike
    MatmulRule rule{};
    bool converts = false;                   ///< operands are rounded to tf32 first, instead of cut by the instruction
    Round conversion = Round::nearest_even;  ///< how
    bool is_exchanged = false;               ///< the rule computes b^T a^T
};

/// Every rule that fits the types, the scales and the slices that the algorithm reports; other joins of the slices and
/// no slices at all are among them, since a library's word for it is no evidence. Rules that compute the same are one.
std::vector<LibraryCandidate> library_candidates(const LibraryProblem& problem, const LibraryAlgorithm& algorithm);

/// Some rows of a and columns of b, as a problem of their own.
struct LibrarySample {
    std::vector<std::int64_t> rows, columns;
    LibraryProblem problem{};
    LibraryOperands operands{};
};
LibrarySample library_sample(const LibraryProblem& problem, const LibraryOperands& operands,
                             std::vector<std::int64_t> rows, std::vector<std::int64_t> columns);

/// Ends the name of a rule whose operands are exchanged.
inline constexpr std::string_view exchanged_words = ", operands exchanged";

/// The candidate's results at rows x columns of the output.
std::vector<float> candidate_results(Backend& host, const LibraryCandidate& candidate, const LibrarySample& sample);

}  // namespace macheps::evidence
