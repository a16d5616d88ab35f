// SPDX-License-Identifier: Apache-2.0
// Classes of operands that show which low bits a matrix unit keeps when it aligns terms: terms far below the largest
// term, large terms that cancel, or an addend far above or below the products. In each class, plan() draws the
// properties that a whole tile shares, and product() draws one product of the tile.
#pragma once
#include "emulation/evidence/operands/tile_plan.hpp"

namespace macheps::evidence::classes {

struct Cancellation {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.leader = tile.draw_leader(4, dice);
        if (dice.chance(50)) {
            tile.addend.kind = AddendPlan::Kind::opposite;
            tile.addend.nudge = dice.chance(50) ? 0 : 3;
        } else if (!dice.chance(15)) {
            tile.sized_addend(tile.leader + dice.between(-2, 4), 1, Digits::any);
        }
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        if (k % 2 == 1 && dice.chance(80)) {
            out.mirrors = k - 1;
            out.nudge = dice.chance(50) ? 0 : 2;
            return out;
        }
        tile.put(out, tile.leader + dice.between(-2, 2), dice);
        out.jitter = 1;
        return out;
    }
};

struct AlignmentEdge {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.leader = tile.draw_leader(tile.shape.fraction_bits + 2, dice);
        tile.flag = dice.chance(40);  // c is the largest term
        if (tile.flag) {
            tile.sized_addend(tile.leader, 0, some_digits(dice));
        } else {
            tile.small_addend(tile.leader, dice);
        }
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        if (!tile.flag && k == tile.first) {
            tile.put(out, tile.leader, dice);
            out.digits = tile.digits;
        } else {
            tile.put_small(out, tile.leader, dice);
        }
        return out;
    }
};

struct Swamp {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.leader = tile.draw_leader(tile.shape.fraction_bits + 2, dice);
        tile.flag = dice.chance(35);  // c cancels the largest product, which is a power of two
        if (tile.flag) {
            tile.sized_addend(tile.leader, 0, Digits::none);
            tile.addend.common_sign = true;
            tile.addend.negative = true;
        } else {
            tile.small_addend(tile.leader, dice);
            tile.digits = dice.chance(40) ? Digits::ones : tile.digits;
        }
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        // If `few` is set, at most two of the products are small and the rest are zeros. Then each of the two is
        // visible even in a result with few bits.
        const bool may_be_small = !tile.few || k == tile.third || k == (tile.first ^ 1);
        if (k == tile.first) {
            tile.put(out, tile.leader, dice);
            out.digits = tile.flag ? Digits::none : tile.digits;
            out.sign = tile.flag ? ProductPlan::Sign::common : ProductPlan::Sign::any;
        } else if (!tile.flag && k == tile.second) {
            out.mirrors = tile.first;
            out.nudge = tile.kind < 30 ? 1 : 0;
        } else if (may_be_small) {
            tile.put_small(out, tile.leader, dice);
        } else {
            tile.put_zero(out, dice);
        }
        return out;
    }
};

struct OneToFour {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.leader = tile.draw_leader(tile.shape.fraction_bits + 2, dice);
        const int choice = dice.between(0, 99);
        if (choice < 40) {
            tile.addend.kind = AddendPlan::Kind::opposite;
            tile.addend.nudge = 2;
        } else if (choice < 70) {
            tile.small_addend(tile.leader, dice);
        } else {
            tile.sized_addend(tile.leader + dice.between(-1, 2), 0, Digits::any);
        }
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        if (tile.few && k == tile.third && tile.shape.products() > 2) {
            tile.put_small(out, tile.leader, dice);
        } else if (k % 2 == 1) {
            out.mirrors = k - 1;
        } else {
            tile.put(out, tile.leader, dice);
            out.digits = dice.chance(60) ? Digits::ones : Digits::none;
        }
        return out;
    }
};

/// Tiles in which the exponent of c is above the exponents of the products (`direction` is 1) or below them (-1).
template <int direction>
struct FarAddend {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const int f = tile.shape.fraction_bits;
        tile.leader = tile.draw_leader(3, dice);
        tile.flag = direction < 0 && dice.chance(60);  // only two products are nonzero, and they cancel
        const int e = dice.chance(60) ? f + dice.between(-4, 6) : dice.between(1, f + 4);
        tile.sized_addend(tile.leader + direction * e, 1, some_digits(dice));
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int k, Dice& dice) {
        ProductPlan out;
        if (tile.flag && k == tile.second) {
            out.mirrors = tile.first;
        } else if (tile.flag && k != tile.first) {
            tile.put_zero(out, dice);
        } else {
            tile.put(out, tile.leader - (tile.flag ? 0 : dice.between(0, 3)), dice);
            out.digits = tile.flag ? tile.digits : Digits::any;
        }
        return out;
    }
};

}  // namespace macheps::evidence::classes
