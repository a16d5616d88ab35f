// SPDX-License-Identifier: Apache-2.0
// Formulas and functions in 50, 150 and 500 digits, for values that intervals of doubles leave open.
#pragma once
#include "core/codec.hpp"
#include "experiments/analysis/eval_tree.hpp"

#include <vector>

namespace macheps::analysis {

inline constexpr int wide_precisions[] = {50, 150, 500};

/// A number of many digits as one rounding needs it: 63 of its bits and a last one that says whether more follow.
struct WideResult {
    Unpacked value{Unpacked::Kind::nan, false, 0, 0};
    double near = 0;  ///< to fp64
};

/// `precision` indexes wide_precisions. Within all but eight of the digits of a double, the value is taken to be that double:
/// roots of squares, and such. Errors: throws Error (usage) where a loop does not end.
WideResult wide_value(const Expression& expression, const std::vector<double>& inputs, int precision);
WideResult wide_call(Op op, const std::vector<double>& arguments, int precision);
WideResult wide_literal(const Node& node, int precision);

}  // namespace macheps::analysis
