// SPDX-License-Identifier: Apache-2.0
// Operands that tell one model of a matrix unit from another: one generator for each way of being hard, for every
// instruction. The same engine state gives the same case with every compiler and library.
#pragma once
#include "tests/machine/oracle.hpp"

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace macheps::machine_oracle {

/// What a case aims at; after the class of the same name in published validation plans.
enum class Class {
    random_bits,        ///< uniform codes: specials, the widest range
    finite_bits,        ///< the same without inf and NaN
    normal,             ///< everyday numbers, C of the size of the sum
    close_exponents,    ///< one exponent +- 2, random significands and signs
    cancellation,       ///< pairs x, -x (1 + few ulps), C = -sum give or take
    alignment_edge,     ///< one leader, the rest around F bits below it
    swamp,              ///< a leader cancelled by another or by C; what remains lies around the unit
    subnormal,          ///< subnormal a, b or c, alone and times large numbers
    near_one_and_four,  ///< products of significands near 2 * 2 and 1 * 1, equal exponents
    mixed,              ///< exponents uniform over the whole range
    c_dominant,         ///< C's exponent around F + 3 above the products
    c_tiny,             ///< and below them
    overflow,           ///< sums around the greatest finite result, great products that cancel
    underflow,          ///< results around the least result, products below what a zero term reads
    tie,                ///< half an ulp of the result, give or take a unit
    zeros,      ///< most operands are zeros of either sign, the others are large; a scale may be zero; C has any size
    specials,   ///< NaN of several kinds, infinities, zeros
    near_miss,  ///< one of the classes above until some wrong model gives other bits
    count
};
[[nodiscard]] std::string_view name_of(Class cls);

/// Codes of one element's operands, ready for `evaluate`.
struct Case {
    std::vector<std::uint64_t> a, b, sa, sb;
    std::uint64_t c = 0;
};

[[nodiscard]] Case generate(const Instruction& instruction, Class cls, std::mt19937_64& random);

/// A case on which this wrong model gives other bits than the right one. Searches the classes that suit it, at most
/// `attempts` cases; what comes back if none is found is the last one tried.
[[nodiscard]] Case generate_against(const Instruction& instruction, Mutation mutation, std::mt19937_64& random,
                                    int attempts = 200);

/// A code of that type: its exponent (clamped to what the type has; below emin a subnormal) and random or given
/// fraction bits. Exposed for hand-made cases.
[[nodiscard]] std::uint64_t make_code(const Type& type, bool negative, int exponent, std::uint64_t fraction);

}  // namespace macheps::machine_oracle
