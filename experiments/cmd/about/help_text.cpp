// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/about/help_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd {

namespace {

constexpr std::size_t width = 100, indent = 28;  // columns of a line, and columns before its text

/// Returns a name and its text in two columns. A long name gets its own line.
std::string entry(const std::string& name, std::string_view text) {
    std::string out = "  " + name;
    std::size_t column = out.size();
    if (column + 2 > indent) {
        out += "\n";
        column = 0;
    }
    out.append(indent - column, ' ');
    column = indent;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find_first_of(" \n"));
        const bool ends_line = word.size() < text.size() && text[word.size()] == '\n';
        text.remove_prefix(std::min(word.size() + 1, text.size()));
        if (column > indent && column + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        }
        if (column > indent) out += " ";
        out += word;
        column += word.size() + (column > indent ? 1 : 0);
        if (ends_line && !text.empty()) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        }
    }
    return out + "\n";
}

std::string entry(const OptionEntry& option) {
    std::string name = fmt::format("{}", fmt::join(option.names, ", "));
    if (option.is_positional && option.takes_many) name += "...";
    if (!option.is_positional && !option.is_flag()) name += " " + option.kind + (option.has_list ? ",..." : "");
    return entry(name, option.text());
}

std::string usage(const VerbEntry& verb) {
    const std::string name = verb.path.empty() ? "macheps" : "macheps " + verb.name();
    std::string line = name + " [OPTIONS]";
    for (const OptionEntry& option : verb.options) {
        if (!option.is_positional) continue;
        const std::string word = option.names.front() + (option.takes_many ? "..." : "");
        line += option.is_required ? " " + word : " [" + word + "]";
    }
    const std::string below = name + " VERB [OPTIONS]";
    if (verb.needs_verb) return "Usage: " + below + "\n";
    return "Usage: " + line + "\n" + (verb.verbs.empty() ? "" : "       " + below + "\n");
}

}  // namespace

std::string help_text(const VerbEntry& verb) {
    std::string text = verb.summary + (verb.description.starts_with("  ") ? "\n" : "\n\n") + verb.description;
    while (text.ends_with("\n")) text.pop_back();
    text += "\n\n" + usage(verb);
    std::string arguments;
    for (const OptionEntry& option : verb.options) {
        if (option.is_positional && !option.is_hidden) arguments += entry(option);
    }
    if (!arguments.empty()) text += "\nArguments:\n" + arguments;
    std::vector<std::string> groups = verb.groups();
    if (groups.empty()) groups.emplace_back("Options");
    for (const std::string& group : groups) {
        std::string options;
        for (const OptionEntry& option : verb.options) {
            if (option.group == group && !option.is_positional && !option.is_hidden && !option.is_help())
                options += entry(option);
        }
        if (&group == &groups.back()) {
            for (const OptionEntry& option : verb.options) {
                if (option.is_help()) options += entry(option);
            }
        }
        text += "\n" + group + ":\n" + options;
    }
    if (!verb.verbs.empty()) text += "\nVerbs:\n";
    for (const VerbEntry& below : verb.verbs) text += entry(below.path.back(), below.summary);
    if (!verb.notes.empty()) text += "\n" + verb.notes;
    return text.ends_with("\n") ? text : text + "\n";
}

}  // namespace macheps::cmd
