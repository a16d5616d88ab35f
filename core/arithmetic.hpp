// SPDX-License-Identifier: Apache-2.0
// Arithmetic on codes: + - * / sqrt fma of every format, in every mode, with IEEE flags. Exact in 128-bit integers,
// then one rounding through round_shift: the same text on CPU and GPU.
#pragma once
#include "core/codec.hpp"

namespace macheps {

enum class Operation : std::uint8_t { add, sub, mul, div, sqrt, fma };

/// The five exceptions of IEEE 754-2019 7, under default handling: a raised flag changes no result.
struct Flags {
    bool invalid = false;         ///< 7.2: no useful result; a signaling NaN operand
    bool divide_by_zero = false;  ///< 7.3: an exact infinite result from finite operands
    bool overflow = false;        ///< 7.4: rounded with unbounded exponent, beyond the largest finite value
    bool underflow = false;       ///< 7.5: tiny and inexact
    bool inexact = false;         ///< 7.6: the result differs from the exact one

    constexpr bool operator==(const Flags&) const = default;
    MACHEPS_HD constexpr Flags& operator|=(Flags other) {
        invalid |= other.invalid;
        divide_by_zero |= other.divide_by_zero;
        overflow |= other.overflow;
        underflow |= other.underflow;
        inexact |= other.inexact;
        return *this;
    }
};

/// When a nonzero result counts as tiny (IEEE 754-2019 7.5 leaves the choice): x86, CUDA's host twins and RISC-V look
/// after rounding, Arm before.
enum class Tininess : std::uint8_t { before_rounding, after_rounding };

struct Rounded {
    std::uint64_t bits = 0;  ///< in the format's container
    Flags flags{};

