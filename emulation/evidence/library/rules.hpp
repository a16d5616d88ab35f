// SPDX-License-Identifier: Apache-2.0
// The MatmulRules that a library's kernel may follow, and their results at some of its outputs. Host only.
#pragma once
#include "emulation/evidence/library/operands.hpp"

namespace macheps::evidence {

/// One way to compute the product, and all its names.
struct LibraryCandidate {
    std::vector<std::string> names;  ///< named rules first, then the rule in words, then machines that sum alike
    MatmulRule rule{};
    bool converts = false;                   ///< operands are rounded to tf32 first, instead of cut by the instruction
    Round conversion = Round::nearest_even;  ///< rounding of this conversion
    bool is_exchanged = false;               ///< the rule computes b^T a^T
};

/// Returns every rule that fits the types, the scales and the number of slices that the algorithm reports. Other joins
/// of the slices and sums without slices are included, since the library's report is not evidence. Rules that compute
/// the same sums are one candidate.
std::vector<LibraryCandidate> library_candidates(const LibraryProblem& problem, const LibraryAlgorithm& algorithm);

/// Some rows of a and columns of b, as a separate problem.
struct LibrarySample {
    std::vector<std::int64_t> rows, columns;
    LibraryProblem problem{};
    LibraryOperands operands{};
};
LibrarySample library_sample(const LibraryProblem& problem, const LibraryOperands& operands,
                             std::vector<std::int64_t> rows, std::vector<std::int64_t> columns);

/// Suffix of the name of a rule whose operands are exchanged.
inline constexpr std::string_view exchanged_words = ", operands exchanged";

/// Returns the candidate's results at rows x columns of the output.
std::vector<float> candidate_results(Backend& host, const LibraryCandidate& candidate, const LibrarySample& sample);

}  // namespace macheps::evidence
