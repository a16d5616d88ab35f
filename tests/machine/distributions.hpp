// SPDX-License-Identifier: Apache-2.0
// Operands that distinguish models of a matrix unit, with one generator for each kind of hard case, for every
// instruction. The same engine state gives the same case with every compiler and library.
#pragma once
#include "tests/machine/oracle.hpp"

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace macheps::machine_oracle {

/// What a case tests. The classes are named after those of published validation plans.
enum class Class {
    random_bits,        ///< uniform codes: specials, the widest range
    finite_bits,        ///< the same without inf and NaN
    normal,             ///< everyday numbers, C of the size of the sum
    close_exponents,    ///< one exponent +- 2, random significands and signs
    cancellation,       ///< pairs x, -x (1 + few ulps), C within a few ulps of -sum
    alignment_edge,     ///< one leader, the rest around F bits below it
    swamp,              ///< a leader cancelled by another one or by C; the rest lies around the unit
    subnormal,          ///< subnormal a, b or c, alone and times large numbers
    near_one_and_four,  ///< products of significands near 2 * 2 and 1 * 1, equal exponents
    mixed,              ///< exponents uniform over the whole range
    c_dominant,         ///< C's exponent around F + 3 above the products
    c_tiny,             ///< C's exponent around F + 3 below the products
    overflow,           ///< sums around the largest finite result, large products that cancel
    underflow,          ///< sums around the smallest result, products below what a zero term reads
    tie,                ///< half an ulp of the result, plus or minus a unit
    zeros,      ///< most operands are zeros of either sign, the others are large; a scale may be zero; C has any size
    specials,   ///< NaN of several kinds, infinities, zeros
    near_miss,  ///< a case of a class above for which some wrong model gives other bits
    count
};
[[nodiscard]] std::string_view name_of(Class cls);

/// Codes of one element's operands, ready for `evaluate`.
struct Case {
    std::vector<std::uint64_t> a, b, sa, sb;
    std::uint64_t c = 0;
};

[[nodiscard]] Case generate(const Instruction& instruction, Class cls, std::mt19937_64& random);

/// Returns a case on which this wrong model gives other bits than the right one. It searches at most `attempts` cases
/// of the classes that suit the model, and returns the last one tried if it finds none.
[[nodiscard]] Case generate_against(const Instruction& instruction, Mutation mutation, std::mt19937_64& random,
                                    int attempts = 200);

/// Returns a code of that type with the given exponent (clamped to the type's range, subnormal below emin) and fraction
/// bits. Exposed for hand-made cases.
[[nodiscard]] std::uint64_t make_code(const Type& type, bool negative, int exponent, std::uint64_t fraction);

}  // namespace macheps::machine_oracle
