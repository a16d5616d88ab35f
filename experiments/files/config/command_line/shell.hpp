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

/// A text that a command writes to a file.
struct ShellWrite {
    std::string path;
    bool appends = false;
    std::string text{};
    std::uint32_t text_line = 1;  ///< line of the script in which the text begins
    std::string unknown{};        ///< why the text is unknown; empty if it is known
    ConfigPlace place{};
    std::size_t first_after = 0;  ///< index of the first command that runs after it
};

struct ShellScript {
    std::vector<ShellCommand> commands;
    std::vector<ShellWrite> writes;
};

/// Returns the files that a script has written before a command.
WrittenFiles files_before(const ShellScript& script, const ShellCommand& command);

/// Throws Error (exit 3, with the line) for loops, functions and other commands that can change any word of the script,
/// and for a text that is not a shell script.
ShellScript read_shell_script(std::string_view text, const std::string& name);

}  // namespace macheps::files
