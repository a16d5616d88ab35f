// SPDX-License-Identifier: Apache-2.0
// Reads a shell script without running it. Used only in this folder.
#pragma once
#include "experiments/files/config/command_line/argument_words.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// A command of a script, with its words after all expansions.
struct ShellCommand {
    std::vector<ArgumentWord> words;
    std::map<std::string, std::string, std::less<>> environment;  ///< exported variables and `NAME=value` before it
    std::vector<UnknownValue> unknown_environment;  ///< variables whose values are unknown or depend on a condition
    ConfigPlace place;
    std::uint32_t last_line = 0;
    /// The first word that depends on a condition: its text and what decides it. Empty if there is none.
    std::string conditional{};
    std::vector<std::string> left_out{};  ///< parameters of the script in the words, such as `"$@"`
};

struct ShellScript {
    std::vector<ShellCommand> commands;
    std::map<std::string, WrittenFile, std::less<>> written_files;
};

/// Throws Error (exit 3, with the line) for loops, functions and other commands that can change any word of the script,
/// and for a text that is not a shell script.
ShellScript read_shell_script(std::string_view text, const std::string& name);

}  // namespace macheps::files
