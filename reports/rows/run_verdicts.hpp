// SPDX-License-Identifier: Apache-2.0
// The verdicts of the comparison of a policy with fp32. The table on stdout, summary.csv, JSON, pages and
// docs/columns.md all use the names in this table.
#pragma once
#include "reports/rows/joined_words.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace macheps::reports {

struct RunVerdict {
    std::string_view name;   ///< the only word for this verdict, in every output
    std::string_view tone;   ///< colour on pages and terminals: good, warn, bad or plain
    std::string_view words;  ///< condition, shown after `name: `
};

/// The verdicts. The verdict of a policy is the first whose condition is met.
inline constexpr RunVerdict run_verdicts[] = {
    {"baseline", "plain", "fp32 itself"},
    {"diverged", "bad", "a run failed (`failures` has the reason)"},
    {"no fp32 run", "plain", "no seed has an fp32 run"},
    {"one seed", "plain", "only one seed has an fp32 run"},
    {"within the margin", "good",
     "the 90 % interval of the gap lies within the margin, and the 95 % interval excludes zero"},
    {"no difference found", "good", "the 90 % interval of the gap lies within the margin"},
    {"worse", "warn", "the 95 % interval of the gap lies above zero"},
    {"undecided", "plain", "none of these"},
};

namespace verdicts {
inline constexpr std::string_view baseline = run_verdicts[0].name, diverged = run_verdicts[1].name,
                                  no_baseline = run_verdicts[2].name, one_seed = run_verdicts[3].name,
                                  within_margin = run_verdicts[4].name, no_difference = run_verdicts[5].name,
                                  worse = run_verdicts[6].name, undecided = run_verdicts[7].name;
static_assert(std::size(run_verdicts) == 8);
}  // namespace verdicts

inline constexpr char before_run_verdicts[] = "the first of these that applies. ";
/// The text of docs/columns.md for the column `verdict` of summary.csv.
inline constexpr std::string_view run_verdict_words = joined_words<run_verdicts, before_run_verdicts>;

/// Returns the tone of a verdict. The tone of an unknown name is plain.
constexpr std::string_view tone_of(std::string_view verdict) {
    const auto* row = std::find_if(std::begin(run_verdicts), std::end(run_verdicts),
                                   [&](const RunVerdict& one) { return one.name == verdict; });
    return row == std::end(run_verdicts) ? "plain" : row->tone;
}

/// Returns whether a verdict means that no gap larger than the margin is left: the 90 % interval lies within the
/// margin.
constexpr bool is_equivalent(std::string_view verdict) {
    return verdict == verdicts::no_difference || verdict == verdicts::within_margin;
}

}  // namespace macheps::reports
