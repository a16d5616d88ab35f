// SPDX-License-Identifier: Apache-2.0
// Checks the names of policies. A name appears in tables, file names, comma-separated options, terminals and
// spreadsheets.
#pragma once
#include <string>
#include <string_view>

namespace macheps::policy {

/// Returns the reason why `name` is not a valid policy name, such as `the name is empty`. Returns an empty text if
/// `name` is valid. A name must not contain commas, control characters, or characters that change the direction of text
/// or break lines. It must not begin with = + - or @, which start a formula in a spreadsheet.
std::string problem_of_policy_name(std::string_view name);

}  // namespace macheps::policy
