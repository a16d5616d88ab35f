// SPDX-License-Identifier: Apache-2.0
// Classes of operands that test the result: the largest and smallest numbers of its format, halfway cases, and zeros.
// In each class, plan() draws the properties that a whole tile shares, and product() draws one product of the tile.
#pragma once
#include "emulation/evidence/operands/tile_plan.hpp"

namespace macheps::evidence::classes {

struct Overflow {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const int top = greatest_exponent(tile.shape.c);
        tile.leader = min_of(tile.greatest(), top + dice.between(-5, 1));
        if (dice.chance(30)) return;
        const int exponent = top - dice.between(0, 2);
        tile.sized_addend(exponent, 0, some_digits(dice));
        tile.addend.common_sign = tile.flag;
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        const bool is_first = k == tile.first, is_second = k == tile.second;
        if (!tile.flag && tile.kind < 60 && is_second) {
            out.mirrors = tile.first;
        } else if (is_first || is_second || dice.chance(60)) {
            const int e = dice.chance(80)
                              ? tile.leader - dice.between(0, 4)
                              : min_of(tile.greatest(), greatest_exponent(tile.shape.c) + dice.between(0, 20));
            tile.put(out, e, dice);
            out.digits = some_digits(dice);
            out.sign = tile.flag ? ProductPlan::Sign::common : ProductPlan::Sign::any;
        } else {
            tile.put_zero(out, dice);
        }
        return out;
    }
};

/// Results near the smallest positive number of the result's format. There are six cases, and the tile's `kind` selects
/// one of them. The unit of a sum is the last bit that the alignment keeps. If c is zero, SumRule::zero_exponent sets
/// the unit.
struct Underflow {
    enum Way {
        sums,            ///< sums near the smallest number
        quantum,         ///< the smallest number or half of it, and a term near the unit; c is zero
        many_lost,       ///< many terms near the unit that a zero c would set
        products_alone,  ///< all nonzero products underflow and have the same sign
        subnormals,      ///< a and b are subnormal
        subnormal_c,     ///< same as `quantum`, but c is subnormal: emin or the normalised exponent of c sets the unit
    };

    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const OperandShape& s = tile.shape;
        const Format d = s.c;
        const int least = d.emin() - (s.precision - 1), unit = s.zero_exponent - s.fraction_bits;
        tile.kind = dice.between(0, 5);
        tile.leader = tile.kind == many_lost                             ? unit + dice.between(-3, 6)
                      : tile.kind == quantum || tile.kind == subnormal_c ? least
                      : tile.kind == products_alone                      ? least - dice.between(1, 8)
                                                                         : least + dice.between(-5, 3);
        tile.few = dice.chance(30);
        if (tile.kind == quantum) return;
        if (tile.kind == subnormal_c) {
            tile.addend.kind = AddendPlan::Kind::subnormal;
            tile.addend.common_sign = true;
            return;
        }
        if (dice.chance(20)) {
            const int exponent = least + dice.between(0, 4);
            tile.sized_addend(exponent, 1, some_digits(dice));
        }
        if (dice.chance(10)) {
            const int exponent = d.emin() + dice.between(0, 24);
            tile.sized_addend(exponent, 1, some_digits(dice));
        }
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        const bool is_first = k == tile.first, is_second = k == tile.second;
        ProductPlan out;
        switch (tile.kind) {
            case sums:
                tile.put(out, tile.leader - dice.between(0, 6), dice);
                break;
            case quantum:
            case subnormal_c:
                quantum_and_loss(tile, is_first, is_second, out, dice);
                break;
            case many_lost:
                tile.put(out, tile.leader + dice.between(-1, 1), dice);
                out.digits = some_digits(dice);
                out.sign = ProductPlan::Sign::common;
                break;
            case products_alone:
                if (!is_first && !(is_second && tile.few) && !(k == tile.third && tile.flag)) {
                    tile.put_zero(out, dice);
                    break;
                }
                tile.put(out, tile.leader - dice.between(0, 3), dice);
                out.digits = some_digits(dice);
                out.sign = ProductPlan::Sign::common;
                break;
            default:
                out.subnormal_a = out.subnormal_b = true;
                break;
        }
        return out;
    }

  private:
    MACHEPS_HD static constexpr void quantum_and_loss(const TilePlan& tile, bool is_first, bool is_second,
                                                      ProductPlan& out, Dice& dice) {
        const OperandShape& s = tile.shape;
        if (!is_first && !is_second) return tile.put_zero(out, dice);
        const int lost = tile.kind == quantum ? s.zero_exponent - s.fraction_bits - (tile.few ? 1 : 0)
                                              : s.c.emin() - s.fraction_bits - (tile.few ? 2 : 1);
        tile.put(out, is_second ? lost : s.nearest ? tile.leader - 1 : tile.leader, dice);
        out.digits = Digits::none;
        out.sign = ProductPlan::Sign::common;
        out.negative = is_second && !s.nearest;
    }
};

