// SPDX-License-Identifier: Apache-2.0
// Removes the colour codes that programs write for terminals. Host only.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace macheps {

/// Returns the text without control sequences of terminals such as colour codes: ESC [, parameters, and one final
/// character. Source: ECMA-48 5.4.
inline std::string without_colour_codes(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i, 2) != "\x1b[") {
            out += text[i];
            continue;
        }
        const auto is_between = [&](std::size_t at, char first, char last) {
            return at < text.size() && text[at] >= first && text[at] <= last;
        };
        i += 2;
        while (is_between(i, ' ', '?')) ++i;
        if (!is_between(i, '@', '~')) --i;  // a sequence without an end; the character is kept
    }
    return out;
}

}  // namespace macheps
