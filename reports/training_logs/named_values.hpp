// SPDX-License-Identifier: Apache-2.0
// Reads a flat map as programs print it: a JSON object, or a Python dictionary with single quotes and `nan`.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::reports {

using NamedValues = std::vector<std::pair<std::string_view, std::string_view>>;

/// Reads the map at the front of `text`, which begins with `{`, and removes it from `text`. A value that is a list or a
/// map is one text. Quotes around names and texts are removed; escapes inside them are not replaced. Returns nothing if
/// the map is not complete or has another form.
std::optional<NamedValues> take_named_values(std::string_view& text);

}  // namespace macheps::reports
