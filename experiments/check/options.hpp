// SPDX-License-Identifier: Apache-2.0
// What may be asked of a check beside its declaration, as a table: `--require precision` on the command line and
// `require = "precision"` in a suite are one row.
#pragma once
#include "experiments/check/check.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct OptionKey {
    std::string_view name;  ///< as a suite has it; the option is --name with hyphens
    DeclareKey::Takes takes = DeclareKey::Takes::text;
    std::string_view value{};  ///< what stands for it in --help
    std::string_view help{};
    bool repeats = false;                                ///< several values, each of them set
    std::vector<std::string_view> (*words)() = nullptr;  ///< the only values that there are; null: others, too
    /// Errors: throws Error (usage) for a text that is no such value; `where` is what it names.
    void (*set)(Options& options, const std::string& text, const std::string& where) = nullptr;
    std::string_view default_text{};  ///< what holds when it is left out; empty: nothing does
};

/// In the order of --help.
std::span<const OptionKey> option_keys();
const OptionKey* find_option_key(std::string_view name);

/// `null`, `structure`, ...: by the values of Power.
std::string_view to_string(Power power);
std::vector<std::string_view> power_words();
/// Throws Error (usage) with the nearest word.
Power power_named(const std::string& text, const std::string& where);

}  // namespace macheps::check
