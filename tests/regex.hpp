// SPDX-License-Identifier: Apache-2.0
// ECMAScript's regular expressions, as the standard library has them: compiled once, as each file that instantiates them takes
// the compiler two seconds.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace macheps::test {

/// A place where an expression matches: [0] is all of it, then come its groups; one that took no part is empty.
struct Match {
    std::vector<std::string> groups;
    std::size_t begin = 0, end = 0;

    const std::string& operator[](std::size_t group) const { return groups.at(group); }
};

/// Whether the expression matches anywhere in `text`.
bool finds(const std::string& text, const std::string& expression);

/// The match, where the expression matches all of `text`.
std::optional<Match> matches(const std::string& text, const std::string& expression);

/// Every match, from the first on; none begins within another.
std::vector<Match> all_matches(const std::string& text, const std::string& expression);

/// `text` with `by` for every match; $1 in it is the match's first group.
std::string replaced(const std::string& text, const std::string& expression, const std::string& by);

}  // namespace macheps::test
