// SPDX-License-Identifier: Apache-2.0
// How Accelerate completes a DeepSpeed config. Importers of frameworks that run DeepSpeed by means of Accelerate also
// use these functions.
#pragma once
#include "experiments/configs/finding_row.hpp"

#include <optional>
#include <string_view>

namespace macheps::configs {

/// Sets the value at `path` to `written` if it is "auto". If the key is missing, sets it only if `makes_key` is true.
void fill_section(files::ConfigValue& section, std::string_view path, std::string_view written, bool makes_key);

/// Enables fp16 or bf16 in a DeepSpeed config that does not have the section, as DeepSpeedPlugin.set_mixed_precision
/// does. `precision` is no, fp16 or bf16. An empty config stands for a file that could not be read, and stays empty.
void add_precision_section(files::ConfigValue& section, std::string_view precision);

/// Returns the finding about a `max_grad_norm` at the root of the config that has no effect, because the engine clips
/// and the section does not get this value.
std::optional<FindingText> clipping_unread(const ImportContext& context);

}  // namespace macheps::configs
