// SPDX-License-Identifier: Apache-2.0
// The type that describes a CSV column, and the names of common units.
#pragma once
#include <string_view>

namespace macheps::reports {

/// The description of a column. `unit` and `formula` may be empty. Formulas are printed in backquotes.
struct ColumnWords {
    std::string_view name, unit, meaning, formula;
};

inline constexpr std::string_view nats = "nats/token", values = "values", steps = "steps", bytes = "bytes", share = "1";

}  // namespace macheps::reports
