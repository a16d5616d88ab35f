// SPDX-License-Identifier: Apache-2.0
// Exact values of formulas and functions, rounded once. Enclosures get more digits until every value in them rounds to
// the same number. Arb computes them. In a build without Arb, these functions throw.
#pragma once
#include "core/rounding.hpp"
#include "experiments/study/eval/tree.hpp"

#include <optional>
#include <vector>

namespace macheps::study {

/// Returns whether this build has Arb.
bool has_enclosures();
/// Errors: throws Error (no_device) that names the package to install.
void require_enclosures();

/// Exact value of a formula, rounded once.
struct FormulaReference {
    double rounded = 0;  ///< a number of the format, an infinity or NaN
    double near = 0;     ///< the exact value rounded to fp64; NaN and infinities as they are
    double rest = 0;     ///< the exact value minus `near`, rounded
    bool is_nan = false;
};

/// Returns the maximum number of digits (bits) of an enclosure: eight times the exponent range of the format, and at
/// least 2048. Differences of numbers of the format, and of their squares, cancel at most four times that range.
constexpr int max_enclosure_bits(const Format& f) {
    const int bits = 8 << f.exponent_bits();
    return bits < 2048 ? 2048 : bits;
}

/// Returns the exact value, rounded. Empty if the maximum digits or work of one input do not settle it. Errors: throws
/// EndlessLoop (walk.hpp).
std::optional<FormulaReference> reference_value(const Expression& expression, const Format& format, Round mode,
                                                const std::vector<double>& inputs);
/// Returns whether the precondition of `expression` holds for the unrounded numbers. Empty if that is not settled.
std::optional<bool> is_precondition_met(const Expression& expression, const std::vector<double>& inputs);
/// Return the value of one function or one literal, rounded once to `format`. Empty if it is not settled.
std::optional<double> enclosed_call(Op op, const std::vector<double>& x, const Format& format, Round mode,
                                    RandomBits random);
std::optional<double> enclosed_literal(const Node& node, const Format& format, Round mode, RandomBits random);

/// Frees the constants that Arb keeps for each thread. Call this in each thread when its work ends.
void free_enclosure_memory();

}  // namespace macheps::study
