// SPDX-License-Identifier: Apache-2.0
// Describes verdicts in words. The texts claim no more than the steps and seeds of the runs support.
#pragma once
#include "reports/findings/divergence.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// Formats a number with two significant digits: 0.030, 2.1e-07, 12. Zero is "0".
std::string two_digits(double x);
/// Formats a gap with its sign and interval, two digits each: "+0.035 ± 0.0029", or "+0.035" without an interval, or
/// "-" without a gap.
std::string gap_words(const SummaryRow& row);

/// Returns the verdict and the runs that it is based on: "no difference found (2 layers x 64, 300 steps, 3 seeds;
/// smallest detectable gap 0.0012)". If the runs limited the possible verdicts (see Forced), the reason follows. If the
/// policy does not emulate a part of its config, the sentence ends with that part. Empty for the baseline.
std::string verdict_sentence(const PolicySummary& policy);

/// Describes how far the forward values of the policy reached into the range of their formats: "range: largest forward
/// value 31 of 65504 (fp16); this cannot rule out an overflow in a pretrained model". Empty for the baseline.
std::string range_line(const PolicySummary& policy);

/// Describes the runs that a verdict is based on: "2 layers x 64, 300 steps, 3 seeds", then the token weight if it is
/// not 1, and the stress (`train --stress`) if there was one. Unknown facts are left out.
std::string what_was_run(const PolicySummary& policy);

/// Returns whether a run of the policy failed.
bool has_failed_runs(const SummaryRow& row);

/// Returns a sentence that defines when a run counts as diverged. `window` is the number of averaged steps in words.
std::string diverged_note(std::string_view window);

/// Returns a cell of the table's column "parts at step", the step at which the loss departs from that of fp32. The cell
/// contains SummaryRow::diverged_step, or nothing if is_equivalent(verdict).
std::string parts_at_step(const SummaryRow& row);

/// Returns a sentence for each reason to doubt the verdicts: few steps, few seeds, and policies that differ
/// from fp32 in more than precision. No sentence occurs twice.
std::vector<std::string> warnings_of(const Summary& summary);
std::vector<std::string> warnings_of(std::span<const PolicySummary* const> policies);

/// Returns the reason that limited the verdict of a row, or null.
const Forced* forced_of(const SummaryRow& row);

}  // namespace macheps::reports
