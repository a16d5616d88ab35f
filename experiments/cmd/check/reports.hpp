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

/// Returns a JUnit document with a test case for each input. The outcome `fail` becomes a failure, and so does `weak`
/// unless weak checks are allowed. All other outcomes except `pass` become errors.
std::string check_junit(std::span<const check::Checked> checks);

/// Returns a SARIF document with a result for each input and each of its reason codes. The fingerprint of a result is
/// made from the check's name, the code, the level and the declaration.
Json check_sarif(std::span<const check::Checked> checks);

/// Returns annotations for GitHub: one workflow command for each input that has messages, up to the ten most severe
/// ones.
std::string check_annotations(std::span<const check::Checked> checks);

/// Returns a table in Markdown for the summary page of a job.
std::string check_summary(std::span<const check::Checked> checks);

}  // namespace macheps::cmd::checks
