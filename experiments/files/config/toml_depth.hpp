// SPDX-License-Identifier: Apache-2.0
// Nesting depth of a TOML text, measured before it becomes a tree (see core/text/nesting.hpp).
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace macheps::files {

/// Returns the 1-based line on which `toml` nests deeper than max_levels, or nothing if it does not. Every bracket is
/// a level, and every dot of a key. For a text that is not TOML, the depth is an estimate.
std::optional<std::size_t> toml_nested_too_deep(std::string_view toml);

}  // namespace macheps::files
