// SPDX-License-Identifier: Apache-2.0
// The properties of a matrix instruction that determine its test operands, and functions that draw the codes of
// numbers. Host and device.
#pragma once
#include "core/rng.hpp"
#include "emulation/machine/step.hpp"

namespace macheps::evidence {

struct OperandShape {
    int m = 0, n = 0, k = 0;  ///< shape of one instruction
    int chain = 1;            ///< number of instructions that run one after the other
    Format a{}, b{}, c{};     ///< the format of d is that of c
    int terms = 1;            ///< number of products that are added in one step
    int fraction_bits = 0;    ///< bits kept below the largest exponent; equal to `precision` if the unit cuts nothing
    int precision = 24;       ///< precision of the result, in bits
    int zero_exponent = 0;
    bool pairs_of_four = false;  ///< steps alternate: products with k mod 4 = 0 or 1, then those with 2 or 3
    bool nearest = false;        ///< results are rounded to nearest
    std::uint32_t id = 0;        ///< selects the stream of random bits

    MACHEPS_HD constexpr int products() const { return chain * k; }
};

constexpr OperandShape operand_shape(int m, int n, int k, int chain, const Format& a, const Format& b,
                                     const SumRule& rule, std::uint32_t id) {
    const Format result = matrix_unit::delivered_format(rule.delivery);
    OperandShape shape{.m = m, .n = n, .k = k, .chain = chain, .a = a, .b = b, .c = rule.addend};
    shape.terms = rule.model == SumModel::fma_chain ? 1 : min_of(rule.terms, k);
    shape.fraction_bits = rule.fraction_bits != 0 ? rule.fraction_bits : result.precision;
    shape.precision = result.precision;
    shape.zero_exponent = rule.zero_exponent;
    shape.pairs_of_four = rule.model == SumModel::through_fp16;
    shape.nearest = matrix_unit::rounds_to_nearest(rule.delivery);
    shape.id = id;
    return shape;
}

/// Returns the exponent of the smallest positive number of the format, which is subnormal.
MACHEPS_HD constexpr int min_exponent(const Format& f) { return f.emin() - f.fraction_bits(); }
/// Returns the exponent of the largest finite number of the format.
MACHEPS_HD constexpr int greatest_exponent(const Format& f) {
    return static_cast<int>(f.max_finite_code() >> f.fraction_bits()) - f.exponent_bias;
}

/// Random number generator for test operands. The four arguments seed, form, tile and part select its stream of bits.
class Dice {
  public:
    MACHEPS_HD constexpr Dice(std::uint64_t seed, std::uint32_t form, std::uint64_t tile, std::uint32_t part)
        : seed_(seed), form_(form), tile_(static_cast<std::uint32_t>(tile)), part_(part) {}

    MACHEPS_HD constexpr std::uint32_t bits() {
        if (at_ % 4 == 0) {
            block_ = random_block({.seed = seed_, .step = form_, .site = part_},
                                  static_cast<std::uint64_t>(at_ / 4) << 32 | tile_);
        }
        return block_.word[at_++ % 4];
    }
    MACHEPS_HD constexpr std::uint64_t bits64() {
        const std::uint64_t high = bits();
        return high << 32 | bits();
    }
    /// Returns a random integer from `low` to `high`, both included. Returns `low` if high < low.
    MACHEPS_HD constexpr int between(int low, int high) {
        const std::uint64_t random = bits();
        return high <= low ? low : low + static_cast<int>(random * static_cast<std::uint64_t>(high - low + 1) >> 32);
    }
    MACHEPS_HD constexpr bool chance(int percent) { return between(0, 99) < percent; }

