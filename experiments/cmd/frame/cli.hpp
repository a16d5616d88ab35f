// SPDX-License-Identifier: Apache-2.0
// The command line: how a verb describes its options, and which of them were given. Only cli.cpp includes the parser,
// CLI11. Only the verbs that the command line names are described, so the start-up time does not grow with the number
// of verbs.
#pragma once
#include "core/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace macheps::cmd {

class Command;
struct Reading;  // in cli.cpp: data that the commands of one command line share
struct VerbEntry;

/// A verb, or the program itself, before its options are made.
struct VerbRow {
    const char* name;
    const char* help;  ///< text before the options in --help; lists of verbs show only its first line
    void (*describe)(Command& verb);
    const char* notes = "";  ///< text after the options in --help
};

/// Placeholders for values in an option's type name, and so in --help. Shell completion reads them.
namespace value_kind {
inline constexpr const char* policy = "POLICY";  ///< the name of a preset, or the path of a .toml file
inline constexpr const char* format = "FORMAT";  ///< a name of core/format_table.hpp
inline constexpr const char* file = "FILE";
inline constexpr const char* folder = "DIR";
}  // namespace value_kind

/// Smallest and largest allowed value of a whole number.
struct Limits {
    std::int64_t least = 0, greatest = INT64_MAX;
};
/// Limits of a seed. All of these numbers fit in a manifest and in the rows of every table.
inline constexpr Limits seed_limits{};

/// An option being described. It is a handle, and every method returns it, so that calls chain.
class Option {
  public:
    explicit Option(CLI::Option& option) : option_(&option) {}

    Option takes(const char* kind);  ///< placeholder in --help: one of value_kind, or another word
    /// Accepts only these words, in upper or lower case. The variable gets the word as it is spelled here. --help shows
    /// the words.
    Option one_of(std::vector<std::string> words);
    Option in_lower_case();                       ///< the variable gets the value in lower case
    Option range(double least, double greatest);  ///< refuses values outside this range, which --help does not show
    Option list();                                ///< the option takes several values, joined by commas
    Option repeats();                             ///< may be given several times, with one value each time
    Option required();
    Option shows_default();  ///< --help shows the current value of the variable as the default
    Option default_text(std::string text);
    Option needs(Option other);
    Option excludes(Option other);

  private:
    CLI::Option* option_;
};

/// A verb of the command line. It is described first, and holds the values from the command line afterwards. It lives
/// as long as its CommandLine, so the verb's action may refer to it.
class Command {
  public:
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    ~Command();

    /// Adds an option. `names` is, for example, `-p,--policy`, or `NAME` for a positional. Further long names are other
    /// spellings, which are accepted but not shown. --help lists options in the order of these calls. If the type Value
    /// is not in the list at the end of cli.cpp, linking fails.
    template <class Value>
    Option option(std::string names, Value& value, std::string help);
    /// Adds an option for a whole number, or for a list of them, within limits that Value can hold. Any other text is
    /// refused with a message that gives the limits. Lists also accept ranges: 0-4.
    template <class Value>
    Option integer(std::string names, Value& value, Limits limits, std::string help);
    Option flag(std::string names, bool& value, std::string help);
    void version_flag(std::string text);
    /// Lists the options that follow under `heading` in --help and in the man page.
    void group(std::string heading);
    /// Lists the options that follow only in the man page.
    void hidden_group(std::string heading);

    /// Declares the words that may follow --help, for a verb whose options depend on a choice. Returns the word after
    /// --help. If there is no such word, returns the value of `option` if --help is given, and otherwise an empty
    /// string.
    /// Errors: throws Error (usage) if another word follows --help.
    std::string help_topic(const std::string& option, std::vector<std::string> topics);
    /// Replaces the texts before and after the options. The help then lists no verbs.
    void texts(const std::string& help, std::string notes);

    /// Requires that the command line names one of the verbs in `rows`. Only the verb that it names is described.
    void verbs(std::span<const VerbRow* const> rows);
    /// Returns whether the next word of the command line names one of the verbs in `rows`. If it does, this verb is
    /// described, and the caller must not add its own options.
    bool goes_on_with(std::span<const VerbRow* const> rows);
    void runs(std::function<Exit()> action);

    /// Accepts words that belong to no option, instead of reporting an error. rest() returns them. Words such as -inf
    /// look like options and are collected too.
    void allow_rest();

    std::vector<std::string> rest() const;
    std::vector<std::string> given() const;  ///< the options that the command line gives, by their long names
    bool has_option(const std::string& name) const;
    const std::vector<std::string>& command_line() const;  ///< the words of the command line, program name first

  private:
    friend class CommandLine;
    friend struct Reading;
    Command(CLI::App& app, const VerbRow& row, Reading& reading, std::size_t next_word);
    void describe_verb(const VerbRow& row, std::size_t next_word);
    CLI::Option* grouped(CLI::Option* option) const;

    CLI::App* app_;
    Reading* reading_;
    std::size_t next_word_;  // index of the word that follows this verb's name on the command line
    std::string notes_;
    std::string group_ = "Options";
    bool is_hidden_ = false;  // whether the options that are added next are hidden
    std::vector<std::string> topics_{};
    std::span<const VerbRow* const> rows_{};    // the verbs that may be named on this command line
    std::span<const VerbRow* const> listed_{};  // the verbs that --help lists
    std::vector<std::unique_ptr<Command>> described_{};
    std::function<Exit()> action_{};
};

/// A command line, read by the verbs that it names.
class CommandLine {
  public:
    /// Errors: throws Error (usage) in one line. For an unknown name, it suggests the nearest known one.
    CommandLine(const VerbRow& program, std::vector<std::string> words);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine();

    /// Returns the verb to run, or nullptr if --help or --version is given.
    const Command* verb() const;
    Exit run() const;
    /// Returns the verb whose help is asked for, or nullptr.
    const VerbEntry* help() const;
    const std::string& version() const;  ///< the text of --version; empty if it is not given

  private:
    std::unique_ptr<Reading> reading_;
};

}  // namespace macheps::cmd