struct Tie {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const OperandShape& s = tile.shape;
        const int f = s.fraction_bits, p = s.precision, room = max_of(f - p, 8);
        const int low = max_of(tile.least(), s.c.emin() - p),
                  high = min_of(tile.greatest(), greatest_exponent(s.c) - p - 1);
        tile.leader = dice.chance(70) ? min_of(max_of(dice.between(-12, 4), min_of(low + room, high)), high)
                                      : dice.between(low, high);
        // If the flag is set, the largest term is a product; otherwise it is c.
        tile.flag = dice.chance(30) && tile.leader + p <= tile.greatest() && s.products() > 2;
        if (!tile.flag) {
            tile.sized_addend(tile.leader + p, 0, dice.chance(70) ? Digits::any : some_digits(dice));
        } else if (dice.chance(60)) {
            tile.sized_addend(tile.leader + p - f + dice.between(-2, 2), 0, Digits::none);
        }
        // Choose for `third` a product other than `first` and `second`, unless there are only two products.
        while (s.products() > 2 && (tile.third == tile.first || tile.third == tile.second))
            tile.third = (tile.third + 1) % s.products();
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        const OperandShape& s = tile.shape;
        ProductPlan out;
        if (k == tile.first) {
            tile.put(out, tile.leader, dice);
            out.digits = Digits::none;
        } else if (k == tile.second && tile.kind < 70) {
            const int e = tile.few ? tile.leader - 8 + (dice.chance(70) ? 0 : dice.between(-1, 1))
                                   : tile.leader + s.precision - s.fraction_bits + dice.between(-2, 1);
            tile.put(out, e, dice);
            out.digits = Digits::none;
        } else if (tile.flag && k == tile.third) {
            tile.put(out, tile.leader + s.precision, dice);
        } else {
            tile.put_zero(out, dice);
        }
        return out;
    }
};

struct Zeros {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const Format c = tile.shape.c;
        tile.leader = tile.draw_leader(3, dice);
        tile.leader -= dice.between(0, 40);
        tile.flag = dice.chance(25);  // all terms of an output are zeros of one sign, c included
        if (tile.flag) {
            tile.addend.common_sign = true;
            return;
        }
        const int choice = dice.between(0, 6);
        if (choice == 6) {  // only zero products and a tiny c
            tile.few = false;
            tile.kind = 99;
        }
        if (choice == 1) tile.addend.kind = AddendPlan::Kind::subnormal;
        if (choice == 2) tile.sized_addend(dice.between(c.emin(), greatest_exponent(c)), 3, Digits::any);
        if (choice == 3 || choice == 4) {
            const int most = tile.draw_leader(3, dice);
            tile.sized_addend(most - dice.between(0, 24), 3, Digits::any);
        }
        if (choice >= 5)
            tile.sized_addend(c.emin() + dice.between(choice == 6 ? -8 : -2, choice == 6 ? 8 : 20), 1, Digits::any);
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        const bool is_first = k == tile.first, is_second = k == tile.second;
        if (tile.flag) {
            tile.put_zero(out, dice);
            out.sign = ProductPlan::Sign::common;
        } else if ((is_first && tile.few) || (is_second && tile.kind < 20)) {
            tile.put(out, is_first ? tile.leader : tile.least() + dice.between(0, 20), dice);
            out.digits = some_digits(dice);
        } else {
            tile.put_zero(out, dice);
        }
        return out;
    }
};

}  // namespace macheps::evidence::classes
