// SPDX-License-Identifier: Apache-2.0
// Arithmetic on codes: + - * / sqrt fma in every format and rounding mode, with IEEE flags. Each result is computed in
// 128-bit integers, exactly or with a sticky bit, and then rounded once by round_shift. CPU and GPU compile the same
// source.
#pragma once
#include "core/codec.hpp"

namespace macheps {

enum class Operation : std::uint8_t { add, sub, mul, div, sqrt, fma };

/// The five exceptions of IEEE 754-2019 7 with default handling: raising a flag never changes a result.
struct Flags {
    bool invalid = false;         ///< 7.2: no result can be defined, or an operand is a signaling NaN
    bool divide_by_zero = false;  ///< 7.3: an exact infinite result from finite operands
    bool overflow = false;        ///< 7.4: rounded with unbounded exponent, the result exceeds the largest finite value
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

/// The point at which a nonzero result is tested for being tiny (IEEE 754-2019 7.5 leaves the choice). x86, the host
/// versions of CUDA functions and RISC-V test after rounding, Arm before rounding.
enum class Tininess : std::uint8_t { before_rounding, after_rounding };

struct Rounded {
    std::uint64_t bits = 0;  ///< code of the result, in the format's container
    Flags flags{};

    constexpr bool operator==(const Rounded&) const = default;
};

namespace detail {

__extension__ typedef unsigned __int128 uint128;

MACHEPS_HD constexpr int bit_length128(uint128 x) {
    const auto high = static_cast<std::uint64_t>(x >> 64);
    return high != 0 ? 64 + bit_length(high) : bit_length(static_cast<std::uint64_t>(x));
}

/// Returns x / 2^count. If nonzero bits are shifted out, the last bit of the result is set ("jamming"). A later
/// rounding of the result is still correct if it discards at least two bits. Jamming then changes only the last
/// discarded bit, so the discarded part stays below, at or above one half.
MACHEPS_HD constexpr uint128 shift_right_jam(uint128 x, int count) {
    if (count <= 0) return x << -count;
    if (count >= 128) return x != 0 ? 1 : 0;
    const uint128 kept = x >> count;
    return (kept << count) != x ? kept | 1 : kept;
}

/// The number (-1)^negative * significand * 2^exponent. The last bit of the significand may be jammed. That bit is far
/// below every bit that a format keeps.
struct Exact {
    bool negative = false;
    uint128 significand = 0;
    int exponent = 0;
};

/// Returns the exact value of a finite operand. Unless the operand is zero, the leading one of the significand is at
/// bit 52.
MACHEPS_HD constexpr Exact exact(Unpacked x) {
    if (x.significand == 0) return {x.negative, 0, 0};
    const int up = 53 - bit_length(x.significand);
    return {x.negative, x.significand << up, x.exponent - up};
}

/// Returns the sum of two nonzero numbers. Both are shifted until their leading one is at bit 125. The bits that the
/// smaller number loses are jammed into bit 0, at least 70 bits below the last place that fp64 keeps. More than one bit
/// cancels only if the exponents differ by at most one. In that case no bits are lost, because the significands have at
/// most 106 bits.
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

/// Returns a / b to at least 124 bits, with the rest jammed. Both operands are nonzero and have their leading one at
/// bit 52.
MACHEPS_HD constexpr Exact quotient(Exact a, Exact b) {
    const uint128 numerator = a.significand << 74, first = numerator / b.significand;
    const uint128 rest = (numerator - first * b.significand) << 50, second = rest / b.significand;
    const bool inexact = rest != second * b.significand;
    return {a.negative != b.negative, (first << 50) | second | (inexact ? 1 : 0), a.exponent - b.exponent - 124};
}

/// Returns the square root of a positive number to 96 bits, with the rest jammed. Each step takes two bits of the
/// radicand and gives one bit of the root.
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

/// Returns x / 2^drop rounded to an integer of at most 63 bits. The argument of round_shift consists of the last bit of
/// the quotient, the first 61 discarded bits, and one bit into which all other discarded bits are jammed.
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

/// Rounds a nonzero number to a format whose encoding is not `binary`. The number is first shortened to 63 bits, with
/// the rest jammed, and then rounded by the functions of codec.hpp. The flag `overflow` is raised if the number exceeds
/// the largest finite value. `underflow` is raised if the number is below the smallest nonzero magnitude and the result
/// is inexact.
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

/// Rounds a nonzero number to the format once.
MACHEPS_HD constexpr Rounded round_exact(Format f, Exact x, Round mode, Overflow overflow, RandomBits random,
                                         Tininess tininess) {
    if (f.encoding != Encoding::binary) return round_other(f, x, mode, overflow, random);
    const int top = bit_length128(x.significand) - 1 + x.exponent;
    const int quantum = max_of(top, f.emin()) - f.fraction_bits(), drop = quantum - x.exponent;
    const std::uint64_t ulps = round_shift128(x.significand, drop, mode, x.negative, random);
    // As in encode_unpacked, the leading one of `ulps` adds 1 to the exponent field, and a carry from rounding
    // propagates into that field.
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
            tiny = rounded >> f.precision == 0;  // false if the number is rounded up to 2^emin
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

/// Returns true for a NaN whose quiet bit, the first bit of the fraction, is clear. Only IEEE-like formats have such
/// NaNs.
MACHEPS_HD constexpr bool is_signaling_nan(Format f, std::uint64_t container) {
    if (f.specials != Specials::inf_and_nan) return false;
    const std::uint64_t magnitude = (container >> f.padding) & f.magnitude_mask();
    return magnitude > f.inf_code() && (magnitude & (std::uint64_t{1} << (f.fraction_bits() - 1))) == 0;
}

}  // namespace detail

/// Returns a + b, a - b, a * b, a / b, sqrt(a) or a * b + c, rounded once. The operands are codes in containers of `f`.
/// `b` and `c` are ignored if the operation does not have them. Every input has a result.
///
/// Special cases follow IEEE 754-2019 6 and 7. A NaN result is the canonical quiet NaN with a clear sign. If the format
/// has no NaN (fp6, fp4, mxint8), the result is the largest finite value, as in encode, and `invalid` is raised. An
/// infinite result is encoded in the same way as encode encodes an infinity. With Overflow::saturate it becomes the
/// largest finite value. In a format without Inf it becomes NaN, or the largest finite value if the format has no NaN.
/// The fnuz formats have no -0 and give +0 instead. e8m0fnu ignores signs. It has no zero and gives its smallest value
/// instead. An exact zero difference is +0, or -0 with Round::down. `random` is read only by Round::stochastic, which
/// adds it to the first random.bits discarded bits.
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

// Shorthands for op().
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

static_assert(fma(fp16, 0x3e00, 0x3956, 0x0001).bits == 0x3c01, "one rounding; fp32 arithmetic would give 0x3c00");
static_assert(fma(bf16, 0x40e0, 0x3e14, 0x8001).bits == 0x3f81,
              "one rounding; fp32 and fp64 arithmetic would give 0x3f82");
static_assert(fma(e5m2, 0x4e, 0x4a, 0x01).bits == 0x5d, "one rounding; fp32 arithmetic would give 0x5c");

}  // namespace macheps
