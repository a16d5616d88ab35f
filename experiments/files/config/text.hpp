// SPDX-License-Identifier: Apache-2.0
// What the readers of configs share: what a text must be before anyone parses it, where a byte of it stands, and comments that
// are meant for us. For the files of this folder.
#pragma once
#include "experiments/files/config/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files::config_text {

/// Throws Error (exit 3, with the place) for what is too large, empty, no text, or no UTF-8.
void check(std::string_view text, const std::string& name);
/// The text behind its byte order mark, if it has one. Columns count from there.
std::string_view without_mark(std::string_view text);

/// Where the byte at `offset` stands, in a text without a byte order mark.
ConfigPlace place_at(std::string_view text, std::size_t offset, const std::string& name);

/// A number as Python's float() and int() read it: `1e-5`, `-.5`, `1_000`, `inf`, and `0x10`; nothing for any other text.
std::optional<double> number_of(std::string_view text);

/// The comments `# macheps: ignore RULE...` of a text whose comments begin with `#`.
std::vector<IgnoredRule> ignored_rules(std::string_view text, const std::string& name);

/// Gives a value and all in it the same place: those of an override stand in no file.
void place_all(ConfigValue& value, const ConfigPlace& place);

[[noreturn]] void too_deep(const ConfigPlace& place);
[[noreturn]] void too_many(const ConfigPlace& place);

}  // namespace macheps::files::config_text
