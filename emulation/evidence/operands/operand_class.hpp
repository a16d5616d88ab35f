// SPDX-License-Identifier: Apache-2.0
// The kinds of operands that tell one model of a matrix unit from another, each hard in its own way.
#pragma once
#include <cstdint>

namespace macheps::evidence {

enum class OperandClass : std::uint8_t {
    random_bits,      ///< uniform codes of a, b and c: specials, the widest range
    finite_bits,      ///< the same without Inf and NaN
    normal,           ///< N(0, 1), nearly; c ~ N(0, sqrt k)
    close_exponents,  ///< one exponent +- 2, random significands and signs
    cancellation,     ///< pairs x, -x (1 + few ulps); c near minus the sum
    alignment_edge,   ///< one leader, the rest around F bits below it
    swamp,            ///< a leader cancelled by another or by c; small terms remain
    subnormal,        ///< subnormal a, b, c, alone and times large numbers
    one_to_four,      ///< products of significands near 2 * 2 and 1 * 1 at equal exponents
    mixed,            ///< exponents uniform over the whole range
    addend_dominant,  ///< c's exponent F + 3 above the products, give or take
    addend_tiny,      ///< and below
    overflow,         ///< sums around the greatest finite result, great products that cancel
    underflow,        ///< results around the least one, products below what a zero term reads
    tie,              ///< half an ulp of the result, give or take a unit
    zeros,            ///< most products are zeros of either sign beside large numbers
    specials,         ///< NaN of several kinds, infinities, zeros among close exponents
    exhaustive,       ///< every pair of fp8 codes with five addends; every 16-bit code with four partners
};
inline constexpr int operand_classes = 18;

constexpr const char* name_of(OperandClass cls) {
    constexpr const char* names[operand_classes] = {
        "random_bits", "finite_bits", "normal",      "close_exponents", "cancellation",    "alignment_edge",
        "swamp",       "subnormal",   "one_to_four", "mixed",           "addend_dominant", "addend_tiny",
        "overflow",    "underflow",   "tie",         "zeros",           "specials",        "exhaustive"};
    return names[static_cast<int>(cls)];
}

}  // namespace macheps::evidence
