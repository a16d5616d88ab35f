// SPDX-License-Identifier: Apache-2.0
// A tile of test operands: matrices a [m, products], b [products, n] and c [m, n] of one class (operand_class.hpp). The
// class determines the properties that all rows of the tile share: the exponents, the largest term, and which terms
// cancel. Signs, fractions and small differences in exponent are drawn for every element, so that rows and columns
// differ. Each element is a pure function of (class, shape, seed, tile) and its position. It has the same value on host
// and device, and can be computed without the other elements.
#pragma once
#include "emulation/evidence/operands/operand_classes.hpp"

namespace macheps::evidence {

/// Generator of the elements of one tile.
class Tile {
  public:
    MACHEPS_HD constexpr Tile(const OperandShape& shape, OperandClass cls, std::uint64_t seed, std::uint64_t number)
        : class_(cls), seed_(seed), plan_{.shape = shape, .number = number} {
        plan();
    }

    /// a() and b() return the code of one element. In the exhaustive class, all products except the first are zero.
    MACHEPS_HD constexpr std::uint64_t a(int row, int k) const {
        if (class_ == OperandClass::exhaustive) return k == 0 ? exhaustive_a(row) : 0;
        return element(row, k, true);
    }
    MACHEPS_HD constexpr std::uint64_t b(int k, int column) const {
        if (class_ == OperandClass::exhaustive) return k == 0 ? exhaustive_b(column) : 0;
        return element(column, k, false);
    }
    /// Returns whether c depends on the sum of the products. In this case, addend_opposite() must be called instead of
    /// c().
    MACHEPS_HD constexpr bool addend_is_opposite() const { return plan_.addend.kind == AddendPlan::Kind::opposite; }
    MACHEPS_HD constexpr std::uint64_t c(int row, int column) const;
    /// Returns a code of c near -`sum`, where `sum` is the instruction's result with c = 0.
    MACHEPS_HD constexpr std::uint64_t addend_opposite(int row, int column, std::uint64_t sum) const {
        Dice dice = roll(part_c, row * plan_.shape.n + column);
        const std::uint64_t magnitude = sum >> plan_.shape.c.padding & plan_.shape.c.magnitude_mask();
        if (magnitude > plan_.shape.c.max_finite_code()) return 0;
        const int ulps = dice.between(-plan_.addend.nudge, plan_.addend.nudge);
        return nudged_code(plan_.shape.c, negated_code(plan_.shape.c, sum), ulps);
    }
    /// Returns the number of tiles of the exhaustive class, or 0 if the class does not support the operand formats. The
    /// other classes have an unlimited number of tiles.
    MACHEPS_HD static constexpr std::uint64_t exhaustive_tiles(const OperandShape& shape) {
        const std::uint64_t rows = static_cast<std::uint64_t>(shape.m), columns = static_cast<std::uint64_t>(shape.n);
        if (shape.a.container_bits() == 8) return (256 + rows - 1) / rows * ((256 + columns - 1) / columns) * 5;
        return shape.a.container_bits() == 16 ? (65536 + rows - 1) / rows : 0;
    }

  private:
    enum Part : std::uint32_t { part_tile, part_product, part_row, part_column, part_a, part_b, part_c };

    MACHEPS_HD constexpr Dice roll(Part part, int index) const {
        return Dice(seed_, plan_.shape.id, plan_.number,
                    static_cast<std::uint32_t>(class_) << 27 | part << 24 | static_cast<std::uint32_t>(index));
    }
    MACHEPS_HD constexpr void plan();
    MACHEPS_HD constexpr ProductPlan product(int k) const;
    MACHEPS_HD constexpr std::uint64_t element(int line, int k, bool is_a) const;
    MACHEPS_HD constexpr std::uint64_t exhaustive_a(int row) const;
    MACHEPS_HD constexpr std::uint64_t exhaustive_b(int column) const;

