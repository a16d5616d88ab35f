// SPDX-License-Identifier: Apache-2.0
// Suggestions ("did you mean ...?") for names that a user types. Host only.
#pragma once
#include "core/text/meanings.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lowered(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), lower);
    return result;
}

/// Returns the `name` of each row of a table, in the order of the table.
template <class Rows>
std::vector<std::string_view> names_of(const Rows& rows) {
    std::vector<std::string_view> names;
    for (const auto& row : rows) names.push_back(row.name);
    return names;
}

/// Returns the Levenshtein distance: the minimum number of inserted, deleted and replaced characters that turns `a`
/// into `b`. Case is ignored.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row[b.size()];
}

/// Returns the candidate that `name` means according to the table `meanings`, or an empty string.
template <class Candidates>
std::string_view meant_name(std::string_view name, const Candidates& candidates) {
    const std::string word = lowered(name);
    for (const Meaning& row : meanings) {
        if (row.word != word) continue;
        for (const auto& candidate : candidates) {
            if (row.name == candidate) return row.name;
        }
    }
    return {};
}

/// Returns the candidate that `name` means. If there is none, returns the candidate with the smallest edit distance to
/// `name`. If several have it, returns the first. Returns an empty string if every distance is larger than half the
/// length of `name`, because `name` is then not a misspelling. A distance of 1 is always accepted.
template <class Candidates>
std::string nearest_name(std::string_view name, const Candidates& candidates) {
    std::string best(meant_name(name, candidates));
    if (!best.empty()) return best;
    std::size_t least = std::max<std::size_t>(name.size() / 2, 1) + 1;
    for (const auto& candidate : candidates) {
        const std::size_t distance = edit_distance(name, candidate);
        if (distance >= least) continue;
        least = distance;
        best = candidate;
    }
    return best;
}

/// Returns "did you mean 'x'? use one of x, y, z", or only "use one of x, y, z" if no name is similar.
inline std::string suggestion(std::string_view name, const std::vector<std::string_view>& names) {
    const std::string near = nearest_name(name, names);
    std::string text = near.empty() ? "use one of " : "did you mean '" + near + "'? use one of ";
    for (std::size_t i = 0; i < names.size(); ++i) text.append(i == 0 ? "" : ", ").append(names[i]);
    return text;
}

}  // namespace macheps
