// SPDX-License-Identifier: Apache-2.0
// Writes a setting into the text of a config. Everything else in the text, such as comments and layout, is kept.
#pragma once
#include "experiments/files/config/value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps::files {

/// Returns the text of a config with the value at a dotted path replaced, or with the key added to its map. `value` is
/// written as an override has it: `true`, `1e-6`, `bf16`, `"NO"`. `file` is what read_config_text() returned for `text`.
/// Returns nothing if the setting cannot be written, for example into a command, or if the value is a list or a map.
/// The new text is read again: apart from the setting, it means the same as before.
std::optional<std::string> with_setting(std::string_view text, const ConfigFile& file, std::string_view path,
                                        std::string_view value);

/// Returns whether two values are equal, apart from their places and quotes.
bool means_the_same(const ConfigValue& a, const ConfigValue& b);

}  // namespace macheps::files
