// SPDX-License-Identifier: Apache-2.0
// Converts the words of a command line to a config. Used only in this folder.
#pragma once
#include "experiments/files/config/value.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace macheps::files {

/// A word of a command line.
struct ArgumentWord {
    std::string text{};
    ConfigPlace place{};
    bool quoted = false;    ///< whether it is in quotes and therefore is not an option, even if it begins with a dash
    std::string unknown{};  ///< not empty if a part of the word is unknown: this part as written
    std::string reason{};   ///< why this part is unknown
    std::size_t unknown_at = 0;  ///< index in `text` at which the first unknown part belongs

    /// Returns whether all of the word before its first `=` is known. A word without `=` must be known.
    bool has_known_key() const { return unknown.empty() || unknown_at > text.find('='); }
};

/// Treatment of words that are neither options nor values of options.
enum class Positional : std::uint8_t {
    refuse,   ///< the first word must be an option
    collect,  ///< `key=value` is an override, and other words are added to the command's `positional`
};

/// Returns the options as a map. `name` is the file's name in places.
ConfigFile config_of_words(const std::vector<ArgumentWord>& words, const std::string& name, Positional positional);

}  // namespace macheps::files
