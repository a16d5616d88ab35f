// SPDX-License-Identifier: Apache-2.0
// Reads command lines and shell scripts that start training programs. Nothing is executed.
#include "core/error.hpp"
#include "experiments/files/config/command_line/launcher.hpp"
#include "experiments/files/config/command_line/shell.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace macheps::files {

namespace {

struct Candidate {
    const ShellCommand* command;
    LaunchParts parts;
};

std::vector<Candidate> candidates_of(const ShellScript& script) {
    std::vector<Candidate> all;
    for (const ShellCommand& command : script.commands) {
        if (std::optional<LaunchParts> parts = launch_parts(command.words))
            all.push_back({&command, std::move(*parts)});
    }
    return all;
}

/// Removes the commands of the Python interpreter if there are others, because a script often also prepares data.
void drop_helpers(std::vector<Candidate>& all) {
    const auto is_python = [](const Candidate& one) { return one.parts.is_python; };
    if (!std::all_of(all.begin(), all.end(), is_python)) std::erase_if(all, is_python);
}

/// Returns the training command: the one in line `line`, or the only one if `line` is 0.
Candidate pick(std::vector<Candidate> all, std::uint32_t line, const std::string& name) {
    if (all.empty()) {
        throw Error({.what = "the file contains no command that starts a training program",
                     .where = name,
                     .fix = "give a command of torchrun, deepspeed, accelerate launch or python"});
    }
    std::vector<std::uint32_t> lines;
    for (const Candidate& one : all) lines.push_back(one.command->place.line);
    if (line != 0) {
        for (Candidate& one : all) {
            if (one.command->place.line <= line && line <= one.command->last_line) return std::move(one);
        }
        throw Error({.what = fmt::format("line {} has no training command", line),
                     .where = name,
                     .fix = fmt::format("pass --line with one of {}", fmt::join(lines, ", ")),
                     .exit = Exit::usage});
    }
    drop_helpers(all);
    if (all.size() == 1) return std::move(all.front());
    lines.clear();
    for (const Candidate& one : all) lines.push_back(one.command->place.line);
    throw Error(
        {.what = fmt::format("the file has {} training commands, in the lines {}", all.size(), fmt::join(lines, ", ")),
         .where = to_string(all[1].command->place),
         .fix = fmt::format("pass --line {} to read one of them", lines.front())});
}

/// Adds a variable that `env NAME=value` sets.
void add_variable(TrainingCommand& command, const ArgumentWord& word) {
    const std::size_t sign = word.text.find('=');
    const std::string name = word.text.substr(0, sign);
    command.environment.erase(name);
    std::erase_if(command.unknown_environment, [&](const UnknownValue& one) { return one.path == name; });
    if (word.unknown.empty())
        command.environment.emplace(name, word.text.substr(sign + 1));
    else
        command.unknown_environment.push_back({name, word.unknown, word.reason, word.place});
}

}  // namespace

ConfigFile read_command_config(std::string_view text, const std::string& name, std::uint32_t line) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    const ShellScript script = read_shell_script(text, name);
    Candidate picked = pick(candidates_of(script), line, name);
    if (picked.parts.refusal) throw Error(*picked.parts.refusal);
    const ShellCommand& command = *picked.command;
    if (!command.conditional.empty()) {
        throw Error({.what = fmt::format("{} decides a word of the training command", command.conditional),
                     .where = to_string(command.place),
                     .fix = "give the training command alone, with its words written out"});
    }
    const auto first = command.words.begin() + static_cast<std::ptrdiff_t>(picked.parts.first_argument);
    ConfigFile file = config_of_words({first, command.words.end()}, name, Positional::collect);
    file.command->launcher = std::move(picked.parts.launcher);
    file.command->launcher_options = std::move(picked.parts.options);
    file.command->programs = std::move(picked.parts.programs);
    file.command->environment = command.environment;
    file.command->unknown_environment = command.unknown_environment;
    for (const ArgumentWord& word : picked.parts.variables) add_variable(*file.command, word);
    file.command->place = command.place;
    for (const std::string& written : command.left_out)
        file.unknown_values.push_back({{}, written, "it expands to the arguments of the script", command.place});
    file.root.place = command.place;
    file.written_files = files_before(script, command);
    file.language = ConfigLanguage::command;
    file.ignored_rules = config_text::ignored_rules(text, name);
    return file;
}

}  // namespace macheps::files
