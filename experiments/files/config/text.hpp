// SPDX-License-Identifier: Apache-2.0
// Functions that the readers of configs share: checks of a text before it is parsed, the place of a byte, and comments
// for macheps. Used only in this folder.
#pragma once
#include "experiments/files/config/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files::config_text {

/// Throws Error (exit 3, with the place) if the text is too large or empty, is not UTF-8, or has a zero byte or a
/// second byte order mark.
void check(std::string_view text, const std::string& name);
/// Returns the text after its byte order mark, if it has one. Columns count from there.
std::string_view without_mark(std::string_view text);

/// Returns the place of the byte at `offset` in a text without a byte order mark.
ConfigPlace place_at(std::string_view text, std::size_t offset, const std::string& name);

/// Returns the number that Python's float() reads (`1e-5`, `-.5`, `1_000`, `inf`), or a hexadecimal integer (`0x10`).
/// Returns nothing for any other text.
std::optional<double> number_of(std::string_view text);

/// Returns the rules in comments `# macheps: ignore RULE...` of a text whose comments begin with `#`.
std::vector<IgnoredRule> ignored_rules(std::string_view text, const std::string& name);

/// Gives the same place to a value and to everything in it. It is for overrides, which are not in a file.
void place_all(ConfigValue& value, const ConfigPlace& place);

[[noreturn]] void too_deep(const ConfigPlace& place);
[[noreturn]] void too_many(const ConfigPlace& place);

}  // namespace macheps::files::config_text
