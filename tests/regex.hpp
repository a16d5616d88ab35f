// SPDX-License-Identifier: Apache-2.0
// ECMAScript regular expressions of the standard library. Only regex.cpp includes <regex>, because a file that
// instantiates its templates takes two seconds longer to compile.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace macheps::test {

/// A match of an expression: [0] is the whole match and [n] is group n. A group that did not participate is empty.
struct Match {
    std::vector<std::string> groups;
    std::size_t begin = 0, end = 0;

    const std::string& operator[](std::size_t group) const { return groups.at(group); }
};

/// Returns whether the expression matches anywhere in `text`.
bool finds(const std::string& text, const std::string& expression);

/// Returns the match if the expression matches all of `text`.
std::optional<Match> matches(const std::string& text, const std::string& expression);

/// Returns all matches in order. They do not overlap.
std::vector<Match> all_matches(const std::string& text, const std::string& expression);

/// Returns `text` after replacing every match. The replacement is `by`, in which $1 means the first group of the match.
std::string replaced(const std::string& text, const std::string& expression, const std::string& by);

}  // namespace macheps::test
