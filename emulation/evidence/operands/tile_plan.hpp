// SPDX-License-Identifier: Apache-2.0
// Properties that all elements of a tile of operands share, and random draws that several classes of operands use. If
// an expression contains two draws, C++ defines their order, so all compilers produce the same operands.
#pragma once
#include "emulation/evidence/operands/operand_shape.hpp"

namespace macheps::evidence {

/// Properties of one product that are the same in all rows and columns of the tile.
struct ProductPlan {
    /// Sign of the product. With `common`, it is the sign of the row times the sign of the column, negated if
    /// `negative` is set.
    enum class Sign : std::uint8_t { any, common };

    bool zero = false, zero_in_a = false;
    bool subnormal_a = false, subnormal_b = false;
    int a = 0, b = 0;  ///< exponents of the factors
    Digits digits = Digits::any;
    Sign sign = Sign::any;
    bool negative = false;
    int jitter = 0;    ///< exponents of elements of a and b vary by up to this much
    int mirrors = -1;  ///< index of the product that this product negates, or -1
    int nudge = 0;     ///< with `mirrors`: maximum error of the negated element of a, in ulps
};

/// Properties of c that are the same for all outputs of the tile.
struct AddendPlan {
    /// With `opposite`, c is minus the sum of the products, up to an error of `nudge` ulps.
    enum class Kind : std::uint8_t { zero, sized, subnormal, random, opposite };

    Kind kind = Kind::zero;
    int exponent = 0, jitter = 0;
    Digits digits = Digits::any;
    bool common_sign = false, negative = false;
    int nudge = 0;
};

/// Plan of a whole tile. Each class uses in its own way `leader`, the chosen products `first`, `second` and `third`,
/// and the flags.
struct TilePlan {
    OperandShape shape{};
    std::uint64_t number = 0;  ///< number of the tile
    int leader = 0;            ///< reference exponent, usually that of the largest term
    int kind = 0;              ///< random number 0 .. 99, or the number of the case that this tile tests
    int first = 0, second = 0, third = 0;
    bool flag = false, few = false;
    Digits digits = Digits::any;
    AddendPlan addend{};

    MACHEPS_HD constexpr int least() const { return min_exponent(shape.a) + min_exponent(shape.b); }
    MACHEPS_HD constexpr int greatest() const { return greatest_exponent(shape.a) + greatest_exponent(shape.b); }

    /// Draws the tile's reference exponent, which is a possible exponent of the result. If the formats allow it, there
    /// are products whose exponents are lower by up to `room`.
    MACHEPS_HD constexpr int draw_leader(int room, Dice& dice) const {
        const int low = max_of(least(), shape.c.emin() - shape.c.precision),
                  high = min_of(greatest(), greatest_exponent(shape.c) - 1);
        if (low + room > high - 6 && dice.chance(60)) return high - dice.between(0, 2);
        if (dice.chance(60)) return min_of(max_of(dice.between(-12, 12), min_of(low + room, high)), high);
        return low + room < high ? dice.between(low + room, high) : dice.between(low, high);
    }

    /// Splits the exponent `e` of a product between a and b. In most draws, both factors are normal numbers if
    /// possible.
    MACHEPS_HD constexpr void put(ProductPlan& s, int e, Dice& dice) const {
        const bool normal = dice.chance(75);
        const Format &a = shape.a, &b = shape.b;
        e = min_of(max_of(e, least()), greatest());
        const int low_a = normal ? a.emin() : min_exponent(a), low_b = normal ? b.emin() : min_exponent(b);
        int low = max_of(low_a, e - greatest_exponent(b)), high = min_of(greatest_exponent(a), e - low_b);
        if (low > high) {
            low = max_of(min_exponent(a), e - greatest_exponent(b));
            high = min_of(greatest_exponent(a), e - min_exponent(b));
        }
        s.zero = false;
        s.a = dice.between(low, high);
        s.b = e - s.a;
    }

    MACHEPS_HD constexpr void put_zero(ProductPlan& s, Dice& dice) const {
        s.zero = true;
        s.zero_in_a = dice.chance(50);
        // The nonzero factor has a random exponent or the largest exponent.
        const bool large = dice.chance(50);
        s.a = large ? greatest_exponent(shape.a) : dice.between(min_exponent(shape.a), greatest_exponent(shape.a));
        s.b = large ? greatest_exponent(shape.b) : dice.between(min_exponent(shape.b), greatest_exponent(shape.b));
        s.jitter = 1;
    }

    /// Draws a small product. In most draws, its exponent is near that of the last bit that a step with the largest
    /// exponent t keeps.
    MACHEPS_HD constexpr void put_small(ProductPlan& s, int t, Dice& dice) const {
        const int f = max_of(shape.fraction_bits, shape.precision);
        const int e = dice.chance(70) ? t - f + dice.between(-3, 3) : t - dice.between(1, f);
        // If no product of the formats has an exponent as low as e, put() would make a larger one, which would hide the
        // last bits of c. In most of these cases, a zero is used instead.
        if (dice.chance(20) || (e < least() - 1 && dice.chance(85))) return put_zero(s, dice);
        put(s, e, dice);
        s.digits = some_digits(dice);
    }

    MACHEPS_HD constexpr void small_addend(int t, Dice& dice) {
        const int f = max_of(shape.fraction_bits, shape.precision);
        if (dice.chance(40)) return;
        addend.kind = AddendPlan::Kind::sized;
        addend.exponent = dice.chance(50) ? t - f + dice.between(-3, 3) : t - dice.between(0, f);
        addend.jitter = 1;
        addend.digits = some_digits(dice);
    }

    MACHEPS_HD constexpr void sized_addend(int exponent, int jitter, Digits of) {
        addend = {};
        addend.kind = AddendPlan::Kind::sized;
        addend.exponent = exponent;
        addend.jitter = jitter;
        addend.digits = of;
    }

    /// Chooses two different products. In most draws, both are added in the same step.
    MACHEPS_HD constexpr void choose_two(Dice& dice) {
        const int all = shape.products();
        if (shape.pairs_of_four && dice.chance(60)) {
            const int base = dice.between(0, all / shape.k - 1) * shape.k, half = 2 * dice.between(0, 1);
            first = base + 4 * dice.between(0, shape.k / 4 - 1) + half;
            first += dice.between(0, 1);
            second = base + 4 * dice.between(0, shape.k / 4 - 1) + half;
            if (second == first) ++second;
            return;
        }
        const int range = dice.chance(60) && shape.terms > 1 ? shape.terms : all;
        const int start = dice.between(0, all / range - 1) * range;
        const int i = dice.between(0, range - 1), j = dice.between(0, range - 2);
        first = start + i;
        second = start + (j < i ? j : j + 1);
    }
};

}  // namespace macheps::evidence
