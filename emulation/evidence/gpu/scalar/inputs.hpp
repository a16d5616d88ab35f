// SPDX-License-Identifier: Apache-2.0
// Inputs of scalar operations: all codes if there are few enough, otherwise operands that are chosen to be hard.
#pragma once
#include "core/arithmetic.hpp"
#include "core/codec.hpp"
#include "core/rng.hpp"

namespace macheps::evidence {

/// Mixes the bits of x with the finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection in which every bit of
/// the argument changes many bits of the result.
MACHEPS_HD constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// Returns the contribution of one result to the hash of many results. The hash is a sum, so the order does not matter.
MACHEPS_HD constexpr std::uint64_t hash_item(std::uint64_t input, std::uint64_t result) {
    return mix(result + input * 0x9e3779b97f4a7c15u);
}

/// Returns an fp64 number near the float with bits u. The low 29 bits of the fp64 number decide ties. For half of the
/// inputs they have a special pattern: all zeros, all ones, only the top bit set, or only the lowest bit set.
MACHEPS_HD inline double wide_input(std::uint32_t u) {
    const double value = decode64(fp32, u);
    const std::uint64_t wide = value == 0 ? std::uint64_t{u >> 31} << 63 : bit_cast<std::uint64_t>(value);
    const std::uint64_t random = mix(u + 0x9e3779b97f4a7c15u), low = random & 0x1fffffff;
    switch (random >> 61) {
        case 0:
            return bit_cast<double>(wide);
        case 1:
            return bit_cast<double>(wide | 0x1fffffff);
        case 2:
            return bit_cast<double>(wide | 0x10000000);
        case 3:
            return bit_cast<double>(wide | 1);
        default:
            return bit_cast<double>(wide | low);
    }
}

/// Returns wide_input(u) for fifteen of sixteen inputs. For the remaining inputs, returns random bits, whose exponent
/// may be outside the range of fp32.
MACHEPS_HD inline std::uint64_t sample64(std::uint32_t u) {
    const std::uint64_t random = mix(u + 0x632be59bd9b4e019u);
    return random >> 60 == 0 ? mix(random) : bit_cast<std::uint64_t>(wide_input(u));
}

/// Returns the second element of a pair whose first element is u. The function is a bijection of 32-bit codes.
/// Therefore every code occurs both as a first and as a second element.
MACHEPS_HD constexpr std::uint32_t other_element(std::uint32_t u) { return u * 0x9e3779b1u + 0x7f4a7c15u; }

struct Operands {
    std::uint64_t a = 0, b = 0, c = 0;
};

namespace detail {

/// Returns the code with this sign, exponent field and fraction. Clamps the exponent field to its range.
MACHEPS_HD constexpr std::uint64_t code_of(Format f, bool negative, std::int64_t field, std::uint64_t fraction) {
    const auto most = static_cast<std::int64_t>(f.magnitude_mask() >> f.fraction_bits());
    const auto exponent = static_cast<std::uint64_t>(min_of(max_of(field, std::int64_t{0}), most));
    return (negative ? f.sign_bit() : 0) | exponent << f.fraction_bits() | (fraction & (f.min_normal_code() - 1));
}

MACHEPS_HD constexpr std::uint64_t special_code(Format f, std::uint32_t which) {
    const std::uint64_t one = static_cast<std::uint64_t>(f.exponent_bias) << f.fraction_bits();
    const std::uint64_t sign = (which & 1) != 0 ? f.sign_bit() : 0;
    switch (which >> 1 & 15) {
        case 0:
        case 1:
            return sign;
        case 2:
            return sign | 1;
        case 3:
            return sign | (f.min_normal_code() - 1);
        case 4:
            return sign | f.min_normal_code();
        case 5:
            return sign | f.max_finite_code();
        case 6:
        case 7:
            return sign | f.inf_code();
        case 8:
            return sign | f.nan_code();
        case 9:
            return sign | (f.inf_code() + 1);  // a signaling NaN
        case 10:
            return sign | (one + 1);
        case 11:
            return sign | (one - 1);
        case 12:
            return sign | (one + f.min_normal_code());
        case 13:
            return sign | 2;
        case 14:
            return sign | (f.min_normal_code() + 1);
        default:
            return sign | one;
    }
}

}  // namespace detail

/// Returns operands number `index` of a random stream, for an operation of an IEEE-like format. Eight kinds of operands
/// have the same probability:
/// - random codes
/// - exponents that are so close that the operands affect each other
/// - special values
/// - short significands, which give exact results and ties
/// - operands a few codes away from a cancellation, an exact quotient or a perfect square
/// - results near the largest finite value
/// - results near the smallest value
/// - numbers near 1
MACHEPS_HD inline Operands hard_operands(Format f, Operation operation, std::uint64_t seed, std::uint64_t index) {
    const PhiloxBlock v = random_block({.seed = seed, .site = 1}, index);
    const PhiloxBlock w = random_block({.seed = seed, .site = 2}, index);
    const auto wide = [](std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; };
    const std::uint64_t all = f.sign_bit() | f.magnitude_mask(), fractions = f.min_normal_code() - 1;
    Operands x{wide(v.word[0], v.word[1]) & all, wide(v.word[2], v.word[3]) & all, wide(w.word[0], w.word[1]) & all};
    const std::uint32_t choice = w.word[2], luck = w.word[3];
    const std::int64_t bias = f.exponent_bias,
                       top = static_cast<std::int64_t>(f.max_finite_code() >> f.fraction_bits());
    const auto field = [&](std::uint64_t code) {
        return static_cast<std::int64_t>((code & f.magnitude_mask()) >> f.fraction_bits());
    };
    const auto with_field = [&](std::uint64_t code, std::int64_t exponent) {
        return detail::code_of(f, (code & f.sign_bit()) != 0, exponent, code & fractions);
    };
    const auto around = [&](std::int64_t reach) {
        return static_cast<std::int64_t>(luck >> 8) % (2 * reach + 1) - reach;
    };
    const auto step = static_cast<std::int64_t>(luck & 7) - 3;
    const auto beside = [&](std::uint64_t code) { return (code + static_cast<std::uint64_t>(step)) & all; };
    /// Changes b so that the product or quotient of a and b has the exponent field `exponent`.
    const auto aim = [&](std::int64_t exponent) {
        const bool quotient = operation == Operation::div;
        x.b = with_field(x.b, quotient ? field(x.a) - exponent + bias : exponent - field(x.a) + bias);
    };
    const bool scaled = operation == Operation::mul || operation == Operation::div || operation == Operation::fma;
    switch (choice & 7) {
        case 0:
            break;
        case 1: {
            const std::int64_t reach = f.precision + 3;
            if (operation == Operation::fma) {
                x.b = with_field(x.b, bias + static_cast<std::int64_t>(choice >> 8) % 9 - 4);
                x.c = with_field(x.c, field(x.a) + field(x.b) - bias + around(2 * reach));
            } else {
                x.b = with_field(x.b, field(x.a) + around(reach));
            }
            break;
        }
        case 2:
            x.a = (choice & 0x100) != 0 ? detail::special_code(f, luck) : x.a;
            x.b = (choice & 0x200) != 0 ? detail::special_code(f, luck >> 5) : x.b;
            x.c = (choice & 0x400) != 0 ? detail::special_code(f, luck >> 10) : x.c;
            break;
        case 3: {
            const int kept = f.precision / 2 + static_cast<int>(luck & 3) - 1;
            const std::uint64_t mask = ~((std::uint64_t{1} << max_of(f.fraction_bits() - kept, 0)) - 1);
            x.a = with_field(x.a & mask, bias + around(4));
            x.b = with_field(x.b & mask, bias + static_cast<std::int64_t>(choice >> 8) % (f.precision + 3));
            x.c = with_field(x.c & mask, bias + static_cast<std::int64_t>(choice >> 20) % (f.precision + 3));
            break;
        }
        case 4: {
            const std::uint64_t sign = f.sign_bit();
            if (operation == Operation::add) x.b = beside(x.a ^ sign);
            if (operation == Operation::sub) x.b = beside(x.a);
            if (!scaled && operation != Operation::sqrt) break;
            x.a = with_field(x.a, bias + around(f.exponent_bias / 2));
            x.b = with_field(x.b, bias + static_cast<std::int64_t>(choice >> 8) % 16 - 8);
            const std::uint64_t square = operation == Operation::sqrt ? x.a : x.b;
            const std::uint64_t product = op(Operation::mul, f, x.a, square, 0, Round::nearest_even).bits;
            if (operation == Operation::fma) x.c = beside(product ^ sign);
            if (operation == Operation::div || operation == Operation::sqrt) x.a = beside(product & ~sign);
            break;
        }
        case 5:
            if (scaled) {
                aim(top + around(2));
            } else {
                x.a = with_field(x.a, top - static_cast<std::int64_t>(luck & 3));
                x.b = with_field(x.b, top - static_cast<std::int64_t>(luck >> 2 & 3));
            }
            x.c = with_field(x.c, top - static_cast<std::int64_t>(luck >> 4 & 7));
            break;
        case 6:
            if (scaled) {
                aim(1 - f.precision / 2 + around(f.precision / 2 + 2));
            } else {
                x.a = with_field(x.a, luck & 3);
                x.b = with_field(x.b, luck >> 2 & 3);
            }
            x.c = with_field(x.c, luck >> 4 & 3);
            break;
        default:
            x.a = with_field(x.a, bias + around(2));
            x.b = with_field(x.b, bias + static_cast<std::int64_t>(choice >> 8) % 5 - 2);
            x.c = with_field(x.c, bias + static_cast<std::int64_t>(choice >> 16) % 5 - 2);
            break;
    }
    // All roots of negative numbers are NaN, so only one operand in four keeps its sign.
    if (operation == Operation::sqrt && (choice & 0x18) != 0) x.a &= ~f.sign_bit();
    return x;
}

}  // namespace macheps::evidence
