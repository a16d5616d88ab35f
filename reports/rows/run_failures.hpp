// SPDX-License-Identifier: Apache-2.0
// The reasons why a run counts as failed. A policy with a failed run has the verdict `diverged`. Sentences, summary.csv
// and docs/columns.md all use this table.
#pragma once
#include "reports/rows/joined_words.hpp"

#include <iterator>
#include <string_view>

namespace macheps::reports {

struct RunFailure {
    std::string_view name;    ///< in the column `failures` of summary.csv
    std::string_view clause;  ///< what happened, after "diverged in 1 of 3 seeds: "
    std::string_view words;   ///< condition, shown after `name: `
};

/// The reasons. If several apply to a run, the earliest counts.
inline constexpr RunFailure run_failures[] = {
    {"error", "training ended with an error", "the status of the run is `failed`"},
    {"loss_not_finite", "the loss became NaN or infinite",
     "the loss was NaN or infinite in a step that was not skipped"},
    {"loss_rose", "the smoothed loss stayed more than 1 nat above its minimum for 50 steps",
     "the moving average of the loss (decay 0.9) was more than 1 nat above its minimum for 50 consecutive steps"},
    {"end_not_finite", "the loss was NaN or infinite in all of the last steps, which were skipped",
     "none of the last W losses is finite"},
    {"ended_above_start", "the loss ended above that of the first step",
     "the run has 40 steps or more, and the mean loss of the last W steps is above the loss of the first step"},
};

namespace failures {
inline constexpr const RunFailure &error = run_failures[0], &loss_not_finite = run_failures[1],
                                  &loss_rose = run_failures[2], &end_not_finite = run_failures[3],
                                  &ended_above_start = run_failures[4];
static_assert(std::size(run_failures) == 5);
}  // namespace failures

inline constexpr char before_run_failures[] =
    "why runs failed, as `reason:runs` or `reason:runs:step` with the earliest step, joined by `;`; empty if no run "
    "failed. If several reasons apply to a run, the earliest counts. W is that of `loss`. ";
/// The text of docs/columns.md for the column `failures` of summary.csv.
inline constexpr std::string_view run_failure_words = joined_words<run_failures, before_run_failures>;

}  // namespace macheps::reports
