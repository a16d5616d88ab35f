// SPDX-License-Identifier: Apache-2.0
// `macheps completion SHELL`: prints a completion script that is generated from the parser, so that it always matches
// the options. The build runs this verb to install its output.
#include "core/format_table.hpp"
#include "core/text/quote.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/verb_tree.hpp"
#include "experiments/policy/policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd::completion {

using namespace policy;

namespace {

constexpr const char* help = R"(Prints a script that completes verbs, options and names on the Tab key.

Examples:
  macheps completion bash > ~/.local/share/bash-completion/completions/macheps
  macheps completion zsh > ~/.zfunc/_macheps        a folder of zsh's fpath
  macheps completion fish > ~/.config/fish/completions/macheps.fish
  source <(macheps completion bash)                 for this shell only)";

/// The values that the script offers after an option.
struct Completion {
    std::vector<std::string> words;
    bool files = false, folders = false;
    std::string pattern{};  ///< pattern for file names; empty: any name
};

Completion completion_of(const OptionEntry& option) {
    Completion completion;
    completion.words = option.choices;
    if (option.kind == value_kind::policy) {
        for (const std::string_view name : preset_names()) completion.words.emplace_back(name);
        completion.files = true;
        completion.pattern = "*.toml";
    } else if (option.kind == value_kind::format) {
        for (const NamedFormat& row : all_formats) completion.words.emplace_back(row.name);
    }
    completion.files |= option.kind == value_kind::file;
    completion.folders = option.kind == value_kind::folder;
    return completion;
}

std::string joined_words(const VerbEntry& verb) {
    std::string text;
    for (const VerbEntry& below : verb.verbs) text += (text.empty() ? "" : " ") + below.path.back();
    return text;
}

// ---- bash ----------------------------------------------------------------------------------------------------------

/// Returns shell code that completes the option's values: calls of the script's helper functions, or `:` (do nothing).
std::string bash_values(const OptionEntry& option) {
    const Completion c = completion_of(option);
    std::string text;
    if (!c.words.empty())
        text += fmt::format("_macheps_words {} '{}'", option.has_list ? "list" : "one", fmt::join(c.words, " "));
    if (c.files) text += fmt::format("{}_macheps_files '{}'", text.empty() ? "" : "; ", c.pattern);
    if (c.folders) text += fmt::format("{}_macheps_folders", text.empty() ? "" : "; ");
    return text.empty() ? ":" : text;
}

constexpr std::string_view bash_head = R"(# bash completion for macheps, made by `macheps completion bash`
_macheps_words() {  # one|list WORDS: with list, the text before the last comma is kept
    local kept=
    [[ $1 == list && $cur == *,* ]] && kept=${cur%,*},
    COMPREPLY+=($(compgen -P "$kept" -W "$2" -- "${cur#"$kept"}"))
}
_macheps_files() {  # PATTERN: files of that name, and folders on the way to them
    local name
    while IFS= read -r name; do
        [[ -z $1 || -d $name || $name == $1 ]] && COMPREPLY+=("$name")
    done < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
}
_macheps_folders() {
    local name
    while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -d -- "$cur")
    compopt -o filenames 2>/dev/null
}
_macheps() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= i
    COMPREPLY=()
    if [[ $cur == '=' ]]; then cur=
    elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case "$verb/${COMP_WORDS[i]}" in
)";

