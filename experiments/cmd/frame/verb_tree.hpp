// SPDX-License-Identifier: Apache-2.0
// The verbs and options of the program as plain data. Help, shell completion and the man page are generated from it.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

#include <string>
#include <vector>

namespace macheps::cmd {

struct OptionEntry {
    std::vector<std::string> names;    ///< `-p`, `--policy`, in this order; for a positional: `NAME`
    std::string kind;                  ///< a name from value_kind, or INT, TEXT, ...; empty for a flag
    std::vector<std::string> choices;  ///< the allowed values, if there is a fixed list of them
    std::string description, default_text;
    std::string group;                         ///< heading that the option is listed under
    std::vector<std::string> needs, excludes;  ///< names of other options
    bool is_positional = false, is_required = false;
    bool takes_many = false;  ///< a positional that may be repeated
    bool has_list = false;    ///< values joined by commas
    bool is_hidden = false;   ///< --help does not list it, but the man page does

    bool is_flag() const { return kind.empty() && !is_positional; }
    bool is_help() const { return names.back() == "--help"; }
    /// Returns the description, followed by a bracket with the allowed values, the default and so on.
    std::string text() const;
};

struct VerbEntry {
    std::vector<std::string> path{};    ///< `policy`, `diff`; empty for the program itself
    std::string summary{};              ///< the first line of the help text
    std::string description{};          ///< the rest of the help text, which precedes the options
    std::string notes{};                ///< the text after the options
    std::vector<std::string> topics{};  ///< the words that may follow --help
    std::vector<OptionEntry> options{};
    std::vector<VerbEntry> verbs{};
    bool needs_verb = false;  ///< whether the verb does nothing by itself

    std::string name() const;  ///< `policy diff`
    /// Returns the headings of the options that are not hidden, in the order of their first options. The option --help
    /// is ignored: it is the first option, but help lists it under the last heading.
    std::vector<std::string> groups() const;
};

/// Returns the tree of all verbs of `program`, as they are described to its parser (cli.cpp).
VerbEntry verb_tree(const VerbRow& program);

/// Returns `root` and every verb below it, each verb before its own verbs.
std::vector<const VerbEntry*> all_verbs(const VerbEntry& root);

}  // namespace macheps::cmd