  private:
    std::uint64_t seed_;
    std::uint32_t form_, tile_, part_;
    std::uint32_t at_ = 0;
    PhiloxBlock block_{};
};

/// Pattern of the fraction bits of a number.
enum class Digits : std::uint8_t { any, ones, none, few };

MACHEPS_HD constexpr Digits some_digits(Dice& dice) {
    constexpr Digits choices[] = {Digits::any, Digits::any, Digits::ones, Digits::none, Digits::few};
    return choices[dice.between(0, 4)];
}

/// Returns the code of a number with exponent `e`, clamped to the range of the format. If the exponent is below emin,
/// the number is subnormal. Container bits that the unit does not read, which tf32 has, are random.
MACHEPS_HD constexpr std::uint64_t make_code(const Format& f, bool negative, int e, Digits digits, Dice& dice) {
    const int n = f.fraction_bits();
    const std::uint64_t random = dice.bits64(), all = (std::uint64_t{1} << n) - 1;
    std::uint64_t fraction = 0;
    switch (digits) {
        case Digits::any:
            fraction = random & all;
            break;
        case Digits::ones:
            fraction = all - random % 3 % (all + 1);
            break;
        case Digits::few:
            fraction = (std::uint64_t{1} << random % static_cast<std::uint64_t>(n + 1) | (random >> 32 & 1)) & all;
            break;
        default:
            break;
    }
    e = min_of(max_of(e, min_exponent(f)), greatest_exponent(f));
    std::uint64_t code = 0;
    if (e < f.emin()) {
        code = (all + 1 + fraction) >> (f.emin() - e);
    } else {
        code = min_of(static_cast<std::uint64_t>(e + f.exponent_bias) << n | fraction, f.max_finite_code());
    }
    code |= negative ? f.sign_bit() : 0;
    return code << f.padding | (f.padding != 0 ? random >> (64 - f.padding) : 0);
}

MACHEPS_HD constexpr std::uint64_t random_code(const Format& f, bool finite, Dice& dice) {
    std::uint64_t code = dice.bits64() >> (64 - f.container_bits());
    const std::uint64_t magnitude = code >> f.padding & f.magnitude_mask();
    // Clears the top exponent bit of a code above the largest finite code. It is set in all these codes, and without it
    // the number is finite.
    if (finite && magnitude > f.max_finite_code()) code ^= std::uint64_t{1} << (f.bits - 2 + f.padding);
    return code;
}

/// Returns a special value with a random sign: a NaN (of several kinds), an infinity, a zero, or the smallest or
/// largest finite number.
MACHEPS_HD constexpr std::uint64_t special_code(const Format& f, Dice& dice) {
    const int kind = dice.between(0, 7);
    std::uint64_t code = 0;
    if (!f.has_inf()) {
        code = kind < 4 ? f.nan_code() : kind < 6 ? f.max_finite_code() : 0;
    } else {
        const std::uint64_t inf = f.inf_code(), quiet = std::uint64_t{1} << (f.fraction_bits() - 1);
        switch (kind) {
            case 0:
                code = inf | quiet;
                break;
            case 1:
                code = inf | 1;  // signaling, with the smallest payload
                break;
            case 2:
                code = inf | quiet | (dice.bits64() & (quiet - 1));
                break;
            case 3:
                code = dice.bits() & 1;
                break;
            case 4:
                code = f.max_finite_code();
                break;
            default:
                code = inf;
                break;
        }
    }
    return (code | (dice.chance(50) ? f.sign_bit() : 0)) << f.padding;
}

MACHEPS_HD constexpr std::uint64_t subnormal_code(const Format& f, bool negative, Dice& dice) {
    const int e = dice.between(min_exponent(f), f.emin() - 1);
    return make_code(f, negative, e, Digits::any, dice);
}

MACHEPS_HD constexpr std::uint64_t negated_code(const Format& f, std::uint64_t code) {
    return code ^ f.sign_bit() << f.padding;
}

/// Moves the number away from zero by `ulps` units in the last place (toward zero if `ulps` is negative). Returns
/// `code` unchanged if the result would not be finite or would change its sign.
MACHEPS_HD constexpr std::uint64_t nudged_code(const Format& f, std::uint64_t code, int ulps) {
    const std::uint64_t sign = f.sign_bit() << f.padding, magnitude = (code & ~sign) >> f.padding;
    const auto moved = static_cast<std::int64_t>(magnitude) + ulps;
    if (moved < 0 || static_cast<std::uint64_t>(moved) > f.max_finite_code()) return code;
    const std::uint64_t ignored = code & ((std::uint64_t{1} << f.padding) - 1);
    return (code & sign) | static_cast<std::uint64_t>(moved) << f.padding | ignored;
}

}  // namespace macheps::evidence
