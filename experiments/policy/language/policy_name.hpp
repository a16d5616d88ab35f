// SPDX-License-Identifier: Apache-2.0
// Valid names of policies. The name appears in tables, file names, comma-separated options, terminals and spreadsheets.
#pragma once
#include <string>
#include <string_view>

namespace macheps::policy {

/// Returns why `name` is not a valid policy name, as a part of a sentence (`the name is empty`), or an empty text if it
/// is valid. A name must not contain commas, control characters, or characters that change the direction of text or
/// break lines. It must not begin with = + - or @, which start a formula in a spreadsheet.
std::string problem_of_policy_name(std::string_view name);

}  // namespace macheps::policy