    OperandClass class_;
    std::uint64_t seed_;
    TilePlan plan_;
};

MACHEPS_HD constexpr void Tile::plan() {
    Dice dice = roll(part_tile, 0);
    plan_.choose_two(dice);
    plan_.third = dice.between(0, plan_.shape.products() - 1);
    plan_.digits = some_digits(dice);
    plan_.few = dice.chance(50);
    plan_.flag = dice.chance(50);
    plan_.kind = dice.between(0, 99);
    with_class(class_, [&](auto cls) { cls.plan(plan_, dice); });
}

MACHEPS_HD constexpr ProductPlan Tile::product(int k) const {
    Dice dice = roll(part_product, k);
    return with_class(class_, [&](auto cls) { return cls.product(plan_, k, dice); });
}

MACHEPS_HD constexpr std::uint64_t Tile::element(int line, int k, bool is_a) const {
    const Format& f = is_a ? plan_.shape.a : plan_.shape.b;
    Dice dice = roll(is_a ? part_a : part_b, line * plan_.shape.products() + k);
    if (class_ == OperandClass::random_bits || class_ == OperandClass::finite_bits) {
        return random_code(f, class_ == OperandClass::finite_bits, dice);
    }
    if (class_ == OperandClass::normal) {
        // A sum of twelve uniform numbers is nearly normally distributed. Unlike a logarithm, it has the same bits on
        // all platforms.
        std::int64_t x = -6 * 65536;
        for (int i = 0; i < 6; ++i) {
            const std::uint32_t word = dice.bits();
            x += (word & 0xffff) + (word >> 16);
        }
        const std::uint64_t magnitude = static_cast<std::uint64_t>(x < 0 ? -x : x) | 1;
        return make_code(f, x < 0, macheps::detail::bit_length(magnitude) - 17 + plan_.leader, Digits::any, dice);
    }
    if (class_ == OperandClass::mixed) {
        const bool negative = dice.chance(50);
        return make_code(f, negative, dice.between(f.emin() - 1, greatest_exponent(f)), Digits::any, dice);
    }
    if (class_ == OperandClass::specials && dice.between(0, 2 * plan_.shape.products()) == 0)
        return special_code(f, dice);
    const ProductPlan s = product(k);
    if (s.mirrors >= 0) {
        const std::uint64_t code = element(line, s.mirrors, is_a);
        return is_a ? nudged_code(f, negated_code(f, code), dice.between(-s.nudge, s.nudge)) : code;
    }
    bool negative = dice.chance(50);
    if (s.sign == ProductPlan::Sign::common) {
        negative = roll(is_a ? part_row : part_column, line).chance(50) != (is_a && s.negative);
    }
    if (s.zero && s.zero_in_a == is_a) {
        return (negative ? f.sign_bit() << f.padding : 0) | (f.padding != 0 ? dice.bits() >> (32 - f.padding) : 0);
    }
    if (is_a ? s.subnormal_a : s.subnormal_b) return subnormal_code(f, negative, dice);
    const int e = (is_a ? s.a : s.b) + dice.between(-s.jitter, s.jitter);
    return make_code(f, negative, e, s.digits, dice);
}

MACHEPS_HD constexpr std::uint64_t Tile::c(int row, int column) const {
    Dice dice = roll(part_c, row * plan_.shape.n + column);
    const Format& f = plan_.shape.c;
    if (class_ == OperandClass::specials && dice.chance(15)) return special_code(f, dice);
    bool negative = dice.chance(50);
    if (plan_.addend.common_sign) {
        negative = plan_.addend.negative;
        if (class_ != OperandClass::exhaustive) {
            negative = negative != (roll(part_row, row).chance(50) != roll(part_column, column).chance(50));
        }
    }
    switch (plan_.addend.kind) {
        case AddendPlan::Kind::sized:
            return make_code(f, negative,
                             plan_.addend.exponent + dice.between(-plan_.addend.jitter, plan_.addend.jitter),
                             plan_.addend.digits, dice);
        case AddendPlan::Kind::subnormal:
            return subnormal_code(f, negative, dice);
        case AddendPlan::Kind::random:
            return random_code(f, class_ == OperandClass::finite_bits, dice);
        default:
            return (class_ == OperandClass::zeros || class_ == OperandClass::underflow) && negative
                       ? f.sign_bit() << f.padding
                       : 0;
    }
}

/// Returns the code of a in the exhaustive class. For fp8, consecutive tiles differ first in the addend (number % 5),
/// then in the block of codes of b, and last in the block of codes of a. For 16-bit formats, the tiles go through every
/// code of a.
MACHEPS_HD constexpr std::uint64_t Tile::exhaustive_a(int row) const {
    if (plan_.shape.a.container_bits() == 8) {
        const auto rows = static_cast<std::uint64_t>(plan_.shape.m),
                   columns = static_cast<std::uint64_t>(plan_.shape.n);
        const std::uint64_t across = (256 + columns - 1) / columns;
        return (plan_.number / 5 / across * rows + static_cast<std::uint64_t>(row)) & 0xff;
    }
    return (plan_.number * static_cast<std::uint64_t>(plan_.shape.m) + static_cast<std::uint64_t>(row)) & 0xffff;
}
MACHEPS_HD constexpr std::uint64_t Tile::exhaustive_b(int column) const {
    const Format& f = plan_.shape.b;
    if (f.container_bits() == 8) {
        const auto columns = static_cast<std::uint64_t>(plan_.shape.n);
        const std::uint64_t across = (256 + columns - 1) / columns;
        return (plan_.number / 5 % across * columns + static_cast<std::uint64_t>(column)) & 0xff;
    }
    // For 16-bit formats, each code of a is multiplied by these partners: 1, the smallest normal number, and the
    // smallest and the largest subnormal number.
    const std::uint64_t partners[] = {static_cast<std::uint64_t>(f.exponent_bias) << f.fraction_bits(),
                                      f.min_normal_code(), 1, f.min_normal_code() - 1};
    return partners[column % 4];
}

}  // namespace macheps::evidence
