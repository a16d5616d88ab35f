// SPDX-License-Identifier: Apache-2.0
// Values of shell variables, and the words into which a written word expands. Used only in this folder.
#pragma once
#include "experiments/files/config/command_line/argument_words.hpp"
#include "experiments/files/config/text.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::files {

inline constexpr std::string_view shell_blanks = " \t\r\n";
/// Variables that contain others can grow exponentially.
inline constexpr std::size_t max_shell_word_bytes = config_size_limit;

/// The value of a variable, or of a part of a word.
struct ShellValue {
    std::vector<std::string> items{std::string()};  ///< one, unless it is an array
    bool is_array = false;
    std::string unknown{}, reason{};  ///< not empty if the value is unknown
    std::string condition{};          ///< what decides whether the variable has this value

    bool is_certain() const { return unknown.empty() && condition.empty(); }
};

ShellValue unknown_value(std::string written, std::string reason);

/// Returns the items of an array as one text, as in `"${NAME[*]}"`.
ShellValue joined(const ShellValue& array);

/// The place of an expansion.
enum class Within : std::uint8_t {
    word,        ///< without quotes: its result is split into words
    assignment,  ///< without quotes, in the value of a variable: its result is not split
    quotes,      ///< in double quotes or in a here-document
};

/// Returns whether the word in `${NAME:-word}` is in quotes. In double quotes, single quotes are ordinary characters.
bool is_in_quotes(std::string_view word, Within within);

/// Returns whether bash makes several words of a word without quotes: `{a,b}` or `{1..8}`.
bool has_braces(std::string_view word);

/// The words into which one written word expands.
struct Expansion {
    std::vector<ArgumentWord> words{};
    std::string condition{};
    std::vector<std::string> left_out{};
    bool is_plain = true;  ///< without quotes and expansions
};

/// Returns the words as one text with spaces between them.
ShellValue joined(const Expansion& expansion);

/// Builds the words of an expansion from its parts.
class WordBuilder {
  public:
    WordBuilder(ConfigPlace place, Expansion& out) : place_(std::move(place)), out_(out) {}

    void add_text(std::string_view text);
    void add_quote() { has_word_ = true; }
    /// Adds the first item of a value, or all items. Without quotes, they are split into words.
    void add(const ShellValue& value, bool is_quoted, bool takes_all);
    void finish();

  private:
    void split(std::string_view text);

    ConfigPlace place_;
    Expansion& out_;
    ArgumentWord word_{};
    bool has_word_ = false;  // quotes and texts make a word, even if it is empty
    std::size_t bytes_ = 0;
};

}  // namespace macheps::files