    constexpr bool operator==(const Rounded&) const = default;
};

namespace detail {

__extension__ typedef unsigned __int128 uint128;

MACHEPS_HD constexpr int bit_length128(uint128 x) {
    const auto high = static_cast<std::uint64_t>(x >> 64);
    return high != 0 ? 64 + bit_length(high) : bit_length(static_cast<std::uint64_t>(x));
}

/// x / 2^count; bits that fall off survive as a one in the last place ("jamming"), which keeps every comparison of the
/// discarded part with a half, and its first bits, as they were.
MACHEPS_HD constexpr uint128 shift_right_jam(uint128 x, int count) {
    if (count <= 0) return x << -count;
    if (count >= 128) return x != 0 ? 1 : 0;
    const uint128 kept = x >> count;
    return (kept << count) != x ? kept | 1 : kept;
}

/// (-1)^negative * significand * 2^exponent; the last bit may be jammed, far below any that a format keeps.
struct Exact {
    bool negative = false;
    uint128 significand = 0;
    int exponent = 0;
};

/// The exact value of a finite operand, its leading one at bit 52 unless it is zero.
MACHEPS_HD constexpr Exact exact(Unpacked x) {
    if (x.significand == 0) return {x.negative, 0, 0};
    const int up = 53 - bit_length(x.significand);
    return {x.negative, x.significand << up, x.exponent - up};
}

/// The sum of two nonzero numbers. Both are brought to a leading one at bit 125; what the smaller one loses is jammed
/// at bit 0, at least 70 bits below the last kept place of fp64: cancellation of more than one bit happens only between
/// numbers whose exponents differ by at most one, and those lose nothing, for their significands have at most 106 bits.
MACHEPS_HD constexpr Exact sum(Exact a, Exact b) {
    const auto normalise = [](Exact& x) {
        const int up = 126 - bit_length128(x.significand);
        x.significand <<= up;
        x.exponent -= up;
    };
    normalise(a);
    normalise(b);
    if (a.exponent < b.exponent || (a.exponent == b.exponent && a.significand < b.significand)) {
        const Exact larger = b;
        b = a;
        a = larger;
    }
    const uint128 low = shift_right_jam(b.significand, a.exponent - b.exponent);
    a.significand = a.negative == b.negative ? a.significand + low : a.significand - low;
    return a;
}

/// a / b to 125 bits or more, the rest jammed; both nonzero with their leading one at bit 52.
MACHEPS_HD constexpr Exact quotient(Exact a, Exact b) {
    const uint128 numerator = a.significand << 74, first = numerator / b.significand;
    const uint128 rest = (numerator - first * b.significand) << 50, second = rest / b.significand;
    const bool inexact = rest != second * b.significand;
    return {a.negative != b.negative, (first << 50) | second | (inexact ? 1 : 0), a.exponent - b.exponent - 124};
}

/// The square root of a positive number to 96 bits, the rest jammed: digit by digit, two bits of the radicand a step.
MACHEPS_HD constexpr Exact root(Exact a) {
    if ((a.exponent & 1) != 0) {
        a.significand <<= 1;
        --a.exponent;
    }
    uint128 root = 0, rest = 0;
    const auto step = [&](std::uint64_t digits) {
        rest = (rest << 2) | digits;
        const uint128 trial = (root << 2) | 1;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    };
    for (int at = 52; at >= 0; at -= 2) step(static_cast<std::uint64_t>(a.significand >> at) & 3);
    constexpr int more = 69;
    for (int i = 0; i < more; ++i) step(0);
    return {false, (root << 1) | (rest != 0 ? 1 : 0), a.exponent / 2 - more - 1};
}

/// x / 2^drop as an integer, rounded: the odd bit of the quotient and the first 61 discarded bits, the rest jammed,
/// pass through round_shift. The quotient has at most 63 bits.
MACHEPS_HD constexpr std::uint64_t round_shift128(uint128 x, int drop, Round mode, bool negative, RandomBits random) {
    constexpr int fraction_places = 62;
    if (drop <= 0) return static_cast<std::uint64_t>(x << -drop);
    const std::uint64_t kept = drop < 128 ? static_cast<std::uint64_t>(x >> drop) : 0;
    const uint128 discarded = drop < 128 ? x & ((uint128{1} << drop) - 1) : x;
    const auto fraction = static_cast<std::uint64_t>(shift_right_jam(discarded, drop - fraction_places));
    const std::uint64_t end = (kept & 1) << fraction_places | fraction;
    return (kept & ~std::uint64_t{1}) + round_shift(end, fraction_places, mode, negative, random);
}

MACHEPS_HD constexpr Rounded invalid_result(Format f, bool raise = true) {
    return {f.nan_code() << f.padding, {.invalid = raise}};
}

MACHEPS_HD constexpr Rounded infinite_result(Format f, bool negative, Overflow overflow, bool divided_by_zero = false) {
    const Unpacked infinity{Unpacked::Kind::infinite, negative, 0, 0};
    return {encode_unpacked(f, infinity, Round::nearest_even, overflow, {}) << f.padding,
            {.divide_by_zero = divided_by_zero}};
}

MACHEPS_HD constexpr Rounded zero_result(Format f, bool negative) {
    const Unpacked zero{Unpacked::Kind::finite, negative, 0, 0};
    const std::uint64_t code = encode_unpacked(f, zero, Round::nearest_even, Overflow::nonsaturate, {});
    return {code << f.padding, {.underflow = !f.has_zero(), .inexact = !f.has_zero()}};
}

/// A nonzero number in a format that is not `binary`: codec.hpp's rounding of its first 63 bits. Overflow: beyond the
/// largest finite value; underflow: below the least magnitude, inexactly.
MACHEPS_HD constexpr Rounded round_other(Format f, Exact x, Round mode, Overflow overflow, RandomBits random) {
    const int down = bit_length128(x.significand) - 63;
    const Unpacked head{Unpacked::Kind::finite, x.negative,
                        static_cast<std::uint64_t>(shift_right_jam(x.significand, down)), x.exponent + down};
    Rounded result{encode_unpacked(f, head, mode, overflow, random) << f.padding, {}};
    const auto magnitude = [](Unpacked u) { return exact({u.kind, false, u.significand, u.exponent}); };
    const Unpacked value = unpack(decode64(f, result.bits)),
                   most = unpack(decode64(f, f.max_finite_code() << f.padding));
    const auto less = [](Exact a, Exact b) {
        if (a.significand == 0 || b.significand == 0) return a.significand == 0 && b.significand != 0;
        const int a_top = bit_length128(a.significand) + a.exponent, b_top = bit_length128(b.significand) + b.exponent;
        if (a_top != b_top) return a_top < b_top;
        return a.significand << (128 - bit_length128(a.significand)) < b.significand
                                                                           << (128 - bit_length128(b.significand));
    };
    const Exact size{false, x.significand, x.exponent};
    const bool same = value.kind == Unpacked::Kind::finite && (value.negative == x.negative || !f.has_sign()) &&
                      !less(magnitude(value), size) && !less(size, magnitude(value));
    const int least = f.encoding == Encoding::power_of_two ? f.emin() : 1 - f.precision;
    result.flags.inexact = !same || (x.negative && !f.has_sign());
    result.flags.overflow = less(magnitude(most), size);
    result.flags.underflow = result.flags.inexact && bit_length128(x.significand) - 1 + x.exponent < least;
    return result;
}

/// A nonzero number, rounded to the format once.
MACHEPS_HD constexpr Rounded round_exact(Format f, Exact x, Round mode, Overflow overflow, RandomBits random,
                                         Tininess tininess) {
    if (f.encoding != Encoding::binary) return round_other(f, x, mode, overflow, random);
    const int top = bit_length128(x.significand) - 1 + x.exponent;
    const int quantum = max_of(top, f.emin()) - f.fraction_bits(), drop = quantum - x.exponent;
    const std::uint64_t ulps = round_shift128(x.significand, drop, mode, x.negative, random);
    // As in encode: the leading one of `ulps` adds the last 1 to the exponent field, a carry ripples into it.
    const std::uint64_t code =
        ulps + (static_cast<std::uint64_t>(max_of(top, f.emin()) - f.emin()) << f.fraction_bits());

    Flags flags;
    const bool exact_shift = drop <= 0 || (drop < 128 && (x.significand >> drop) << drop == x.significand);
    flags.inexact = !exact_shift;
    if (!exact_shift && top < f.emin()) {
        bool tiny = true;
        if (tininess == Tininess::after_rounding && top == f.emin() - 1) {
            const int unbounded = top - f.fraction_bits() - x.exponent;
            const std::uint64_t rounded = round_shift128(x.significand, unbounded, mode, x.negative, random);
            tiny = rounded >> f.precision == 0;  // no carry up to 2^emin
        }
        flags.underflow = tiny;
    }
    const std::uint64_t sign = x.negative ? f.sign_bit() : 0;
    std::uint64_t result = sign | code;
    if (code > f.max_finite_code()) {
        flags.overflow = flags.inexact = true;
        const bool limited = overflow == Overflow::saturate || rounds_inward(mode, x.negative) || !f.can_overflow();
        result = sign | (limited ? f.max_finite_code() : f.overflow_code());
    } else if (code == 0 && !f.has_negative_zero()) {
        result = 0;
    }
    return {result << f.padding, flags};
}

/// A NaN whose quiet bit, the first of the fraction, is clear: IEEE-like formats alone have such.
MACHEPS_HD constexpr bool is_signaling_nan(Format f, std::uint64_t container) {
    if (f.specials != Specials::inf_and_nan) return false;
    const std::uint64_t magnitude = (container >> f.padding) & f.magnitude_mask();
    return magnitude > f.inf_code() && (magnitude & (std::uint64_t{1} << (f.fraction_bits() - 1))) == 0;
}

}  // namespace detail

/// a + b, a - b, a * b, a / b, sqrt(a) or a * b + c of codes in containers of `f`, rounded once; `b` and `c` are
/// ignored where the operation has no such operand. Total.
///
/// Special cases are those of IEEE 754-2019 6 and 7. A NaN result is the canonical quiet NaN with its sign clear; where
/// the format has no NaN (fp6, fp4, mxint8) it is the largest finite value, as encode has it, with `invalid`. An
/// infinite result becomes what encode makes of an infinity: Overflow::saturate and formats without Inf know none. fnuz
/// has no -0: it gives 0. e8m0fnu ignores signs and, having no zero, gives its least value. An exact zero difference is
/// +0, or -0 under Round::down. `random` is read by Round::stochastic, which sees the first random.bits discarded bits.
MACHEPS_HD constexpr Rounded op(Operation operation, Format f, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                                Round mode, Overflow overflow = Overflow::nonsaturate, RandomBits random = {},
                                Tininess tininess = Tininess::after_rounding) {
    require_random_bits(mode, random);
    using Kind = Unpacked::Kind;
    const bool binary = operation != Operation::sqrt, ternary = operation == Operation::fma;
    const Unpacked x = unpack(decode64(f, a));
    Unpacked y = binary ? unpack(decode64(f, b)) : x;
    const Unpacked z = ternary ? unpack(decode64(f, c)) : Unpacked{Kind::finite, false, 0, 0};
    const bool product = operation == Operation::mul || ternary;
    const bool infinity_times_zero =
        product && ((x.kind == Kind::infinite && y.kind == Kind::finite && y.significand == 0) ||
                    (y.kind == Kind::infinite && x.kind == Kind::finite && x.significand == 0));
    if (x.kind == Kind::nan || y.kind == Kind::nan || z.kind == Kind::nan) {
        const bool signals = detail::is_signaling_nan(f, a) || (binary && detail::is_signaling_nan(f, b)) ||
                             (ternary && detail::is_signaling_nan(f, c));
        return detail::invalid_result(f, signals || infinity_times_zero);
    }
    if (infinity_times_zero) return detail::invalid_result(f);
    const bool differ = x.negative != y.negative;
    const auto round = [&](detail::Exact value) {
        return detail::round_exact(f, value, mode, overflow, random, tininess);
    };
    const auto add = [&](detail::Exact p, detail::Exact q) {
        if (p.significand == 0 && q.significand == 0) {
            return detail::zero_result(f, p.negative == q.negative ? p.negative : mode == Round::down);
        }
        if (p.significand == 0 || q.significand == 0) return round(p.significand == 0 ? q : p);
        const detail::Exact total = detail::sum(p, q);
        return total.significand == 0 ? detail::zero_result(f, mode == Round::down) : round(total);
    };
    switch (operation) {
        case Operation::sub:
            y.negative = !y.negative;
            [[fallthrough]];
        case Operation::add:
            if (x.kind == Kind::infinite || y.kind == Kind::infinite) {
                if (x.kind == y.kind && x.negative != y.negative) return detail::invalid_result(f);
                return detail::infinite_result(f, x.kind == Kind::infinite ? x.negative : y.negative, overflow);
            }
            return add(detail::exact(x), detail::exact(y));
        case Operation::mul:
        case Operation::fma: {
            const bool infinite = x.kind == Kind::infinite || y.kind == Kind::infinite;
            if (infinite && z.kind == Kind::infinite && z.negative != differ) return detail::invalid_result(f);
            if (infinite || z.kind == Kind::infinite)
                return detail::infinite_result(f, infinite ? differ : z.negative, overflow);
            const detail::Exact p = detail::exact(x), q = detail::exact(y);
            const detail::Exact exact_product{differ, p.significand * q.significand, p.exponent + q.exponent};
            if (ternary) return add(exact_product, detail::exact(z));
            return exact_product.significand == 0 ? detail::zero_result(f, differ) : round(exact_product);
        }
        case Operation::div:
            if (x.kind == Kind::infinite && y.kind == Kind::infinite) return detail::invalid_result(f);
            if (x.kind == Kind::infinite) return detail::infinite_result(f, differ, overflow);
            if (y.kind == Kind::infinite) return detail::zero_result(f, differ);
            if (y.significand == 0) {
                if (x.significand == 0) return detail::invalid_result(f);
                return detail::infinite_result(f, differ, overflow, true);
            }
            return x.significand == 0 ? detail::zero_result(f, differ)
                                      : round(detail::quotient(detail::exact(x), detail::exact(y)));
        case Operation::sqrt:
            if (x.kind == Kind::finite && x.significand == 0) return detail::zero_result(f, x.negative);
            if (x.negative) return detail::invalid_result(f);
            if (x.kind == Kind::infinite) return detail::infinite_result(f, false, overflow);
            return round(detail::root(detail::exact(x)));
    }
    return detail::invalid_result(f);
}

// The same by name.
MACHEPS_HD constexpr Rounded add(Format f, std::uint64_t a, std::uint64_t b, Round mode = Round::nearest_even) {
    return op(Operation::add, f, a, b, 0, mode);
}
MACHEPS_HD constexpr Rounded sub(Format f, std::uint64_t a, std::uint64_t b, Round mode = Round::nearest_even) {
    return op(Operation::sub, f, a, b, 0, mode);
}
MACHEPS_HD constexpr Rounded mul(Format f, std::uint64_t a, std::uint64_t b, Round mode = Round::nearest_even) {
    return op(Operation::mul, f, a, b, 0, mode);
}
MACHEPS_HD constexpr Rounded div(Format f, std::uint64_t a, std::uint64_t b, Round mode = Round::nearest_even) {
    return op(Operation::div, f, a, b, 0, mode);
}
MACHEPS_HD constexpr Rounded sqrt(Format f, std::uint64_t a, Round mode = Round::nearest_even) {
    return op(Operation::sqrt, f, a, 0, 0, mode);
}
MACHEPS_HD constexpr Rounded fma(Format f, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                                 Round mode = Round::nearest_even) {
    return op(Operation::fma, f, a, b, c, mode);
}

static_assert(fma(fp16, 0x3e00, 0x3956, 0x0001).bits == 0x3c01, "one rounding, where fp32 gives 0x3c00");
static_assert(fma(bf16, 0x40e0, 0x3e14, 0x8001).bits == 0x3f81, "one rounding, where fp32 and fp64 give 0x3f82");
static_assert(fma(e5m2, 0x4e, 0x4a, 0x01).bits == 0x5d, "one rounding, where fp32 gives 0x5c");

}  // namespace macheps
