// SPDX-License-Identifier: Apache-2.0
// A verdict as people read it: no more than what these steps and seeds could have told.
#pragma once
#include "reports/findings/divergence.hpp"

#include <string>
#include <vector>

namespace macheps::reports {

/// Two significant digits: 0.030, 2.1e-07, 12; 0 is "0".
std::string two_digits(double x);
/// A gap with its sign and interval, two digits each: "+0.035 ± 0.0029"; without an interval "+0.035"; "-" where there is none.
std::string gap_words(const SummaryRow& row);

/// A verdict in a word or three, as a cell of a table: "no difference found", "one seed".
std::string verdict_words(const SummaryRow& row);

/// The verdict with what it rests on: "no difference found (2 layers x 64, 300 steps, 3 seeds; a gap of 0.0012 would have been
/// seen)". Where it could not have come out otherwise, it says so. Empty for the baseline.
std::string verdict_sentence(const PolicySummary& policy);

/// How far the forward values of the policy reached into the range of their formats: "range: largest forward value 31 of 65504
/// (fp16); an overflow would not have been seen". Empty for the baseline.
std::string range_line(const PolicySummary& policy);

/// Returns the known basis of a verdict: "2 layers x 64, 300 steps, 3 seeds", then the token weight if it is not 1, and the
/// stress.
std::string what_was_run(const PolicySummary& policy);

/// "diverges at step", where that says something: empty where no difference was found.
std::string parts_at_step(const SummaryRow& row);

/// What a reader must know before believing any verdict here: too few steps, too few seeds. A sentence each.
std::vector<std::string> warnings_of(const Summary& summary);

}  // namespace macheps::reports
