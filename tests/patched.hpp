// SPDX-License-Identifier: Apache-2.0
// Applies patches in the unified format. Shares no code with unified_diff().
#pragma once
#include "tests/test.hpp"

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::test {

inline std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    std::string line;
    for (const char c : text) {
        line += c;
        if (c != '\n') continue;
        lines.push_back(line);
        line.clear();
    }
    if (!line.empty()) lines.push_back(line);
    return lines;
}

/// Applies a patch strictly: every line of context and every removed line must be where the headers say.
inline std::string patched(const std::string& text, const std::string& patch) {
    const std::vector<std::string> old = lines_of(text), lines = lines_of(patch);
    REQUIRE(lines.size() > 3);
    CHECK(lines[0].starts_with("--- "));
    CHECK(lines[1].starts_with("+++ "));
    std::string result;
    std::size_t next = 0;  // of `old`
    for (std::size_t i = 2; i < lines.size(); ++i) {
        std::string line = lines[i];
        if (line.starts_with("@@ -")) {
            std::size_t first = 0;
            const char* end = line.data() + line.size();
            const char* rest = std::from_chars(line.data() + 4, end, first).ptr;
            const bool is_empty = std::string_view(rest, end).starts_with(",0");
            const std::size_t start = is_empty ? first : first - 1;
            REQUIRE(start >= next);
            while (next < start) result += old[next++];
            continue;
        }
        if (i + 1 < lines.size() && lines[i + 1].starts_with("\\")) {
            line.pop_back();
            ++i;
        }
        if (line.front() != '+') {
            REQUIRE(next < old.size());
            CHECK(line.substr(1) == old[next]);
            ++next;
        }
        if (line.front() != '-') result += line.substr(1);
    }
    while (next < old.size()) result += old[next++];
    return result;
}

}  // namespace macheps::test
