// SPDX-License-Identifier: Apache-2.0
// What a policy may be called: its name stands in tables, file names, comma-separated options, terminals and
// spreadsheets.
#pragma once
#include <string>
#include <string_view>

namespace macheps::policy {

/// Why a policy may not be called `name`, for a sentence: `the name is empty`. Empty where it may. Refused are commas,
/// control characters, what turns the direction of text or breaks its lines, and what a spreadsheet takes for the
/// beginning of a formula (= + - @).
std::string problem_of_policy_name(std::string_view name);

}  // namespace macheps::policy
