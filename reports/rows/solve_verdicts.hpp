// SPDX-License-Identifier: Apache-2.0
// The verdicts of `macheps solve`: one row for each way in which the solution of a system can end. The solver, the
// help, docs/columns.md and the map of verdicts in the HTML report use this table.
#pragma once
#include "reports/rows/joined_words.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace macheps::reports {

/// The outcome of the solution of a system. Only `converged` is a success. If the solution fails in several steps, the
/// verdict names the first of them: the cast to the factor's format, then the factorisation, then the refinement.
enum class SolveVerdict : std::uint8_t {
    converged,
    unrefined,
    stagnated,
    no_reference,
    diverged,
    nonfinite,
    indefinite,
    zero_pivot,
    singular,
    factor_overflow,
    cast_underflow,
    cast_overflow,
};

struct SolveVerdictRow {
    SolveVerdict verdict;
    std::string_view name;
    std::string_view letter;  ///< in the report's map; a converged system shows its number of steps instead
    std::string_view tone;    ///< colour in that map: good, warn, bad, or plain if no refinement was possible
    std::string_view words;   ///< explanation, shown after `name: `
};

/// The verdicts from best to worst, in the order of the enumeration.
inline constexpr SolveVerdictRow solve_verdicts[] = {
    {SolveVerdict::converged, "converged", "", "good", "x passes the test of --stop; this is the only success"},
    {SolveVerdict::unrefined, "unrefined", "u", "warn",
     "x does not pass the test of --stop, and no refinement step was taken"},
    {SolveVerdict::stagnated, "stagnated", "s", "warn", "x does not pass the test of --stop after the last step"},
    {SolveVerdict::no_reference, "no_reference", "r", "warn",
     "--stop oracle needs a reference solution, and none was proven for this system"},
    {SolveVerdict::diverged, "diverged", "d", "bad",
     "x does not pass the test of --stop after the last step, and the forward error is at least 1/2 or the residual "
     "has grown since step 0"},
    {SolveVerdict::nonfinite, "nonfinite", "n", "bad",
     "x, a residual or a correction is Inf or NaN although the factors are finite"},
    {SolveVerdict::indefinite, "indefinite", "i", "plain",
     "Cholesky found a negative pivot, or a zero pivot with a nonzero element below it: the rounded matrix is not "
     "positive "
     "definite"},
    {SolveVerdict::zero_pivot, "zero_pivot", "p", "plain", "LU without pivoting found a zero on the diagonal"},
    {SolveVerdict::singular, "singular", "z", "plain",
     "all candidates for a pivot are zero: the matrix is singular in the factor's format"},
    {SolveVerdict::factor_overflow, "factor_overflow", "f", "plain",
     "the rounded matrix is finite but its factors are not"},
    {SolveVerdict::cast_underflow, "cast_underflow", "v", "plain",
     "the cast to the factor's format made a whole row or column zero"},
    {SolveVerdict::cast_overflow, "cast_overflow", "o", "plain",
     "an element was beyond the range of the factor's format: it became Inf or NaN, or it was clipped and x did not "
     "converge"},
};

constexpr const SolveVerdictRow& row_of(SolveVerdict verdict) {
    return solve_verdicts[static_cast<std::size_t>(verdict)];
}
constexpr std::string_view to_string(SolveVerdict verdict) { return row_of(verdict).name; }

static_assert([] {
    for (std::size_t i = 0; i < std::size(solve_verdicts); ++i) {
        if (static_cast<std::size_t>(solve_verdicts[i].verdict) != i) return false;
    }
    return true;
}());

/// The text of docs/columns.md for the column `verdict`.
inline constexpr std::string_view solve_verdict_words = joined_words<solve_verdicts>;

}  // namespace macheps::reports
