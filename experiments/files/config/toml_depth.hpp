// SPDX-License-Identifier: Apache-2.0
// Checks the nesting depth of a TOML text before the text is parsed (see core/text/nesting.hpp).
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace macheps::files {

/// Returns the first line, counted from 1, on which `toml` is nested deeper than max_levels. Returns nothing if the
/// nesting never exceeds max_levels. Each open bracket counts as one level, and so does each dot in a key. If the text
/// is not valid TOML, the depth is an estimate.
std::optional<std::size_t> toml_nested_too_deep(std::string_view toml);

}  // namespace macheps::files
