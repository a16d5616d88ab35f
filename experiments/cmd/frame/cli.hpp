// SPDX-License-Identifier: Apache-2.0
// The command line: how a verb describes its options, and what of it was given. The parser behind it, CLI11, is compiled in
// cli.cpp alone, and only the verbs that the command line names are described: the program starts as fast as its verb.
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
struct Reading;  // in cli.cpp: what the commands of one command line share

/// A verb, or the program itself, before its options are made.
struct VerbRow {
    const char* name;
    const char* help;  ///< its first line is all that the list of verbs shows
    void (*describe)(Command& verb);
};

/// What stands for a value in an option's type name, and so in --help: completion reads it.
namespace value_kind {
inline constexpr const char* policy = "POLICY";  ///< a preset's name or a .toml file
inline constexpr const char* format = "FORMAT";  ///< a name of core/format_table.hpp
inline constexpr const char* file = "FILE";
inline constexpr const char* folder = "DIR";
}  // namespace value_kind

/// What a whole number may be.
struct Limits {
    std::int64_t least = 0, greatest = INT64_MAX;
};
/// Of a seed: the numbers that a manifest and every row can hold.
inline constexpr Limits seed_limits{};

/// An option being described. It is a handle, and every method returns it, so that calls chain.
class Option {
  public:
    explicit Option(CLI::Option& option) : option_(&option) {}

    Option takes(const char* kind);                 ///< one of value_kind, or another word for --help
    Option one_of(std::vector<std::string> words);  ///< refuses every other value; --help shows the words
    Option range(double least, double greatest);    ///< refuses what is outside; --help does not show the limits
    Option list();                                  ///< several values, joined by commas
    Option repeats();                               ///< one value each time that the option is given
    Option required();
    Option shows_default();  ///< the value that the variable has now
    Option default_text(std::string text);
    Option needs(Option other);
    Option excludes(Option other);

  private:
    CLI::Option* option_;
};

/// A verb being described, and afterwards what the command line gave it. It lives as long as its CommandLine, so its action
/// may refer to it.
class Command {
  public:
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    ~Command();

    /// `names` are such as `-p,--policy`, or `NAME` for a positional. Options stand in --help in the order of these calls.
    /// The linker misses `option` for a Value that is not in the list at the end of cli.cpp.
    template <class Value>
    Option option(std::string names, Value& value, std::string help);
    /// The same for whole numbers, and lists of them, within limits that the Value can hold. What is no such number, or no
    /// number that 64 bits hold, is refused with the limits. Lists also take ranges: 0-4.
    template <class Value>
    Option integer(std::string names, Value& value, Limits limits, std::string help);
    Option flag(std::string names, bool& value, std::string help);
    void version_flag(std::string text);

    /// The command line must name one of `rows`; only that one is described.
    void verbs(std::span<const VerbRow* const> rows);
    /// The next word may name one of `rows`: whether it does, and then this verb has nothing of its own.
    bool goes_on_with(std::span<const VerbRow* const> rows);
    void runs(std::function<Exit()> action);

    /// Words that no option takes (-inf looks like one) are no error but the rest().
    void allow_rest();

    std::vector<std::string> rest() const;
    std::vector<std::string> given() const;  ///< the options that stand on the command line, by their long names
    bool has_option(const std::string& name) const;
    const std::vector<std::string>& command_line() const;  ///< as the program was called

  private:
    friend class CommandLine;
    friend struct Reading;
    Command(CLI::App& app, const VerbRow& row, Reading& reading, std::size_t next_word);
    void describe_verb(const VerbRow& row, std::size_t next_word);

    CLI::App* app_;
    Reading* reading_;
    std::size_t next_word_;  // of the command line, behind this verb's name
    std::span<const VerbRow* const> rows_{};
    std::vector<std::unique_ptr<Command>> described_{};
    std::function<Exit()> action_{};
};

/// A command line, read by the verbs that it names.
class CommandLine {
  public:
    /// Errors: throws Error (usage) in one line, with the nearest name for an unknown one.
    CommandLine(const VerbRow& program, std::vector<std::string> words);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine();

    /// The verb to run; nullptr where --help or --version was asked for, and has been printed.
    const Command* verb() const;
    Exit run() const;

  private:
    std::unique_ptr<Reading> reading_;
};

}  // namespace macheps::cmd
