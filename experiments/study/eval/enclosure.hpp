// SPDX-License-Identifier: Apache-2.0
// Exact values of formulas and functions, rounded once. Arb computes enclosures, which are intervals that contain the
// exact value. Their precision is increased until all numbers in the interval round to the same result. In a build
// without Arb, the functions that need enclosures throw Error.
#pragma once
#include "core/rounding.hpp"
#include "experiments/study/eval/tree.hpp"

#include <optional>
#include <vector>

namespace macheps::study {

/// Returns whether this build has Arb.
bool has_enclosures();
/// Throws Error (no_device) if this build does not have Arb. The error names the package to install.
void require_enclosures();

/// Exact value of a formula, rounded once.
struct FormulaReference {
    double rounded = 0;  ///< a number of the format, an infinity or NaN
    double near = 0;     ///< the exact value rounded to fp64; NaN and infinities are kept
    double rest = 0;     ///< the exact value minus `near`, rounded
    bool is_nan = false;
};

/// Returns the maximum number of bits of an enclosure: eight times the exponent range of the format, and at least 2048.
/// This suffices for x - y and x^2 - y^2, where x and y are numbers of the format: there, the number of bits that
/// cancel is at most four times the exponent range.
constexpr int max_enclosure_bits(const Format& f) {
    const int bits = 8 << f.exponent_bits();
    return bits < 2048 ? 2048 : bits;
}

/// Returns the exact value of `expression`, rounded. Returns nothing if the result is still unknown when the limit of
/// the precision or of the work for one input is reached. Errors: throws EndlessLoop (walk.hpp).
std::optional<FormulaReference> reference_value(const Expression& expression, const Format& format, Round mode,
                                                const std::vector<double>& inputs);
/// Returns whether the precondition of `expression` holds in exact arithmetic. Returns nothing if that is still unknown
/// when a limit is reached.
std::optional<bool> is_precondition_met(const Expression& expression, const std::vector<double>& inputs);
/// Return the value of one function or one literal, rounded once to `format`, or nothing if the result is still unknown
/// when a limit is reached.
std::optional<double> enclosed_call(Op op, const std::vector<double>& x, const Format& format, Round mode,
                                    RandomBits random);
std::optional<double> enclosed_literal(const Node& node, const Format& format, Round mode, RandomBits random);

/// Frees the constants that Arb keeps for each thread. Call this in each thread when its work ends.
void free_enclosure_memory();

}  // namespace macheps::study
