// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/verb_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::cmd {

namespace {

void collect(const VerbEntry& verb, std::vector<const VerbEntry*>& list) {
    list.push_back(&verb);
    for (const VerbEntry& below : verb.verbs) collect(below, list);
}

}  // namespace

std::string OptionEntry::text() const {
    std::vector<std::string> facts;
    if (is_required) facts.emplace_back("required");
    const bool names_choices = std::all_of(choices.begin(), choices.end(), [&](const std::string& choice) {
        return description.find(choice) != std::string::npos;
    });
    if (!names_choices) facts.push_back(fmt::format("one of {}", fmt::join(choices, ", ")));
    if (!default_text.empty() && default_text != "[]") facts.push_back("default: " + default_text);
    if (!needs.empty()) facts.push_back(fmt::format("needs {}", fmt::join(needs, ", ")));
    if (!excludes.empty()) facts.push_back(fmt::format("not with {}", fmt::join(excludes, ", ")));
    return facts.empty() ? description : fmt::format("{} ({})", description, fmt::join(facts, "; "));
}

std::string VerbEntry::name() const { return fmt::format("{}", fmt::join(path, " ")); }

std::vector<std::string> VerbEntry::groups() const {
    std::vector<std::string> list;
    for (const OptionEntry& option : options) {
        const bool is_listed = !option.is_positional && !option.is_hidden && !option.is_help();
        if (is_listed && std::find(list.begin(), list.end(), option.group) == list.end()) list.push_back(option.group);
    }
    return list;
}

std::vector<const VerbEntry*> all_verbs(const VerbEntry& root) {
    std::vector<const VerbEntry*> list;
    collect(root, list);
    return list;
}

}  // namespace macheps::cmd
