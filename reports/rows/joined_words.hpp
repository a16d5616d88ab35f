// SPDX-License-Identifier: Apache-2.0
// Joins the names and explanations of a table's rows into one constant text for docs/columns.md.
#pragma once
#include <cstddef>
#include <string_view>

namespace macheps::reports {

namespace detail {

inline constexpr char nothing[] = "";

template <const auto& rows, const auto& before>
inline constexpr std::size_t joined_size = [] {
    std::size_t size = std::string_view(before).size();
    for (const auto& row : rows) size += row.name.size() + row.words.size() + 6;
    return size - 2;
}();

template <const auto& rows, const auto& before>
struct Joined {
    char text[joined_size<rows, before>] = {};
    constexpr Joined() {
        std::size_t at = 0;
        const auto put = [&](std::string_view part) {
            for (const char c : part) text[at++] = c;
        };
        put(before);
        for (const auto& row : rows) {
            if (&row != &rows[0]) put("; ");
            put("`");
            put(row.name);
            put("`: ");
            put(row.words);
        }
    }
};
template <const auto& rows, const auto& before>
inline constexpr Joined<rows, before> joined{};

}  // namespace detail

/// The text "`name`: words; `name`: words" of an array of rows, after the text `before`. It is built at compile time,
/// because the tables of columns are constants.
template <const auto& rows, const auto& before = detail::nothing>
inline constexpr std::string_view joined_words{detail::joined<rows, before>.text, detail::joined_size<rows, before>};

}  // namespace macheps::reports
