// SPDX-License-Identifier: Apache-2.0
// Reports of `macheps check` on judged inputs, for people and CI servers: text, JUnit, SARIF, annotations, a table.
#pragma once
#include "core/text/json.hpp"
#include "experiments/check/checked.hpp"

#include <span>
#include <string>

namespace macheps::cmd::checks {

/// Returns a line for each input, followed by the reasons and notes of those that did not pass or have notes.
std::string check_suite_text(std::span<const check::Checked> checks);

/// Returns a test case for each input. fail is a failure, and so is weak unless it is allowed. All other outcomes
/// except pass are errors.
std::string check_junit(std::span<const check::Checked> checks);

/// Returns a result for each code of each input. Its fingerprint is made from the check's name, the code, the level and
/// the declaration.
Json check_sarif(std::span<const check::Checked> checks);

/// Returns one workflow command for each input with messages, up to the ten most severe ones.
std::string check_annotations(std::span<const check::Checked> checks);

/// Returns a table in Markdown for the summary page of a job.
std::string check_summary(std::span<const check::Checked> checks);

}  // namespace macheps::cmd::checks
