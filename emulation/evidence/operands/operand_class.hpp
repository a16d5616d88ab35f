// SPDX-License-Identifier: Apache-2.0
// Classes of operands on which models of a matrix unit differ. Each class is difficult in its own way. F is the number
// of fraction bits that an alignment keeps (SumRule::fraction_bits).
#pragma once
#include <cstdint>

namespace macheps::evidence {

enum class OperandClass : std::uint8_t {
    random_bits,      ///< uniform random codes of a, b and c: special values, the full range
    finite_bits,      ///< the same without Inf and NaN
    normal,           ///< a and b: nearly N(0, 1) times 2^e; |c| is about sqrt(k) times 2^(2 e)
    close_exponents,  ///< exponents of products within 3 of a common one, random signs and fractions
    cancellation,     ///< pairs x and -x (1 + a few ulps); c is near minus the sum
    alignment_edge,   ///< one large term, the others about F bits below it
    swamp,            ///< a large term is cancelled by another one or by c; small terms remain
    subnormal,        ///< subnormal a, b, c, alone and times large numbers
    one_to_four,      ///< products of significands near 2 * 2 and 1 * 1 at equal exponents
    mixed,            ///< exponents uniform over the whole range
    addend_dominant,  ///< c's exponent is above those of the products, mostly by F - 4 to F + 6
    addend_tiny,      ///< c's exponent is below those of the products by the same amounts
    overflow,         ///< sums near the largest finite result, large products that cancel
    underflow,        ///< results near the smallest one, products near the unit that a zero c sets
    tie,              ///< sums half an ulp from a result, exactly or within about a unit of the alignment
    zeros,            ///< most products are zeros of either sign, often zero times a large number
    specials,         ///< NaN of several kinds, infinities and zeros among numbers of close exponents
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
