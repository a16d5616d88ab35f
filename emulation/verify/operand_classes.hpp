// SPDX-License-Identifier: Apache-2.0
// Operands that tell one model of a matrix unit from another: a tile of a [m, products], b [products, n], c [m, n] for
// every way of being hard. A class fixes what all rows of a tile have in common (a leader, who cancels whom, the
// exponents); signs, fractions and small differences in exponent are drawn for every element, so that rows and columns
// differ. Pure functions of (class, shape, seed, tile), the same on host and device; every element can be had alone.
// An expression draws from the dice once at most, or in an order that the language fixes.
#pragma once
#include "emulation/verify/operand_shape.hpp"

namespace macheps::verify {

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

/// What all rows and columns know of one product.
struct Slot {
    enum class Sign : std::uint8_t {
        any,
        common
    };  ///< common: sign of the row times sign of the column, times `negative`

    bool zero = false, zero_in_a = false;
    bool subnormal_a = false, subnormal_b = false;
    int a = 0, b = 0;  ///< exponents
    Digits digits = Digits::any;
    Sign sign = Sign::any;
    bool negative = false;
    int jitter = 0;    ///< exponents of elements of a differ by up to that
    int mirrors = -1;  ///< the negative of that product
    int nudge = 0;     ///< ... give or take that many ulps of a
};

/// What all outputs know of c.
struct AddendPlan {
    enum class Kind : std::uint8_t {
        zero,
        sized,
        subnormal,
        random,
        opposite
    };  ///< opposite: minus the sum of products

    Kind kind = Kind::zero;
    int exponent = 0, jitter = 0;
    Digits digits = Digits::any;
    bool common_sign = false, negative = false;
    int nudge = 0;
};

/// Makes the elements of one tile.
class Tile {
  public:
    MACHEPS_HD constexpr Tile(const OperandShape& shape, OperandClass cls, std::uint64_t seed, std::uint64_t number)
        : shape_(shape), class_(cls), seed_(seed), tile_(number) {
        plan();
    }

    /// Codes of the operands. Out of range of the exhaustive class: zeros.
    MACHEPS_HD constexpr std::uint64_t a(int row, int k) const {
        if (class_ == OperandClass::exhaustive) return k == 0 ? exhaustive_a(row) : 0;
        return element(row, k, true);
    }
    MACHEPS_HD constexpr std::uint64_t b(int k, int column) const {
        if (class_ == OperandClass::exhaustive) return k == 0 ? exhaustive_b(column) : 0;
        return element(column, k, false);
    }
    /// Whether c needs the sum of products: then it is addend_opposite's.
    MACHEPS_HD constexpr bool addend_is_opposite() const { return addend_.kind == AddendPlan::Kind::opposite; }
    MACHEPS_HD constexpr std::uint64_t c(int row, int column) const;
    /// c near minus `sum`, the instruction's result with c = 0.
    MACHEPS_HD constexpr std::uint64_t addend_opposite(int row, int column, std::uint64_t sum) const {
        Dice dice = roll(part_c, row * shape_.n + column);
        const std::uint64_t magnitude = sum >> shape_.c.padding & shape_.c.magnitude_mask();
        if (magnitude > shape_.c.max_finite_code()) return 0;
        const int ulps = dice.between(-addend_.nudge, addend_.nudge);
        return nudged_code(shape_.c, negated_code(shape_.c, sum), ulps);
    }
    /// The tiles of the exhaustive class, which has a last one; 0: the form has no such class.
    MACHEPS_HD static constexpr std::uint64_t exhaustive_tiles(const OperandShape& shape) {
        const std::uint64_t rows = static_cast<std::uint64_t>(shape.m), columns = static_cast<std::uint64_t>(shape.n);
        if (shape.a.container_bits() == 8) return (256 + rows - 1) / rows * ((256 + columns - 1) / columns) * 5;
        return shape.a.container_bits() == 16 ? (65536 + rows - 1) / rows : 0;
    }

  private:
    enum Part : std::uint32_t { part_tile, part_slot, part_row, part_column, part_a, part_b, part_c };

    MACHEPS_HD constexpr Dice roll(Part part, int index) const {
        return Dice(seed_, shape_.id, tile_,
                    static_cast<std::uint32_t>(class_) << 27 | part << 24 | static_cast<std::uint32_t>(index));
    }
    MACHEPS_HD constexpr void plan();
    MACHEPS_HD constexpr Slot slot(int k) const;
    MACHEPS_HD constexpr std::uint64_t element(int line, int k, bool is_a) const;
    MACHEPS_HD constexpr std::uint64_t exhaustive_a(int row) const;
    MACHEPS_HD constexpr std::uint64_t exhaustive_b(int column) const;

