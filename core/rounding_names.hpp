// SPDX-License-Identifier: Apache-2.0
// The names of rounding modes and of what an overflow becomes: one spelling for policies, options and JSON.
#pragma once
#include "core/rounding.hpp"

#include <string_view>

namespace macheps {

struct RoundName {
    std::string_view name;     ///< `nearest_even`
    std::string_view acronym;  ///< `rne`, which command lines take as well
    Round value;
};
inline constexpr RoundName round_names[] = {
    {"nearest_even", "rne", Round::nearest_even},
    {"nearest_away", "rna", Round::nearest_away},
    {"toward_zero", "rz", Round::toward_zero},
    {"up", "ru", Round::up},
    {"down", "rd", Round::down},
    {"stochastic", "sr", Round::stochastic},
    {"to_odd", "ro", Round::to_odd},
};

struct OverflowName {
    std::string_view name;
    Overflow value;
};
inline constexpr OverflowName overflow_names[] = {
    {"saturate", Overflow::saturate},
    {"nonsaturate", Overflow::nonsaturate},
};

constexpr std::string_view name_of(Round mode) {
    for (const RoundName& row : round_names) {
        if (row.value == mode) return row.name;
    }
    return {};
}
constexpr std::string_view name_of(Overflow overflow) {
    for (const OverflowName& row : overflow_names) {
        if (row.value == overflow) return row.name;
    }
    return {};
}

}  // namespace macheps
