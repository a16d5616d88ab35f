// SPDX-License-Identifier: Apache-2.0
// Classes of operands for which different models of a matrix unit give different results. In the comments, F is the
// number of fraction bits that the unit keeps when it aligns terms (SumRule::fraction_bits).
#pragma once
#include <cstdint>

namespace macheps::evidence {

enum class OperandClass : std::uint8_t {
    random_bits,      ///< uniform random codes of a, b and c, including Inf and NaN
    finite_bits,      ///< uniform random codes of finite numbers
    normal,           ///< a and b are nearly N(0, 1) times 2^e, and |c| is about sqrt(k) times 2^(2 e)
    close_exponents,  ///< all products within 3 of a common exponent, with random signs and fractions
    cancellation,     ///< pairs of products x and -x (1 + a few ulps); c is often near minus the sum
    alignment_edge,   ///< one large term; all others are about F bits below it
    swamp,            ///< a large term that another product or c cancels, and small terms, which remain
    subnormal,        ///< a, b or c is subnormal, also in products with large numbers
    one_to_four,      ///< products of significands near 2 * 2 and 1 * 1 at equal exponents
    mixed,            ///< exponents uniform over the whole range
    addend_dominant,  ///< the exponent of c is above the products' exponents, mostly by F - 4 to F + 6
    addend_tiny,      ///< the exponent of c is below the products' exponents, mostly by F - 4 to F + 6
    overflow,         ///< sums near the largest finite result, or large products that cancel
    underflow,        ///< results near the smallest number, or products near the last bit that a sum with c = 0 keeps
    tie,              ///< sums halfway between two results, exactly or off by about the last bit that is kept
    zeros,            ///< most products are zeros of either sign, often zero times a large number
    specials,         ///< NaN of several kinds, infinities and zeros among numbers with close exponents
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
