// SPDX-License-Identifier: Apache-2.0
// Findings about parts of a config that macheps does not emulate. Each such finding has a short statement
// (Finding::not_emulated), which the verdict of `macheps train --config` and the manifest of the run repeat.
#pragma once
#include "experiments/configs/finding_row.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::configs {

/// Returns a finding whose message is also its statement.
FindingText not_emulated(std::string statement);
/// Returns the finding that flags are on which the policy does not express, or nothing if none of them is on. `mark` is
/// written before each key: "--" for options of a command line.
std::optional<FindingText> flags_not_emulated(const ImportContext& context,
                                              std::initializer_list<std::string_view> keys, std::string_view mark = {});
/// Returns the finding about torch.compile.
FindingText compilation_not_emulated(std::string instead = {});
/// Returns the finding about an attention kernel (`flash_attention_2`) that does not store scores and probabilities.
/// Returns nothing for `eager`, for `disabled`, and for an empty name: macheps computes attention as these do.
std::optional<FindingText> attention_not_emulated(std::string_view kernel);

}  // namespace macheps::configs
