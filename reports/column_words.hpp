// SPDX-License-Identifier: Apache-2.0
// What is said of one column of a row type.
#pragma once
#include <string_view>

namespace macheps::column_words {

/// `unit` and `formula` are empty where there is none. Formulas stand between backquotes.
struct ColumnWords {
    std::string_view name, unit, meaning, formula;
};

inline constexpr std::string_view nats = "nats/token", values = "values", steps = "steps", bytes = "bytes", share = "1";

}  // namespace macheps::column_words