    MACHEPS_HD constexpr int least() const { return least_exponent(shape_.a) + least_exponent(shape_.b); }
    MACHEPS_HD constexpr int greatest() const { return greatest_exponent(shape_.a) + greatest_exponent(shape_.b); }
    /// An exponent that leaves products `room` bits downwards, and that fits the result.
    MACHEPS_HD constexpr int leader(int room, Dice& dice) const {
        const int low = max_of(least(), shape_.c.emin() - shape_.c.precision),
                  high = min_of(greatest(), greatest_exponent(shape_.c) - 1);
        if (low + room > high - 6 && dice.chance(60)) return high - dice.between(0, 2);
        if (dice.chance(60)) return min_of(max_of(dice.between(-12, 12), min_of(low + room, high)), high);
        return low + room < high ? dice.between(low + room, high) : dice.between(low, high);
    }
    /// Splits a product's exponent among a and b, of normal numbers where it can.
    MACHEPS_HD constexpr void put(Slot& s, int e, Dice& dice) const {
        const bool normal = dice.chance(75);
        const Format &a = shape_.a, &b = shape_.b;
        e = min_of(max_of(e, least()), greatest());
        const int low_a = normal ? a.emin() : least_exponent(a), low_b = normal ? b.emin() : least_exponent(b);
        int low = max_of(low_a, e - greatest_exponent(b)), high = min_of(greatest_exponent(a), e - low_b);
        if (low > high) {
            low = max_of(least_exponent(a), e - greatest_exponent(b));
            high = min_of(greatest_exponent(a), e - least_exponent(b));
        }
        s.zero = false;
        s.a = dice.between(low, high);
        s.b = e - s.a;
    }
    MACHEPS_HD constexpr void put_zero(Slot& s, Dice& dice) const {
        s.zero = true;
        s.zero_in_a = dice.chance(50);
        // The partner: anything, or as large as it gets.
        const bool large = dice.chance(50);
        s.a = large ? greatest_exponent(shape_.a) : dice.between(least_exponent(shape_.a), greatest_exponent(shape_.a));
        s.b = large ? greatest_exponent(shape_.b) : dice.between(least_exponent(shape_.b), greatest_exponent(shape_.b));
        s.jitter = 1;
    }
    /// A term around the unit of a step whose greatest exponent is t. Bits below the unit are lost.
    MACHEPS_HD constexpr void put_small(Slot& s, int t, Dice& dice) const {
        const int f = max_of(shape_.fraction_bits, shape_.precision);
        const int e = dice.chance(70) ? t - f + dice.between(-3, 3) : t - dice.between(1, f);
        // The least product would drown c's last bits.
        if (dice.chance(20) || (e < least() - 1 && dice.chance(85))) return put_zero(s, dice);
        put(s, e, dice);
        s.digits = some_digits(dice);
    }
    MACHEPS_HD constexpr void small_addend(int t, Dice& dice) {
        const int f = max_of(shape_.fraction_bits, shape_.precision);
        if (dice.chance(40)) return;
        addend_.kind = AddendPlan::Kind::sized;
        addend_.exponent = dice.chance(50) ? t - f + dice.between(-3, 3) : t - dice.between(0, f);
        addend_.jitter = 1;
        addend_.digits = some_digits(dice);
    }
    MACHEPS_HD constexpr void sized_addend(int exponent, int jitter, Digits digits) {
        addend_ = {};
        addend_.kind = AddendPlan::Kind::sized;
        addend_.exponent = exponent;
        addend_.jitter = jitter;
        addend_.digits = digits;
    }
    /// Two different products, more often than not of one step.
    MACHEPS_HD constexpr void choose_two(Dice& dice) {
        const int all = shape_.products();
        if (shape_.pairs_of_four && dice.chance(60)) {
            const int base = dice.between(0, all / shape_.k - 1) * shape_.k, half = 2 * dice.between(0, 1);
            first_ = base + 4 * dice.between(0, shape_.k / 4 - 1) + half;
            first_ += dice.between(0, 1);
            second_ = base + 4 * dice.between(0, shape_.k / 4 - 1) + half;
            if (second_ == first_) ++second_;
            return;
        }
        const int range = dice.chance(60) && shape_.terms > 1 ? shape_.terms : all;
        const int start = dice.between(0, all / range - 1) * range;
        const int i = dice.between(0, range - 1), j = dice.between(0, range - 2);
        first_ = start + i;
        second_ = start + (j < i ? j : j + 1);
    }