std::string bash_script(const VerbEntry& root) {
    std::string text(bash_head);
    const auto verbs = all_verbs(root);
    for (const VerbEntry* verb : verbs) {
        for (const VerbEntry& below : verb->verbs) {
            text += fmt::format("            '{}/{}') verb='{}' ;;\n", verb->name(), below.path.back(), below.name());
        }
    }
    text += "        esac\n    done\n    case \"$verb:$prev\" in\n";
    for (const VerbEntry* verb : verbs) {
        for (const OptionEntry& option : verb->options) {
            if (option.is_positional || option.is_flag()) continue;
            std::string patterns;
            for (const std::string& name : option.names)
                patterns += fmt::format("{}'{}:{}'", patterns.empty() ? "" : "|", verb->name(), name);
            text += fmt::format("        {}) {}; return ;;\n", patterns, bash_values(option));
        }
    }
    text += "    esac\n    case \"$verb\" in\n";
    for (const VerbEntry* verb : verbs) {
        std::vector<std::string> names;
        std::string values;
        for (const OptionEntry& option : verb->options) {
            if (option.is_positional) {
                values += fmt::format("; {}", bash_values(option));
            } else {
                names.insert(names.end(), option.names.begin(), option.names.end());
            }
        }
        // A word that does not begin with a dash is a value of a positional, or a verb below this one.
        if (!verb->verbs.empty()) values += fmt::format("; _macheps_words one '{}'", joined_words(*verb));
        text += fmt::format("        '{}') if [[ $cur == -* ]]; then _macheps_words one '{}'; else :{}; fi ;;\n",
                            verb->name(), fmt::join(names, " "), values);
    }
    text += "    esac\n}\ncomplete -F _macheps macheps\n";
    return text;
}

// ---- zsh -----------------------------------------------------------------------------------------------------------

/// Escapes colons and brackets, which have a meaning in _arguments.
std::string zsh_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

std::string zsh_action(const OptionEntry& option) {
    const Completion c = completion_of(option);
    if (option.kind == value_kind::policy) return option.has_list ? "_macheps_policies list" : "_macheps_policies";
    if (!c.words.empty() && option.has_list) return fmt::format("_values -s , value {}", fmt::join(c.words, " "));
    if (!c.words.empty()) return fmt::format("({})", fmt::join(c.words, " "));
    if (c.files) return "_files";
    if (c.folders) return "_files -/";
    return " ";
}

std::string zsh_name(const VerbEntry& verb) {
    std::string name = "_macheps";
    for (const std::string& word : verb.path) name += "_" + word;
    return name;
}

std::string zsh_script(const VerbEntry& root) {
    std::vector<std::string_view> presets = preset_names();
    std::string text = fmt::format(
        "#compdef macheps\n# zsh completion for macheps, made by `macheps completion zsh`\n"
        "_macheps_policies() {{\n"
        "    local -a presets=({})\n"
        "    if [[ $1 == list ]]; then compset -P '*,'; compadd -qS , -a presets; else compadd -a presets; fi\n"
        "    _files -g '*.toml'\n"
        "}}\n",
        fmt::join(presets, " "));
    for (const VerbEntry* verb : all_verbs(root)) {
        std::string arguments, first;  // `first` completes a positional that may stand where a verb is expected
        for (const OptionEntry& option : verb->options) {
            const std::string what = zsh_text(option.description);
            const std::string value =
                option.is_flag() ? "" : fmt::format(":{}:{}", zsh_text(option.kind), zsh_action(option));
            if (option.is_positional && !verb->verbs.empty()) {
                first = zsh_action(option);
                continue;
            }
            if (option.is_positional) {
                arguments += " \\\n        " + shell_quoted((option.takes_many ? "*" : "") + value);
                continue;
            }
            const bool repeats = option.has_list;
            const std::string others = repeats ? "*" : fmt::format("({})", fmt::join(option.names, " "));
            for (const std::string& name : option.names) {
                const std::string attached = option.is_flag() ? "" : name.starts_with("--") ? "=" : "+";
                arguments += " \\\n        " + shell_quoted(others + name + attached + "[" + what + "]" + value);
            }
        }
        text += zsh_name(*verb) + "() {\n";
        if (verb->verbs.empty()) {
            text += "    _arguments -s -S" + arguments + "\n}\n";
            continue;
        }
        text += "    local context state state_descr line\n    typeset -A opt_args\n    _arguments -C" + arguments +
                " \\\n        '1:verb:->verb' '*::argument:->argument'\n    case $state in\n"
                "        verb)\n            local -a verbs=(\n";
        for (const VerbEntry& below : verb->verbs)
            text += "                " + shell_quoted(below.path.back() + ":" + zsh_text(below.summary)) + "\n";
        text += "            )\n            _describe verb verbs" + (first.empty() ? "" : "; " + first) +
                " ;;\n        argument)\n            case $line[1] in\n";
        for (const VerbEntry& below : verb->verbs)
            text += fmt::format("                {}) {} ;;\n", below.path.back(), zsh_name(below));
        if (!first.empty()) text += "                *) " + first + " ;;\n";
        text += "            esac ;;\n    esac\n}\n";
    }
    // If zsh autoloads the file from fpath, the file is the body of the function _macheps and completes at once. If the
    // file is sourced, it registers the function instead.
    text += "if [[ $funcstack[1] == _macheps ]]; then _macheps \"$@\"; else compdef _macheps macheps; fi\n";
    return text;
}

