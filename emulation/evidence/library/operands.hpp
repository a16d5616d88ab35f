// SPDX-License-Identifier: Apache-2.0
// Operands on which rules of summation differ: classes of values by name. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"

namespace macheps::evidence {

/// Classes of finite operands. Any two rules that differ should differ on one of them.
/// normal: bell-shaped around 0. wide: exponents as widely spread as finite sums allow, at most from -12 to 12.
/// cancelling: term k - 1 - p nearly cancels term p. swamp: large terms that cancel in the same step or later, so that
/// the small terms that they did not absorb remain. drift: mostly positive products, whose sum grows until small terms
/// are lost. ramp: exponents fall along k in even rows and rise in odd rows.
inline constexpr std::string_view library_classes[] = {"cancelling", "swamp", "normal", "wide", "drift", "ramp"};
/// `special`: normal, mixed with NaN, infinities, zeros of both signs and subnormal numbers.
inline constexpr std::string_view special_class = "special";

/// Returns the operands of a class. If the problem has scales, they are random numbers from 0.5 to 1.5 and not powers
/// of two.
LibraryOperands library_operands(const LibraryProblem& problem, std::string_view operand_class, std::uint64_t seed);

/// Number of scales of each operand.
struct ScaleCounts {
    std::int64_t a = 0, b = 0;
};
ScaleCounts scale_counts(const LibraryProblem& problem);

/// Returns at most `most` indices below `n`, in ascending order: the first, the last, and others spread between them.
std::vector<std::int64_t> spread(std::int64_t n, std::int64_t most);

}  // namespace macheps::evidence
