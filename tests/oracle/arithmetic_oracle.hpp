// SPDX-License-Identifier: Apache-2.0
// Second implementation of every result of core/arithmetic.hpp, for formats of at most 24 significand bits. The two
// implementations share only the names of operations and modes.
//
// The oracle is exact for the following reason. Operands are doubles. MPFR computes the result to 53 bits, rounded
// towards zero, and reports whether the result is exact. If it is not, the last bit is set (round to odd). Rounding
// this number to p <= 51 bits in any direction gives the same result as rounding the exact number. Its first 53 - p
// discarded bits are right (Boldo and Melquiond 2008), so stochastic rounding with 32 bits is right for p <= 19. Then
// the search of rounding_oracle.hpp rounds the number to the format. Flags are computed with an unbounded exponent, as
// in MPFR.
#pragma once
#include "core/arithmetic.hpp"
#include "tests/oracle/rounding_oracle.hpp"

#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace macheps::oracle {

class ArithmeticOracle {
  public:
    explicit ArithmeticOracle(std::string_view name) : rounding_(name), precision_(rounding_.row().fraction_bits + 1) {
        mpfr_inits2(53, x_, y_, z_, r_, nullptr);
        mpfr_init2(rounded_, precision_ < 1 ? 1 : precision_);
        const Row& row = rounding_.row();
        min_normal_ = std::ldexp(1.0, row.kind == Row::scale ? -127 : row.kind == Row::integer ? -6 : 1 - row.bias);
    }
    ~ArithmeticOracle() { mpfr_clears(x_, y_, z_, r_, rounded_, nullptr); }
    ArithmeticOracle(const ArithmeticOracle&) = delete;
    ArithmeticOracle& operator=(const ArithmeticOracle&) = delete;

    double value(std::uint64_t container) const {
        const Row& row = rounding_.row();
        if (row.width == 32) return bit_cast<float>(static_cast<std::uint32_t>(container));
        const std::uint64_t code = container >> row.padding, half = std::uint64_t{1} << (row.width - 1);
        const auto& values = rounding_.values();
        if (row.kind == Row::scale) return code < values.size() ? values[code] : std::nan("");
        if (row.kind == Row::integer) return (static_cast<double>(code) - (code >= half ? 256 : 0)) / 64;
        const double sign = code >= half ? -1 : 1;
        const std::uint64_t magnitude = code % half;
        if (row.kind == Row::fnuz && code == half) return std::nan("");
        if (magnitude < values.size()) return sign * values[magnitude];
        const bool infinite = row.kind == Row::ieee && magnitude == values.size();
        return infinite ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    }

    Rounded result(Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c, Round mode,
                   Overflow overflow = Overflow::nonsaturate, RandomBits random = {},
                   Tininess tininess = Tininess::after_rounding) {
        const int operands = operation == Operation::sqrt ? 1 : operation == Operation::fma ? 3 : 2;
        const double x = value(a), y = operands > 1 ? value(b) : 1, z = operands > 2 ? value(c) : 0;
        const double like = plain(operation, x, y, z);  // decides the special cases
        if (std::isnan(like)) {
            const bool quiet = std::isnan(x) || std::isnan(y) || std::isnan(z);
            const bool signals = signaling(a) || (operands > 1 && signaling(b)) || (operands > 2 && signaling(c));
            const bool no_product =
                operation == Operation::fma && std::isnan(x * y) && !std::isnan(x) && !std::isnan(y);
            return {rounding_.code(std::nan(""), mode, overflow), {.invalid = !quiet || signals || no_product}};
        }
        const bool finite = std::isfinite(x) && std::isfinite(y) && std::isfinite(z);
        if (operation == Operation::div && y == 0 && finite)
            return {rounding_.code(like, mode, overflow), {.divide_by_zero = true}};
        if (!finite) {
            if (std::isinf(like)) return {rounding_.code(like, mode, overflow), {}};
            return rounded(like, mode, overflow, random, tininess);  // finite / infinite
        }
        return rounded(to_odd(operation, x, y, z, mode), mode, overflow, random, tininess);
    }

  private:
    static double plain(Operation operation, double x, double y, double z) {
        switch (operation) {
            case Operation::add:
                return x + y;
            case Operation::sub:
                return x - y;
            case Operation::mul:
                return x * y;
            case Operation::div:
                return x / y;
            case Operation::sqrt:
                return std::sqrt(x);
            case Operation::fma:
                return std::fma(x, y, z);
        }
        return 0;
    }

    bool signaling(std::uint64_t container) const {
        const Row& row = rounding_.row();
        if (row.kind != Row::ieee || !std::isnan(value(container))) return false;
        return ((container >> row.padding) % (std::uint64_t{1} << row.fraction_bits)) < std::uint64_t{1}
                                                                                            << (row.fraction_bits - 1);
    }

