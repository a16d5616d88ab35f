// SPDX-License-Identifier: Apache-2.0
// What the words about a column are.
#pragma once
#include <string_view>

namespace macheps::reports {

/// `unit` and `formula` are empty where there is none. Formulas stand between backquotes.
struct ColumnWords {
    std::string_view name, unit, meaning, formula;
};

inline constexpr std::string_view nats = "nats/token", values = "values", steps = "steps", bytes = "bytes", share = "1";

}  // namespace macheps::reports
