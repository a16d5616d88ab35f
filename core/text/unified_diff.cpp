// SPDX-License-Identifier: Apache-2.0
// The shortest script of removed and added lines is found with the algorithm of E. W. Myers, "An O(ND) Difference
// Algorithm and Its Variations", Algorithmica 1 (1986).
#include "core/text/unified_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace macheps {

namespace {

using Lines = std::vector<std::string_view>;

/// Returns the lines of a text, each with its line end.
Lines lines_of(std::string_view text) {
    Lines lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        lines.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
    return lines;
}

/// One line of both texts (' '), only of the old text ('-'), or only of the new text ('+').
struct Line {
    char kind;
    std::string_view text;
};

/// Returns all lines of both texts in the order of a patch.
std::vector<Line> script_of(const Lines& a, const Lines& b) {
    const auto n = static_cast<std::ptrdiff_t>(a.size()), m = static_cast<std::ptrdiff_t>(b.size());
    const std::ptrdiff_t most = n + m;
    // furthest[k + most] is the largest x of a path that ends on the diagonal x - y = k.
    std::vector<std::ptrdiff_t> furthest(static_cast<std::size_t>(2 * most + 2), 0);
    std::vector<std::vector<std::ptrdiff_t>> rounds;
    const auto at = [&](auto& row, std::ptrdiff_t k) -> auto& { return row[static_cast<std::size_t>(k + most)]; };
    const auto comes_from_above = [&](const auto& row, std::ptrdiff_t k, std::ptrdiff_t d) {
        return k == -d || (k != d && at(row, k - 1) < at(row, k + 1));
    };
    bool is_done = false;
    for (std::ptrdiff_t d = 0; d <= most && !is_done; ++d) {
        rounds.push_back(furthest);
        for (std::ptrdiff_t k = -d; k <= d && !is_done; k += 2) {
            std::ptrdiff_t x = comes_from_above(furthest, k, d) ? at(furthest, k + 1) : at(furthest, k - 1) + 1;
            while (x < n && x - k < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(x - k)]) ++x;
            at(furthest, k) = x;
            is_done = x >= n && x - k >= m;
        }
    }
    std::vector<Line> script;
    std::ptrdiff_t x = n, y = m;
    for (auto d = static_cast<std::ptrdiff_t>(rounds.size()) - 1; d >= 0; --d) {
        const std::vector<std::ptrdiff_t>& row = rounds[static_cast<std::size_t>(d)];
        const std::ptrdiff_t k = x - y;
        const bool is_added = comes_from_above(row, k, d);
        const std::ptrdiff_t from = d == 0 ? 0 : at(row, is_added ? k + 1 : k - 1);
        const std::ptrdiff_t from_y = d == 0 ? 0 : from - (is_added ? k + 1 : k - 1);
        while (x > from && y > from_y) {
            script.push_back({' ', a[static_cast<std::size_t>(--x)]});
            --y;
        }
        if (d == 0) break;
        if (is_added)
            script.push_back({'+', b[static_cast<std::size_t>(--y)]});
        else
            script.push_back({'-', a[static_cast<std::size_t>(--x)]});
    }
    std::reverse(script.begin(), script.end());
    return script;
}

/// Returns "LINE" or "LINE,COUNT". `before` is the number of lines before the hunk.
std::string range_text(std::size_t before, std::size_t count) {
    const std::size_t first = count == 0 ? before : before + 1;
    return count == 1 ? fmt::format("{}", first) : fmt::format("{},{}", first, count);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, std::string_view name) {
    if (before == after) return {};
    constexpr std::size_t context = 3;
    const std::vector<Line> script = script_of(lines_of(before), lines_of(after));
    std::string text = fmt::format("--- {}\n+++ {}\n", name, name);
    std::size_t old_line = 0, new_line = 0, done = 0;
    for (std::size_t i = 0; i < script.size(); ++i) {
        if (script[i].kind == ' ') continue;
        // A hunk ends if more than two contexts of unchanged lines follow a change.
        std::size_t end = i + 1;
        for (std::size_t j = i + 1; j < script.size() && j <= end + 2 * context; ++j) {
            if (script[j].kind != ' ') end = j + 1;
        }
        const std::size_t begin = std::max(i - std::min(i, context), done),
                          stop = std::min(end + context, script.size());
        old_line += begin - done;
        new_line += begin - done;
        std::size_t old_count = 0, new_count = 0;
        std::string lines;
        for (std::size_t j = begin; j < stop; ++j) {
            old_count += script[j].kind != '+';
            new_count += script[j].kind != '-';
            lines += fmt::format("{}{}", script[j].kind, script[j].text);
            if (!script[j].text.ends_with('\n')) lines += "\n\\ No newline at end of file\n";
        }
        text +=
            fmt::format("@@ -{} +{} @@\n{}", range_text(old_line, old_count), range_text(new_line, new_count), lines);
        old_line += old_count;
        new_line += new_count;
        done = stop;
        i = stop - 1;
    }
    return text;
}

}  // namespace macheps
