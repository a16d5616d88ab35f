// SPDX-License-Identifier: Apache-2.0
// How deep a TOML text nests, measured before it becomes a tree (see core/text/nesting.hpp).
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace macheps::files {

/// The 1-based line of `toml` on which it nests beyond most_levels: every bracket is a level, and every dot of a key.
/// Nothing where it does not. What is no TOML is measured as well as may be.
std::optional<std::size_t> toml_nested_too_deep(std::string_view toml);

}  // namespace macheps::files
