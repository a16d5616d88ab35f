// SPDX-License-Identifier: Apache-2.0
// Classes of operands that are spread over codes or exponents: ordinary numbers, special values, all codes. In each
// class, plan() draws the properties that a whole tile shares, and product() draws one product of the tile.
#pragma once
#include "emulation/evidence/operands/tile_plan.hpp"

namespace macheps::evidence::classes {

/// Base of the classes that draw each element independently, so that product() has nothing to draw for a whole product.
struct LoneElements {
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan&, int, Dice&) { return {}; }
};

struct RandomBits : LoneElements {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.addend.kind = dice.chance(15) ? AddendPlan::Kind::zero : AddendPlan::Kind::random;
    }
};

struct Normal : LoneElements {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.leader = dice.between(-3, 1);
        if (dice.chance(15)) return;
        const int half = macheps::detail::bit_length(static_cast<std::uint64_t>(tile.shape.k)) / 2;
        tile.sized_addend(2 * tile.leader + half, 0, Digits::any);
    }
};

struct CloseExponents {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        tile.leader = tile.draw_leader(4, dice);
        if (!dice.chance(15)) tile.sized_addend(tile.leader + dice.between(-1, 3), 1, Digits::any);
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int, Dice& dice) {
        ProductPlan out;
        tile.put(out, tile.leader + dice.between(-1, 1), dice);
        out.jitter = 1;
        out.digits = dice.chance(70) ? Digits::any : tile.digits;
        return out;
    }
};

struct Subnormal {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const int choice = dice.between(0, 3);
        if (choice == 0) tile.addend.kind = AddendPlan::Kind::subnormal;
        if (choice == 1) {
            tile.addend.kind = AddendPlan::Kind::opposite;
            tile.addend.nudge = 3;
        }
        if (choice == 2) tile.sized_addend(tile.shape.c.emin() + dice.between(0, 12), 1, Digits::any);
        tile.leader = dice.between(0, 3);  // subnormal operands: 0: a, 1: b, 2: both, 3: each at random
    }
    MACHEPS_HD static constexpr ProductPlan product(const TilePlan& tile, int, Dice& dice) {
        ProductPlan out;
        const bool large = dice.chance(50);
        out.subnormal_a = tile.leader == 0 || tile.leader == 2 || (tile.leader == 3 && dice.chance(50));
        out.subnormal_b = tile.leader == 1 || tile.leader == 2 || (tile.leader == 3 && dice.chance(50));
        out.a = large ? greatest_exponent(tile.shape.a) - dice.between(0, 2) : dice.between(-2, 2);
        out.b = large ? greatest_exponent(tile.shape.b) - dice.between(0, 2) : dice.between(-2, 2);
        if (dice.chance(20) || tile.kind < 10) {
            out.zero = true;
            out.zero_in_a = dice.chance(50);
        }
        return out;
    }
};

struct Mixed : LoneElements {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice& dice) {
        const Format& c = tile.shape.c;
        const int low = max_of(c.emin() - 1, tile.least()), high = min_of(greatest_exponent(c), tile.greatest());
        tile.leader = dice.between(low, high);
        tile.sized_addend(tile.flag ? tile.leader : dice.between(c.emin() - 1, greatest_exponent(c)), 6, Digits::any);
    }
};

/// Tiles that go through all codes. For fp8, five consecutive tiles have the same a and b, and their addends are 0, 1,
/// -1, 2^7 and minus the product. For other formats, the addend is 0.
struct Exhaustive : LoneElements {
    MACHEPS_HD static constexpr void plan(TilePlan& tile, Dice&) {
        if (tile.shape.a.container_bits() != 8) return;
        constexpr int exponents[] = {0, 0, 0, 7};
        const auto choice = static_cast<int>(tile.number % 5);
        if (choice == 4) {
            tile.addend.kind = AddendPlan::Kind::opposite;
        } else if (choice > 0) {
            tile.sized_addend(exponents[choice], 0, Digits::none);
            tile.addend.common_sign = true;
            tile.addend.negative = choice == 2;
        }
    }
};

}  // namespace macheps::evidence::classes