    OperandShape shape_;
    OperandClass class_;
    std::uint64_t seed_, tile_;
    // The plan of the tile.
    int leader_ = 0, kind_ = 0, first_ = 0, second_ = 0, third_ = 0;
    bool flag_ = false, few_ = false;
    Digits digits_ = Digits::any;
    AddendPlan addend_{};
};

MACHEPS_HD constexpr void Tile::plan() {
    Dice dice = roll(part_tile, 0);
    const OperandShape& s = shape_;
    const int f = s.fraction_bits, p = s.precision;
    using Kind = AddendPlan::Kind;
    choose_two(dice);
    third_ = dice.between(0, s.products() - 1);
    digits_ = some_digits(dice);
    few_ = dice.chance(50);
    flag_ = dice.chance(50);
    kind_ = dice.between(0, 99);
    switch (class_) {
        case OperandClass::random_bits:
        case OperandClass::finite_bits:
            addend_.kind = dice.chance(15) ? Kind::zero : Kind::random;
            break;
        case OperandClass::normal:
            leader_ = dice.between(-3, 1);
            if (!dice.chance(15))
                sized_addend(2 * leader_ + detail::bit_length(static_cast<std::uint64_t>(s.k)) / 2, 0, Digits::any);
            break;
        case OperandClass::close_exponents:
        case OperandClass::specials:
            leader_ = leader(4, dice);
            if (!dice.chance(15)) sized_addend(leader_ + dice.between(-1, 3), 1, Digits::any);
            break;
        case OperandClass::cancellation:
            leader_ = leader(4, dice);
            if (dice.chance(50)) {
                addend_.kind = Kind::opposite;
                addend_.nudge = dice.chance(50) ? 0 : 3;
            } else if (!dice.chance(15)) {
                sized_addend(leader_ + dice.between(-2, 4), 1, Digits::any);
            }
            break;
        case OperandClass::alignment_edge:
            leader_ = leader(f + 2, dice);
            flag_ = dice.chance(40);  // c leads
            if (flag_) {
                sized_addend(leader_, 0, some_digits(dice));
            } else {
                small_addend(leader_, dice);
            }
            break;
        case OperandClass::swamp:
            leader_ = leader(f + 2, dice);
            flag_ = dice.chance(35);  // c cancels the leader: a power of two
            if (flag_) {
                sized_addend(leader_, 0, Digits::none);
                addend_.common_sign = true;
                addend_.negative = true;
            } else {
                small_addend(leader_, dice);
                digits_ = dice.chance(40) ? Digits::ones : digits_;
            }
            break;
        case OperandClass::subnormal: {
            const int choice = dice.between(0, 3);
            if (choice == 0) addend_.kind = Kind::subnormal;
            if (choice == 1) {
                addend_.kind = Kind::opposite;
                addend_.nudge = 3;
            }
            if (choice == 2) sized_addend(s.c.emin() + dice.between(0, 12), 1, Digits::any);
            leader_ = dice.between(0, 3);
            break;
        }
        case OperandClass::one_to_four: {
            leader_ = leader(f + 2, dice);
            const int choice = dice.between(0, 99);
            if (choice < 40) {
                addend_.kind = Kind::opposite;
                addend_.nudge = 2;
            } else if (choice < 70) {
                small_addend(leader_, dice);
            } else {
                sized_addend(leader_ + dice.between(-1, 2), 0, Digits::any);
            }
            break;
        }
        case OperandClass::mixed: {
            const int low = max_of(s.c.emin() - 1, least()), high = min_of(greatest_exponent(s.c), greatest());
            leader_ = dice.between(low, high);
            sized_addend(flag_ ? leader_ : dice.between(s.c.emin() - 1, greatest_exponent(s.c)), 6, Digits::any);
            break;
        }
        case OperandClass::addend_dominant:
        case OperandClass::addend_tiny: {
            const int direction = class_ == OperandClass::addend_dominant ? 1 : -1;
            leader_ = leader(3, dice);
            flag_ = direction < 0 && dice.chance(60);  // nothing but a pair that cancels
            const int e = dice.chance(60) ? f + dice.between(-4, 6) : dice.between(1, f + 4);
            sized_addend(leader_ + direction * e, 1, some_digits(dice));
            break;
        }
        case OperandClass::overflow: {
            const int top = greatest_exponent(s.c);
            leader_ = min_of(greatest(), top + dice.between(-5, 1));
            if (dice.chance(30)) break;
            const int exponent = top - dice.between(0, 2);
            sized_addend(exponent, 0, some_digits(dice));
            addend_.common_sign = flag_;
            break;
        }
        case OperandClass::underflow: {
            const Format d = s.c;
            const int quantum = d.emin() - (p - 1), unit = s.zero_exponent - f;
            kind_ = dice.between(0, 5);
            leader_ = kind_ == 2                 ? unit + dice.between(-3, 6)
                      : kind_ == 1 || kind_ == 5 ? quantum
                      : kind_ == 3               ? quantum - dice.between(1, 8)
                                                 : quantum + dice.between(-5, 3);
            few_ = dice.chance(30);
            if (kind_ == 1) break;
            if (kind_ == 5) {
                addend_.kind = Kind::subnormal;
                addend_.common_sign = true;
                break;
            }
            if (dice.chance(20)) {
                const int exponent = quantum + dice.between(0, 4);
                sized_addend(exponent, 1, some_digits(dice));
            }
            if (dice.chance(10)) {
                const int exponent = d.emin() + dice.between(0, 24);
                sized_addend(exponent, 1, some_digits(dice));
            }
            break;
        }
        case OperandClass::tie: {
            const int room = max_of(f - p, 8);
            const int low = max_of(least(), s.c.emin() - p), high = min_of(greatest(), greatest_exponent(s.c) - p - 1);
            leader_ = dice.chance(70) ? min_of(max_of(dice.between(-12, 4), min_of(low + room, high)), high)
                                      : dice.between(low, high);
            flag_ = dice.chance(30) && leader_ + p <= greatest() && s.products() > 2;  // the leader is a product
            if (!flag_) {
                sized_addend(leader_ + p, 0, dice.chance(70) ? Digits::any : some_digits(dice));
            } else if (dice.chance(60)) {
                sized_addend(leader_ + p - f + dice.between(-2, 2), 0, Digits::none);
            }
            while (third_ == first_ || third_ == second_) third_ = (third_ + 1) % s.products();
            break;
        }
        case OperandClass::zeros: {
            leader_ = leader(3, dice);
            leader_ -= dice.between(0, 40);
            flag_ = dice.chance(25);  // zeros of one sign in each output, c too
            if (flag_) {
                addend_.common_sign = true;
                break;
            }
            const int choice = dice.between(0, 6);
            if (choice == 6) few_ = false;  // nothing but zero products, and a tiny c
            if (choice == 6) kind_ = 99;
            if (choice == 1) addend_.kind = Kind::subnormal;
            if (choice == 2) sized_addend(dice.between(s.c.emin(), greatest_exponent(s.c)), 3, Digits::any);
            if (choice == 3 || choice == 4) {
                const int most = leader(3, dice);
                sized_addend(most - dice.between(0, 24), 3, Digits::any);
            }
            if (choice >= 5)
                sized_addend(s.c.emin() + dice.between(choice == 6 ? -8 : -2, choice == 6 ? 8 : 20), 1, Digits::any);
            break;
        }
        case OperandClass::exhaustive: {
            if (s.a.container_bits() != 8) break;
            constexpr int exponents[] = {0, 0, 0, 7};
            const auto choice = static_cast<int>(tile_ % 5);
            if (choice == 4) {
                addend_.kind = Kind::opposite;
            } else if (choice > 0) {
                sized_addend(exponents[choice], 0, Digits::none);
                addend_.common_sign = true;
                addend_.negative = choice == 2;
            }
            break;
        }
    }
}

MACHEPS_HD constexpr Slot Tile::slot(int k) const {
    Dice dice = roll(part_slot, k);
    const OperandShape& s = shape_;
    Slot out;
    const bool is_first = k == first_, is_second = k == second_;
    switch (class_) {
        case OperandClass::close_exponents:
        case OperandClass::specials:
            put(out, leader_ + dice.between(-1, 1), dice);
            out.jitter = 1;
            out.digits = dice.chance(70) ? Digits::any : digits_;
            break;
        case OperandClass::cancellation:
            if (k % 2 == 1 && dice.chance(80)) {
                out.mirrors = k - 1;
                out.nudge = dice.chance(50) ? 0 : 2;
                break;
            }
            put(out, leader_ + dice.between(-2, 2), dice);
            out.jitter = 1;
            break;
        case OperandClass::alignment_edge:
            if (!flag_ && is_first) {
                put(out, leader_, dice);
                out.digits = digits_;
            } else {
                put_small(out, leader_, dice);
            }
            break;
        case OperandClass::swamp:
            if (is_first) {
                put(out, leader_, dice);
                out.digits = flag_ ? Digits::none : digits_;
                out.sign = flag_ ? Slot::Sign::common : Slot::Sign::any;
            } else if (!flag_ && is_second) {
                out.mirrors = first_;
                out.nudge = kind_ < 30 ? 1 : 0;
            } else if (!few_ || k == third_ || k == (first_ ^ 1)) {  // else: so few that a short significand shows each
                put_small(out, leader_, dice);
            } else {
                put_zero(out, dice);
            }
            break;
        case OperandClass::subnormal: {
            const bool large = dice.chance(50);
            out.subnormal_a = leader_ == 0 || leader_ == 2 || (leader_ == 3 && dice.chance(50));
            out.subnormal_b = leader_ == 1 || leader_ == 2 || (leader_ == 3 && dice.chance(50));
            out.a = large ? greatest_exponent(s.a) - dice.between(0, 2) : dice.between(-2, 2);
            out.b = large ? greatest_exponent(s.b) - dice.between(0, 2) : dice.between(-2, 2);
            if (dice.chance(20) || kind_ < 10) {
                out.zero = true;
                out.zero_in_a = dice.chance(50);
            }
            break;
        }
        case OperandClass::one_to_four:
            if (few_ && k == third_ && s.products() > 2) {
                put_small(out, leader_, dice);
            } else if (k % 2 == 1) {
                out.mirrors = k - 1;
            } else {
                put(out, leader_, dice);
                out.digits = dice.chance(60) ? Digits::ones : Digits::none;
            }
            break;
        case OperandClass::addend_dominant:
        case OperandClass::addend_tiny:
            if (flag_ && is_second) {
                out.mirrors = first_;
            } else if (flag_ && !is_first) {
                put_zero(out, dice);
            } else {
                put(out, leader_ - (flag_ ? 0 : dice.between(0, 3)), dice);
                out.digits = flag_ ? digits_ : Digits::any;
            }
            break;
        case OperandClass::overflow:
            if (!flag_ && kind_ < 60 && is_second) {
                out.mirrors = first_;
            } else if (is_first || is_second || dice.chance(60)) {
                put(out,
                    dice.chance(80) ? leader_ - dice.between(0, 4)
                                    : min_of(greatest(), greatest_exponent(s.c) + dice.between(0, 20)),
                    dice);
                out.digits = some_digits(dice);
                out.sign = flag_ ? Slot::Sign::common : Slot::Sign::any;
            } else {
                put_zero(out, dice);
            }
            break;
        case OperandClass::underflow: {
            const int unit = s.zero_exponent - s.fraction_bits;
            if (kind_ == 0) {  // sums around the least result
                put(out, leader_ - dice.between(0, 6), dice);
            } else if (kind_ == 1 || kind_ == 5) {
                // One result quantum (or half of it), and of either sign what the unit loses that a zero c gives; or a
                // subnormal c, with emin or with its own exponent.
                if (!is_first && !is_second) {
                    put_zero(out, dice);
                    break;
                }
                const int lost = kind_ == 1 ? unit - (few_ ? 1 : 0) : s.c.emin() - s.fraction_bits - (few_ ? 2 : 1);
                put(out, is_second ? lost : s.nearest ? leader_ - 1 : leader_, dice);
                out.digits = Digits::none;
                out.sign = Slot::Sign::common;
                out.negative = is_second && !s.nearest;
            } else if (kind_ == 2) {  // many terms that lose all or nothing
                put(out, leader_ + dice.between(-1, 1), dice);
                out.digits = some_digits(dice);
                out.sign = Slot::Sign::common;
            } else if (kind_ == 3) {  // nothing but what underflows, of one sign
                if (!is_first && !(is_second && few_) && !(k == third_ && flag_)) {
                    put_zero(out, dice);
                    break;
                }
                put(out, leader_ - dice.between(0, 3), dice);
                out.digits = some_digits(dice);
                out.sign = Slot::Sign::common;
            } else {
                out.subnormal_a = out.subnormal_b = true;
            }
            break;
        }
        case OperandClass::tie:
            if (is_first) {
                put(out, leader_, dice);
                out.digits = Digits::none;
            } else if (is_second && kind_ < 70) {
                put(out,
                    few_ ? leader_ - 8 + (dice.chance(70) ? 0 : dice.between(-1, 1))
                         : leader_ + s.precision - s.fraction_bits + dice.between(-2, 1),
                    dice);
                out.digits = Digits::none;
            } else if (flag_ && k == third_) {
                put(out, leader_ + s.precision, dice);
            } else {
                put_zero(out, dice);
            }
            break;
        case OperandClass::zeros:
            if (flag_) {
                put_zero(out, dice);
                out.sign = Slot::Sign::common;
            } else if ((is_first && few_) || (is_second && kind_ < 20)) {
                put(out, is_first ? leader_ : least() + dice.between(0, 20), dice);
                out.digits = some_digits(dice);
            } else {
                put_zero(out, dice);
            }
            break;
        default:
            break;
    }
    return out;
}

MACHEPS_HD constexpr std::uint64_t Tile::element(int line, int k, bool is_a) const {
    const Format& f = is_a ? shape_.a : shape_.b;
    Dice dice = roll(is_a ? part_a : part_b, line * shape_.products() + k);
    if (class_ == OperandClass::random_bits || class_ == OperandClass::finite_bits) {
        return random_code(f, class_ == OperandClass::finite_bits, dice);
    }
    if (class_ == OperandClass::normal) {
        // Twelve uniform numbers, not the platform's logarithm.
        std::int64_t x = -6 * 65536;
        for (int i = 0; i < 6; ++i) {
            const std::uint32_t word = dice.bits();
            x += (word & 0xffff) + (word >> 16);
        }
        const std::uint64_t magnitude = static_cast<std::uint64_t>(x < 0 ? -x : x) | 1;
        return make_code(f, x < 0, detail::bit_length(magnitude) - 17 + leader_, Digits::any, dice);
    }
    if (class_ == OperandClass::mixed) {
        const bool negative = dice.chance(50);
        return make_code(f, negative, dice.between(f.emin() - 1, greatest_exponent(f)), Digits::any, dice);
    }
    if (class_ == OperandClass::specials && dice.between(0, 2 * shape_.products()) == 0) return special_code(f, dice);
    const Slot s = slot(k);
    if (s.mirrors >= 0) {
        const std::uint64_t code = element(line, s.mirrors, is_a);
        return is_a ? nudged_code(f, negated_code(f, code), dice.between(-s.nudge, s.nudge)) : code;
    }
    bool negative = dice.chance(50);
    if (s.sign == Slot::Sign::common) {
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
    Dice dice = roll(part_c, row * shape_.n + column);
    const Format& f = shape_.c;
    if (class_ == OperandClass::specials && dice.chance(15)) return special_code(f, dice);
    bool negative = dice.chance(50);
    if (addend_.common_sign) {
        negative = addend_.negative;
        if (class_ != OperandClass::exhaustive) {
            negative = negative != (roll(part_row, row).chance(50) != roll(part_column, column).chance(50));
        }
    }
    switch (addend_.kind) {
        case AddendPlan::Kind::sized:
            return make_code(f, negative, addend_.exponent + dice.between(-addend_.jitter, addend_.jitter),
                             addend_.digits, dice);
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

/// fp8: 16 rows of a's codes by columns of b's, then the next addend. 16 bits: every code of a.
MACHEPS_HD constexpr std::uint64_t Tile::exhaustive_a(int row) const {
    if (shape_.a.container_bits() == 8) {
        const auto rows = static_cast<std::uint64_t>(shape_.m), columns = static_cast<std::uint64_t>(shape_.n);
        const std::uint64_t across = (256 + columns - 1) / columns;
        return (tile_ / 5 / across * rows + static_cast<std::uint64_t>(row)) & 0xff;
    }
    return (tile_ * static_cast<std::uint64_t>(shape_.m) + static_cast<std::uint64_t>(row)) & 0xffff;
}
MACHEPS_HD constexpr std::uint64_t Tile::exhaustive_b(int column) const {
    const Format& f = shape_.b;
    if (f.container_bits() == 8) {
        const auto columns = static_cast<std::uint64_t>(shape_.n);
        const std::uint64_t across = (256 + columns - 1) / columns;
        return (tile_ / 5 % across * columns + static_cast<std::uint64_t>(column)) & 0xff;
    }
    // 1, the least normal number, the least and the greatest subnormal one.
    const std::uint64_t partners[] = {static_cast<std::uint64_t>(f.exponent_bias) << f.fraction_bits(),
                                      f.min_normal_code(), 1, f.min_normal_code() - 1};
    return partners[column % 4];
}

}  // namespace macheps::verify
