// SPDX-License-Identifier: Apache-2.0
// Operands that tell rules of summation apart: classes of values by name. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"

namespace macheps::evidence {

/// Classes of finite operands; any two rules that differ should differ on one of them.
/// normal: a bell about 0. wide: exponents over half the range. cancelling: term k - 1 - p takes away term p, nearly.
/// swamp: great terms that are taken away again, in their step or far on, so that the small ones remain that they
/// did not swallow. drift: positive products, a sum that grows until small terms are lost. ramp: exponents fall along k
/// in even rows and rise in odd ones.
inline constexpr std::string_view library_classes[] = {"cancelling", "swamp", "normal", "wide", "drift", "ramp"};
/// `special`: normal, with NaN, infinities, zeros of both signs and subnormal numbers strewn in.
inline constexpr std::string_view special_class = "special";

/// Operands of a class, with scales that are no powers of two where the problem has scales.
LibraryOperands library_operands(const LibraryProblem& problem, std::string_view operand_class, std::uint64_t seed);

/// How many scales each operand has.
struct ScaleCounts {
    std::int64_t a = 0, b = 0;
};
ScaleCounts scale_counts(const LibraryProblem& problem);

/// The sampled rows or columns of `n`: the first, the last, and others spread between them; at most `most`, ascending.
std::vector<std::int64_t> spread(std::int64_t n, std::int64_t most);

}  // namespace macheps::evidence
