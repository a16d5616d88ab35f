// SPDX-License-Identifier: Apache-2.0
// Recognises commands that start training programs, and separates the options of the launcher from the arguments of the
// program. Used only in this folder.
#pragma once
#include "core/error.hpp"
#include "experiments/files/config/command_line/argument_words.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// The parts of a command that starts a training program.
struct LaunchParts {
    std::string launcher;                   ///< "torchrun", "accelerate launch"
    bool is_python = false;                 ///< the launcher is the Python interpreter, which also runs other programs
    ConfigValue options;                    ///< options of the launcher, a map
    std::vector<std::string> programs;      ///< the training program, or its subcommand
    std::size_t first_argument = 0;         ///< index of the first word that the program receives
    std::vector<ArgumentWord> variables{};  ///< variables that `env` sets: NAME=value
    /// Why the words cannot be divided into parts, for example because of an option that is not known.
    std::optional<Error> refusal{};
};

/// Returns the parts of a command, or nothing if it does not start a training program.
std::optional<LaunchParts> launch_parts(const std::vector<ArgumentWord>& words);

/// Returns whether the first word of a text is the name of a launcher, or of a program that runs one (`srun`).
bool begins_with_launcher(std::string_view text);

}  // namespace macheps::files