    /// Returns the result for finite operands, rounded to odd in 53 bits. If an exact result is zero, `mode` may decide
    /// its sign.
    double to_odd(Operation operation, double x, double y, double z, Round mode) {
        mpfr_set_d(x_, x, MPFR_RNDN);
        mpfr_set_d(y_, y, MPFR_RNDN);
        mpfr_set_d(z_, z, MPFR_RNDN);
        int inexact = 0;
        switch (operation) {
            case Operation::add:
                inexact = mpfr_add(r_, x_, y_, MPFR_RNDZ);
                break;
            case Operation::sub:
                inexact = mpfr_sub(r_, x_, y_, MPFR_RNDZ);
                break;
            case Operation::mul:
                inexact = mpfr_mul(r_, x_, y_, MPFR_RNDZ);
                break;
            case Operation::div:
                inexact = mpfr_div(r_, x_, y_, MPFR_RNDZ);
                break;
            case Operation::sqrt:
                inexact = mpfr_sqrt(r_, x_, MPFR_RNDZ);
                break;
            case Operation::fma:
                inexact = mpfr_fma(r_, x_, y_, z_, MPFR_RNDZ);
                break;
        }
        double result = mpfr_get_d(r_, MPFR_RNDZ);
        if (inexact != 0) result = bit_cast<double>(bit_cast<std::uint64_t>(result) | 1);
        if (mpfr_zero_p(r_) == 0) return result;
        const bool multiplies = operation == Operation::mul || operation == Operation::div;
        const bool product_negative = std::signbit(x) != std::signbit(y);
        if (multiplies) return product_negative ? -0.0 : 0.0;
        if (operation == Operation::sqrt) return x;
        const bool first = operation == Operation::fma ? product_negative : std::signbit(x);
        const double last = operation == Operation::fma ? z : operation == Operation::sub ? -y : y;
        const bool zeros = operation == Operation::fma ? (x == 0 || y == 0) : x == 0;
        if (zeros && first == std::signbit(last)) return first ? -0.0 : 0.0;
        return mode == Round::down ? -0.0 : 0.0;
    }

    Rounded rounded(double exact, Round mode, Overflow overflow, RandomBits random, Tininess tininess) {
        Rounded result{rounding_.code(exact, mode, overflow, random.value, random.bits), {}};
        const Row& row = rounding_.row();
        const double got = value(result.bits), size = std::fabs(exact);
        result.flags.inexact = got != exact;
        if (row.kind == Row::scale || row.kind == Row::integer) {
            result.flags.overflow = size > rounding_.largest();
            result.flags.underflow = result.flags.inexact && size < min_normal_;
            return result;
        }
        // Rounds with an unbounded exponent.
        const double unbounded = std::fabs(round_unbounded(exact, mode, random));
        result.flags.overflow = unbounded > rounding_.largest();
        if (result.flags.overflow) result.flags.inexact = true;
        const bool tiny = tininess == Tininess::before_rounding ? size < min_normal_ : unbounded < min_normal_;
        result.flags.underflow = result.flags.inexact && exact != 0 && size < min_normal_ && tiny;
        return result;
    }

    double round_unbounded(double exact, Round mode, RandomBits random) {
        mpfr_set_d(x_, exact, MPFR_RNDN);
        switch (mode) {
            case Round::nearest_even:
                mpfr_set(rounded_, x_, MPFR_RNDN);
                break;
            case Round::toward_zero:
                mpfr_set(rounded_, x_, MPFR_RNDZ);
                break;
            case Round::up:
                mpfr_set(rounded_, x_, MPFR_RNDU);
                break;
            case Round::down:
                mpfr_set(rounded_, x_, MPFR_RNDD);
                break;
            // mpfr_set does not support these modes, so the code chooses one of the two neighbours.
            case Round::nearest_away:
            case Round::to_odd:
            case Round::stochastic: {
                mpfr_set(rounded_, x_, MPFR_RNDZ);
                const double low = mpfr_get_d(rounded_, MPFR_RNDN);
                mpfr_set(rounded_, x_, MPFR_RNDA);
                const double high = mpfr_get_d(rounded_, MPFR_RNDN);
                if (low == high) return low;
                const double fraction = (exact - low) / (high - low);
                if (mode == Round::nearest_away) return fraction >= 0.5 ? high : low;
                // The odd neighbour is the one that is not a multiple of twice the step. This also holds just below a
                // power of two.
                if (mode == Round::to_odd) return std::fmod(low, 2 * (high - low)) != 0 ? low : high;
                return std::floor(std::ldexp(fraction, random.bits)) + random.value >= std::ldexp(1.0, random.bits)
                           ? high
                           : low;
            }
        }
        return mpfr_get_d(rounded_, MPFR_RNDN);
    }

    RoundingOracle rounding_;
    int precision_;
    double min_normal_;
    mpfr_t x_, y_, z_, r_, rounded_;
};

}  // namespace macheps::oracle
