// SPDX-License-Identifier: Apache-2.0
// Rounds the exact sum of two doubles to a format, in every mode. The code has no branches, so the compiler can
// vectorise it. The results have the same bits as those of op() in core/arithmetic.hpp.
#pragma once
#include "core/codec.hpp"
#include "core/rounding.hpp"
#include "experiments/study/rounder.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace macheps::study {

/// The exact sum of two doubles: x + y = sum + rest (Knuth), if nothing overflows. `rest` is the rounding error of
/// `sum`.
struct ExactPair {
    double sum, rest;
};
[[gnu::always_inline]] inline ExactPair two_sum(double x, double y) {
    const double sum = x + y, of_y = sum - x, of_x = sum - of_y;
    return {sum, (x - of_x) + (y - of_y)};
}

/// Returns sum + rest rounded to odd. If this double is then rounded to 50 digits or fewer, the result is the same as
/// if sum + rest were rounded directly.
[[gnu::always_inline]] inline double odd_sum(const ExactPair& x) {
    const auto bits = bit_cast<std::uint64_t>(x.sum);
    const bool is_short = x.rest != 0 && (bits & 1) == 0;
    const bool is_inward = (x.rest < 0) != (x.sum < 0);
    const double odd = bit_cast<double>(is_inward ? bits - 1 : bits | 1);
    return is_short && std::fabs(x.sum) <= 0x1p1000 ? odd : x.sum;
}

/// Rounds to formats that have up to 25 digits and exponents within the range of fp32. Supports every rounding mode,
/// whereas Rounder only rounds to nearest even. First truncates the magnitude of the sum to the format, which gives
/// `kept`. The rounding mode then selects `kept` or the next larger number of the format.
class ModeRounder {
  public:
    explicit ModeRounder(const Format& f, Round mode, Beyond beyond = Beyond::as_format)
        : mode_(mode),
          least_(Format::power_of_two(f.emin())),
          lift_(Format::power_of_two(53 - f.precision)),
          last_place_(Format::power_of_two(1 - f.precision)),
          largest_(decode64(f, f.max_finite_code() << f.padding)),
          most_(2 * binade(largest_)),
          beyond_(beyond == Beyond::infinity ? infinity
                  : f.can_overflow()         ? decode64(f, f.overflow_code() << f.padding)
                                             : largest_),
          beyond_positive_(beyond == Beyond::as_format && rounds_inward(mode, false) ? largest_ : beyond_),
          beyond_negative_(beyond == Beyond::as_format && rounds_inward(mode, true) ? largest_ : beyond_),
          nan_(beyond == Beyond::infinity ? std::numeric_limits<double>::quiet_NaN()
                                          : decode64(f, f.nan_code() << f.padding)),
          zero_(f.has_negative_zero() ? -0.0 : 0.0) {}

    /// `word` is a number that consists of 32 random bits. Only stochastic rounding uses it.
    [[gnu::always_inline]] double operator()(const ExactPair& x, double word) const {
        const double magnitude = std::fabs(x.sum), rest = x.sum < 0 ? -x.rest : x.rest;
        // If `rest` is negative, the magnitude of the exact sum is smaller than `magnitude`. The truncation then starts
        // from the next smaller double.
        const double inner = rest < 0 ? bit_cast<double>(bit_cast<std::uint64_t>(magnitude) - 1) : magnitude;
        double place = binade(inner);
        place = place < least_ ? least_ : place;
        place = place > most_ ? most_ : place;
        const double shift = place * lift_, quantum = place * last_place_;
        const double near = (inner + shift) - shift, kept = near > inner ? near - quantum : near;
        const double cut = magnitude - kept;  // exact; the mode decides from cut + rest, the part that was cut off
        const bool is_inexact = cut != 0 || rest != 0;
        const double beside_half = (cut - quantum / 2) + rest;  // the sign of this sum of two doubles is exact
        const bool is_odd = (kept + 2 * shift) - 2 * shift != kept;
        // 2^32 / quantum, computed from the exponent bits.
        const double scale = bit_cast<double>((std::uint64_t{2 * 1023 + 32} << 52) - bit_cast<std::uint64_t>(quantum));
        const double beside_word = (cut * scale - (0x1p32 - word)) + rest * scale;
        const bool is_negative = std::signbit(x.sum);
        // To avoid branches, every case is computed, and the mode selects one.
        const bool is_beyond_half = beside_half > 0, is_tie = beside_half == 0, is_drawn = beside_word >= 0;
        const bool away = ((mode_ == Round::nearest_even) & (is_beyond_half | (is_tie & is_odd))) |
                          ((mode_ == Round::nearest_away) & (is_beyond_half | is_tie)) |
                          ((mode_ == Round::up) & is_inexact & !is_negative) |
                          ((mode_ == Round::down) & is_inexact & is_negative) |
                          ((mode_ == Round::to_odd) & is_inexact & !is_odd) | ((mode_ == Round::stochastic) & is_drawn);
        double rounded = away ? kept + quantum : kept;
        rounded = rounded > largest_ ? (is_negative ? beyond_negative_ : beyond_positive_) : rounded;
        rounded = magnitude > 0x1p1000 ? beyond_ : rounded;  // an operand is infinite; no mode changes that
        const double result = std::copysign(rounded, x.sum) + zero_;
        return x.sum == x.sum ? result : nan_;
    }

  private:
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    /// Returns 2^floor(log2 x) if x is normal, and 0 if x is smaller.
    [[gnu::always_inline]] static double binade(double x) {
        return bit_cast<double>(bit_cast<std::uint64_t>(x) & 0x7ff0000000000000ull);
    }

    Round mode_;
    double least_, lift_, last_place_, largest_, most_, beyond_, beyond_positive_, beyond_negative_, nan_, zero_;
};

}  // namespace macheps::study
