// SPDX-License-Identifier: Apache-2.0
// What `macheps check` tells people and CI servers of judged inputs: text, JUnit, SARIF, annotations, a table.
#pragma once
#include "core/text/json.hpp"
#include "experiments/check/checked.hpp"

#include <span>
#include <string>

namespace macheps::cmd::checks {

/// A line for each input, then what there is to say of those that did not pass.
std::string check_suite_text(std::span<const check::Checked> checks);

/// A test case for each input: fail and weak are failures, what was not judged is an error.
std::string check_junit(std::span<const check::Checked> checks);

/// A result for each code of each input. Its fingerprint is the check's name, the code and the declaration.
Json check_sarif(std::span<const check::Checked> checks);

/// The same as workflow commands, the gravest ten.
std::string check_annotations(std::span<const check::Checked> checks);

/// A table in Markdown, for the page of a job.
std::string check_summary(std::span<const check::Checked> checks);

}  // namespace macheps::cmd::checks
