// SPDX-License-Identifier: Apache-2.0
// Functions that all config readers use. They check a text before it is parsed, find the place of a byte, and read
// comments for macheps. Used only in this folder.
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
/// Returns the text without its byte order mark, if it has one. Columns are counted without the mark.
std::string_view without_mark(std::string_view text);

/// Returns the place of the byte at `offset` in a text without a byte order mark.
ConfigPlace place_at(std::string_view text, std::size_t offset, const std::string& name);

/// Parses a number as Python's float() does (`1e-5`, `-.5`, `1_000`, `inf`), or as a hexadecimal integer (`0x10`).
/// Returns nothing for any other text.
std::optional<double> number_of(std::string_view text);

/// Returns the rules that are named in comments of the form `# macheps: ignore RULE...`. In these texts, a comment
/// begins with `#`.
std::vector<IgnoredRule> ignored_rules(std::string_view text, const std::string& name);

/// Sets the place of a value and of everything in it. Used for overrides, which are not in a file.
void place_all(ConfigValue& value, const ConfigPlace& place);

[[noreturn]] void too_deep(const ConfigPlace& place);
[[noreturn]] void too_many(const ConfigPlace& place);

}  // namespace macheps::files::config_text
