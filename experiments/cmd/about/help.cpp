// SPDX-License-Identifier: Apache-2.0
// `macheps help VERB`: prints the text of `macheps VERB --help`.
#include "core/text/nearest_name.hpp"
#include "experiments/cmd/about/help_text.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::help {

namespace {

constexpr const char* help = R"(Prints the help of a verb, as VERB --help does: what it does, examples and its options.

Examples:
  macheps help                     the verbs
  macheps help train
  macheps help policy explain
  macheps help check gemm          the options of `macheps check` for one operation)";

/// Returns true if the last word of the path is a topic of a verb's help, and false if it is a verb. Errors: throws
/// Error (usage), which suggests the nearest name, if the path leads to neither.
bool leads_to_topic(const std::vector<std::string>& path) {
    const VerbEntry root = verb_tree(program);
    const VerbEntry* at = &root;
    for (const std::string& word : path) {
        const bool is_topic = std::find(at->topics.begin(), at->topics.end(), word) != at->topics.end();
        if (is_topic && &word == &path.back()) return true;
        std::vector<std::string> names = at->topics;
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
    return false;
}

void describe(Command& verb) {
    const auto path = std::make_shared<std::vector<std::string>>();
    verb.option("VERB", *path, "A verb, optionally followed by a verb below it or a topic. Default: list the verbs");
    verb.runs([path] {
        std::vector<std::string> words{program.name};
        words.insert(words.end(), path->begin(), path->end());
        words.insert(words.end() - (leads_to_topic(*path) ? 1 : 0), "--help");
        const CommandLine line(program, std::move(words));
        const std::string text = help_text(*line.help());
        print_text(text);
        return Exit::ok;
    });
}

}  // namespace

const VerbRow verb{"help", help, describe};

}  // namespace macheps::cmd::help
