// SPDX-License-Identifier: Apache-2.0
// `macheps help VERB`: prints the text of `macheps VERB --help`.
#include "core/text/nearest_name.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/verb_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::help {

namespace {

constexpr const char* help_text =
    "Prints the help of a verb, as VERB --help does: what it does, examples and its options.\n\n"
    "Examples:\n"
    "  macheps help                     the verbs\n"
    "  macheps help train\n"
    "  macheps help policy explain";

/// Throws Error (usage) with the nearest name if the path does not lead to a verb.
void require_verb(const std::vector<std::string>& path) {
    const VerbEntry root = verb_tree(program);
    const VerbEntry* at = &root;
    for (const std::string& word : path) {
        std::vector<std::string> names;
        const VerbEntry* next = nullptr;
        for (const VerbEntry& verb : at->verbs) {
            names.push_back(verb.path.back());
            if (names.back() == word) next = &verb;
        }
        if (next == nullptr) {
            const std::string near = nearest_name(word, names);
            throw Error({.what = fmt::format("unknown verb '{}'", word),
                         .where = fmt::format("{}", fmt::join(at->path, ": ")),
                         .fix = !near.empty()   ? fmt::format("did you mean '{}'?", near)
                                : names.empty() ? "remove it; there are no verbs below this one"
                                                : fmt::format("use one of {}", fmt::join(names, ", ")),
                         .exit = Exit::usage});
        }
        at = next;
    }
}

void describe(Command& verb) {
    const auto path = std::make_shared<std::vector<std::string>>();
    verb.option("VERB", *path, "A verb, optionally followed by a verb below it. Default: list the verbs");
    verb.runs([path] {
        require_verb(*path);
        std::vector<std::string> words{program.name};
        words.insert(words.end(), path->begin(), path->end());
        words.emplace_back("--help");
        const CommandLine printed(program, std::move(words));
        return Exit::ok;
    });
}

}  // namespace

const VerbRow verb{"help", help_text, describe};

}  // namespace macheps::cmd::help
