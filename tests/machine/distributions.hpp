// SPDX-License-Identifier: Apache-2.0
// Generates operands that distinguish models of a matrix unit. Each class of hard cases has a generator, which works
// for every instruction. The same state of the random engine gives the same case with every compiler and library.
#pragma once
#include "tests/machine/oracle.hpp"

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace macheps::machine_oracle {

/// Classes of cases. They are named after the classes of published validation plans. F is Instruction::fraction_bits.
enum class Class {
    random_bits,        ///< uniform codes, including infinities and NaN
    finite_bits,        ///< uniform codes without infinities and NaN
    normal,             ///< normally distributed operands, C about as large as the sum
    close_exponents,    ///< exponents of products within +- 2, random significands and signs
    cancellation,       ///< pairs x, -x (1 + few ulps), C within a few ulps of -sum
    alignment_edge,     ///< one large term, the other terms around F bits below it
    swamp,              ///< a large term that another term or C cancels, and terms around the alignment's unit
    subnormal,          ///< subnormal a, b or c; subnormal factors times large or medium factors
    near_one_and_four,  ///< products of two significands near 2 or of two near 1, with equal exponents
    mixed,              ///< exponents uniform over the whole range
    c_dominant,         ///< C's exponent around F + 3 above that of the products
    c_tiny,             ///< C's exponent around F + 3 below that of the products
    overflow,           ///< sums around the largest finite result, large products that cancel
    underflow,          ///< sums around the smallest result, products below the unit that a zero term sets
    tie,                ///< sums exactly or nearly half way between two results
    zeros,      ///< most operands are zeros of either sign, the others are large; a scale may be zero; C has any size
    specials,   ///< NaN of several kinds, infinities, zeros
    near_miss,  ///< a case of another class for which some wrong model gives a wrong result
    count
};
[[nodiscard]] std::string_view name_of(Class cls);

/// Codes of the operands for one element of the result, in the form that `evaluate` takes.
struct Case {
    std::vector<std::uint64_t> a, b, sa, sb;
    std::uint64_t c = 0;
};

[[nodiscard]] Case generate(const Instruction& instruction, Class cls, std::mt19937_64& random);

/// Returns a case for which the wrong model `mutation` and the right model give different bits. Tries at most
/// `attempts` random cases of classes that suit the mutation. If the models agree on all of them, returns the last
/// case.
[[nodiscard]] Case generate_against(const Instruction& instruction, Mutation mutation, std::mt19937_64& random,
                                    int attempts = 200);

/// Returns a code of `type` with the given exponent and fraction bits. The exponent is clamped to the type's range;
/// below emin the code is subnormal. Tests also use this function for hand-made cases.
[[nodiscard]] std::uint64_t make_code(const Type& type, bool negative, int exponent, std::uint64_t fraction);

}  // namespace macheps::machine_oracle
