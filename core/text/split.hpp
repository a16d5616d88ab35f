// SPDX-License-Identifier: Apache-2.0
// Splits texts without copies. The results are parts of the text. Host only.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps {

/// Removes the beginning of `text` up to and including the first `separator`, and returns it without the separator.
inline std::string_view take_until(std::string_view& text, char separator) {
    const std::size_t end = text.find(separator);
    if (end == std::string_view::npos) return std::exchange(text, {});
    const std::string_view part = text.substr(0, end);
    text = text.substr(end + 1);
    return part;
}

/// Returns the names of a list whose names are separated by spaces or line ends.
inline std::vector<std::string_view> listed_names(std::string_view list) {
    std::vector<std::string_view> names;
    while (!list.empty()) {
        list.remove_prefix(std::min(list.find_first_not_of(" \n"), list.size()));
        const std::size_t length = std::min(list.find_first_of(" \n"), list.size());
        if (length > 0) names.push_back(list.substr(0, length));
        list.remove_prefix(length);
    }
    return names;
}

}  // namespace macheps
