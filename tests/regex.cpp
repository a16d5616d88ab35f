// SPDX-License-Identifier: Apache-2.0
#include "tests/regex.hpp"

#include <regex>

namespace macheps::test {

namespace {

Match made(const std::smatch& match) {
    const auto begin = static_cast<std::size_t>(match.position());
    Match result{.begin = begin, .end = begin + static_cast<std::size_t>(match.length())};
    for (const auto& group : match) result.groups.push_back(group.str());
    return result;
}

}  // namespace

bool finds(const std::string& text, const std::string& expression) {
    return std::regex_search(text, std::regex(expression));
}

std::optional<Match> matches(const std::string& text, const std::string& expression) {
    std::smatch match;
    if (!std::regex_match(text, match, std::regex(expression))) return std::nullopt;
    return made(match);
}

std::vector<Match> all_matches(const std::string& text, const std::string& expression) {
    const std::regex compiled(expression);
    std::vector<Match> found;
    for (std::sregex_iterator each(text.begin(), text.end(), compiled), end; each != end; ++each)
        found.push_back(made(*each));
    return found;
}

std::string replaced(const std::string& text, const std::string& expression, const std::string& by) {
    return std::regex_replace(text, std::regex(expression), by);
}

}  // namespace macheps::test
