// SPDX-License-Identifier: Apache-2.0
// Named classes of operands on which different rules of summation give different results. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"

namespace macheps::evidence {

/// Classes of finite operands. Any two rules with different results should differ on at least one class.
/// - normal: bell-shaped around 0
/// - wide: exponents are spread as widely as finite sums allow, at most from -12 to 12
/// - cancelling: term k - 1 - p nearly cancels term p
/// - swamp: large terms cancel in the same step or later, and the small terms that were not absorbed remain
/// - drift: most products are positive, so the sum grows until small terms are lost
/// - ramp: exponents fall along k in even rows and rise in odd rows
inline constexpr std::string_view library_classes[] = {"cancelling", "swamp", "normal", "wide", "drift", "ramp"};
/// `special`: normal, mixed with NaN, infinities, zeros of both signs and subnormal numbers.
inline constexpr std::string_view special_class = "special";

/// Returns the operands of a class. If the problem has scales, they are random numbers from 0.5 to 1.5, which are not
/// powers of two in general.
LibraryOperands library_operands(const LibraryProblem& problem, std::string_view operand_class, std::uint64_t seed);

/// Number of scales of each operand.
struct ScaleCounts {
    std::int64_t a = 0, b = 0;
};
ScaleCounts scale_counts(const LibraryProblem& problem);

/// Returns at most `most` of the indices below `n`, in ascending order and evenly spread, from the first to the last.
std::vector<std::int64_t> spread(std::int64_t n, std::int64_t most);

}  // namespace macheps::evidence
