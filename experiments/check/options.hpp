// SPDX-License-Identifier: Apache-2.0
// Table of the options of a check other than its declaration. A row defines both `--require precision` on the command
// line and `require = "precision"` in a suite.
#pragma once
#include "experiments/check/check.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct OptionKey {
    std::string_view name;  ///< key in a suite; the command line has --name with hyphens
    DeclareKey::Takes takes = DeclareKey::Takes::text;
    std::string_view value{};  ///< placeholder of the value in --help
    std::string_view help{};
    bool repeats = false;                                ///< may be given several times; `set` is called for each value
    std::vector<std::string_view> (*words)() = nullptr;  ///< returns all allowed values; null: `set` checks the text
    /// Sets the option. Errors: throws Error (usage) for an invalid value; `where` is the place that the error names.
    void (*set)(Options& options, const std::string& text, const std::string& where) = nullptr;
    std::string_view default_text{};    ///< value if the option is left out; empty: no default
    std::string_view group = "Limits";  ///< heading of the option in --help
};

/// Returns all options in the order of --help.
std::span<const OptionKey> option_keys();
const OptionKey* find_option_key(std::string_view name);

/// Returns `null`, `structure`, `precision` or `all`.
std::string_view to_string(Power power);
std::vector<std::string_view> power_words();
/// Returns the class of wrong kernels with this name. Errors: throws Error (usage) that suggests the nearest name.
Power power_named(const std::string& text, const std::string& where);

}  // namespace macheps::check
