// SPDX-License-Identifier: Apache-2.0
// Words of a command that is told to people, or written into a script.
#pragma once
#include <string>
#include <string_view>

namespace macheps {

/// As a shell reads it back.
inline std::string shell_word(const std::string& text) {
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:=@%+";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string word = "'";
    for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

}  // namespace macheps
