// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/verb_tree.hpp"

#include <algorithm>

namespace macheps {

namespace {

/// `{a,b,c}` in a type name such as `TEXT:{a,b,c}`, as CLI::IsMember and our own type names write it.
std::vector<std::string> choices_in(const std::string& type) {
    const std::size_t open = type.find('{'), close = type.find('}', open);
    if (open == std::string::npos || close == std::string::npos) return {};
    std::vector<std::string> choices(1);
    for (std::size_t i = open + 1; i < close; ++i) {
        if (type[i] == ',') {
            choices.emplace_back();
        } else {
            choices.back() += type[i];
        }
    }
    return choices;
}

OptionEntry option_entry(const CLI::Option& option) {
    OptionEntry entry;
    for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
    entry.is_positional = entry.names.empty();
    if (entry.is_positional) entry.names.push_back(option.get_name(true));
    const bool is_flag = !entry.is_positional && option.get_items_expected_max() == 0;
    const std::string type = option.get_type_name();
    if (!is_flag) {
        entry.kind = type.substr(0, type.find(':'));
        if (entry.kind.empty() || entry.kind.front() == '{') entry.kind = "TEXT";
        entry.choices = choices_in(type);
    }
    entry.description = option.get_description();
    entry.default_text = is_flag ? "" : option.get_default_str();
    entry.is_required = option.get_required();
    entry.takes_many = entry.is_positional && option.get_items_expected_max() > 1;
    entry.has_list = option.get_delimiter() != '\0';
    return entry;
}

VerbEntry verb_entry(const CLI::App& app, std::vector<std::string> path) {
    VerbEntry entry{.path = std::move(path), .summary = {}, .description = {}, .options = {}, .verbs = {}};
    const std::string text = app.get_description();
    const std::size_t end = std::min(text.find('\n'), text.size());
    entry.summary = text.substr(0, end);
    entry.description = text.substr(std::min(text.find_first_not_of('\n', end), text.size()));
    for (const CLI::Option* option : app.get_options()) entry.options.push_back(option_entry(*option));
    for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
        std::vector<std::string> below = entry.path;
        below.push_back(verb->get_name());
        entry.verbs.push_back(verb_entry(*verb, std::move(below)));
    }
    return entry;
}

void collect(const VerbEntry& verb, std::vector<const VerbEntry*>& list) {
    list.push_back(&verb);
    for (const VerbEntry& below : verb.verbs) collect(below, list);
}

}  // namespace

std::string VerbEntry::name() const {
    std::string text;
    for (const std::string& word : path) text += (text.empty() ? "" : " ") + word;
    return text;
}

VerbEntry verb_tree(const CLI::App& app) { return verb_entry(app, {}); }

std::vector<const VerbEntry*> all_verbs(const VerbEntry& root) {
    std::vector<const VerbEntry*> list;
    collect(root, list);
    return list;
}

}  // namespace macheps