// ---- fish ----------------------------------------------------------------------------------------------------------

/// Quotes a text for fish, whose single quotes know \' and \\.
std::string fish_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

std::string fish_values(const OptionEntry& option) {
    const Completion c = completion_of(option);
    // All values go into a single argument of -a, because fish ignores all except the last -a of a line.
    std::string text;
    const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
    const std::string words = fmt::format("{}", fmt::join(c.words, " "));
    if (!words.empty()) add(option.has_list ? fmt::format("(__fish_append , {})", words) : words);
    if (!c.pattern.empty()) add("(__fish_complete_suffix .toml)");
    if (c.folders) add("(__fish_complete_directories)");
    return text.empty() ? "" : " -a " + fish_quoted(text);
}

std::string fish_script(const VerbEntry& root) {
    std::string text =
        "# fish completion for macheps, made by `macheps completion fish`\n"
        "function __macheps_verb\n    set -l verb ''\n    set -l words (commandline -opc)\n"
        "    for word in $words[2..-1]\n        switch \"$verb/$word\"\n";
    const auto verbs = all_verbs(root);
    for (const VerbEntry* verb : verbs) {
        for (const VerbEntry& below : verb->verbs) {
            text += fmt::format("            case {}; set verb {}\n",
                                shell_quoted(verb->name() + "/" + below.path.back()), shell_quoted(below.name()));
        }
    }
    text += "        end\n    end\n    echo \"$verb\"\nend\n";
    for (const VerbEntry* verb : verbs) {
        const std::string when = fmt::format("complete -c macheps -n 'test (__macheps_verb) = \"{}\"'", verb->name());
        bool takes_files = false;
        std::string lines;
        for (const VerbEntry& below : verb->verbs)
            lines += fmt::format("{} -a {} -d {}\n", when, below.path.back(), fish_quoted(below.summary));
        for (const OptionEntry& option : verb->options) {
            if (option.is_positional) {
                takes_files |= completion_of(option).files;
                const std::string values = fish_values(option);
                if (!values.empty()) lines += when + values + "\n";
                continue;
            }
            std::string names;
            for (const std::string& name : option.names)
                names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            const bool any_file = completion_of(option).files && completion_of(option).pattern.empty();
            lines += when + names +
                     (option.is_flag() ? ""
                      : any_file       ? " -r -F"
                                       : " -x") +
                     fish_values(option) + " -d " + fish_quoted(option.description) + "\n";
        }
        text += takes_files ? lines : when + " -f\n" + lines;
    }
    return text;
}

void describe(Command& verb) {
    const auto shell = std::make_shared<std::string>();
    verb.option("SHELL", *shell, "Shell that runs the script").required().one_of({"bash", "zsh", "fish"});
    verb.runs([shell] {
        const VerbEntry root = verb_tree(program);
        const std::string text = *shell == "bash"  ? bash_script(root)
                                 : *shell == "zsh" ? zsh_script(root)
                                                   : fish_script(root);
        print_text(text);
        return Exit::ok;
    });
}

}  // namespace

const VerbRow verb{"completion", help, describe};

}  // namespace macheps::cmd::completion
