// SPDX-License-Identifier: Apache-2.0
// The variables and arguments of a shell script while it is read. Used only in this folder.
#pragma once
#include "experiments/files/config/command_line/shell.hpp"
#include "experiments/files/config/command_line/shell_word.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// `NAME=value` or `NAME+=value`.
struct ShellAssignment {
    std::string name;
    bool appends = false;
    ShellValue value;
};

/// The effects of `export`, `declare` and similar commands on the variables after them.
struct Declaration {
    bool exports = false, unexports = false;
    bool converts = false;  ///< an option changes the values, such as `-i`
};

/// Returns the effect of a command that declares variables. `words` begins with the command.
Declaration declaration_of(const std::vector<ArgumentWord>& words);

/// In all functions, `decides` is what decides whether the command runs, or an empty text if it always runs.
class ShellVariables {
  public:
    /// Returns the value of a variable or, if `set --` has set the arguments of the script, of an argument: `1`, or `@`
    /// for all. Returns nullptr if it has no value in the script.
    const ShellValue* find(std::string_view name) const;
    void set(const std::string& name, ShellValue value) { values_.insert_or_assign(name, std::move(value)); }
    void assign(ShellAssignment one, const std::string& decides, const ConfigPlace& place);
    void unset(const std::string& name, const std::string& decides);

    void set_arguments(ShellValue all);
    /// Removes the first arguments, as `shift` does.
    void shift(std::size_t count, const std::string& decides);

    /// Adds a variable to the environment of later commands, or removes it.
    void export_name(const std::string& name, bool is_exported, const std::string& decides);
    /// Sets whether each assignment also exports its variable, as `set -a` does.
    void export_assigned(bool exports) { exports_assigned_ = exports; }
    /// Sets the environment of a command, with the assignments before its first word.
    void set_environment(ShellCommand& command, const std::vector<ShellAssignment>& before) const;

  private:
    std::map<std::string, ShellValue, std::less<>> values_;
    std::map<std::string, std::string, std::less<>> exported_;  // what decides it, by name
    bool exports_assigned_ = false;
};

}  // namespace macheps::files
