// SPDX-License-Identifier: Apache-2.0
// Names of the rounding modes (Round) and of the results of an overflow (Overflow). Policies, options and JSON spell
// them in the same way.
#pragma once
#include "core/rounding.hpp"

#include <string_view>

namespace macheps {

struct RoundName {
    std::string_view name;     ///< `nearest_even`
    std::string_view acronym;  ///< `rne`, also accepted on the command line
    Round value;
    std::string_view summary;
};
inline constexpr RoundName round_names[] = {
    {"nearest_even", "rne", Round::nearest_even,
     "to the nearest value, ties to the one with an even last digit (IEEE 754-2019 roundTiesToEven)"},
    {"nearest_away", "rna", Round::nearest_away, "to the nearest value, ties away from zero"},
    {"toward_zero", "rz", Round::toward_zero, "to the next value toward zero: the digits that do not fit are cut off"},
    {"up", "ru", Round::up, "to the next value toward +infinity"},
    {"down", "rd", Round::down, "to the next value toward -infinity"},
    {"stochastic", "sr", Round::stochastic,
     "away from zero with a probability equal to the fraction that is cut off, otherwise toward zero"},
    {"to_odd", "ro", Round::to_odd, "toward zero; the last digit becomes odd if anything is cut off"},
};

struct OverflowName {
    std::string_view name;
    Overflow value;
    std::string_view summary;
};
inline constexpr OverflowName overflow_names[] = {
    {"saturate", Overflow::saturate, "an overflow becomes the largest finite value"},
    {"nonsaturate", Overflow::nonsaturate, "an overflow becomes an infinity, or a NaN if the format has no infinity"},
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
