// SPDX-License-Identifier: Apache-2.0
// Rounds a number that a wider machine type holds to a format, to nearest even, without a branch: what a compiler makes
// vectors of. The bits are those of encode and decode.
#pragma once
#include "core/codec.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace macheps::analysis {

/// `Real` holds every number of the format, and 2^(digits(Real) - precision) times the binade above its largest: float for
/// formats with up to 5 exponent bits and 11 digits, double for all others up to 25 digits. Sums, products, quotients and
/// roots of such numbers, computed in Real and rounded here, are correctly rounded: Real has at least 2p + 2 digits
/// (Figueroa 1995).
template <class Real>
class Rounder {
  public:
    explicit Rounder(const Format& f)
        : least_(static_cast<Real>(Format::power_of_two(f.emin()))),
          lift_(static_cast<Real>(Format::power_of_two(digits - f.precision))),
          largest_(static_cast<Real>(decode64(f, f.max_finite_code() << f.padding))),
          most_(static_cast<Real>(2 * binade(largest_))),
          beyond_(static_cast<Real>(f.can_overflow() ? decode64(f, f.overflow_code() << f.padding) : largest_)),
          nan_(static_cast<Real>(decode64(f, f.nan_code() << f.padding))),
          zero_(f.has_negative_zero() ? -Real{0} : Real{0}) {}

    /// x + 2^s - 2^s, where 2^s is so large that the sum's last place is that of the format at x.
    [[gnu::always_inline]] Real operator()(Real x) const {
        const Real magnitude = std::fabs(x);
        Real place = binade(magnitude);
        place = place < least_ ? least_ : place;
        place = place > most_ ? most_ : place;
        const Real shift = place * lift_;
        Real rounded = (magnitude + shift) - shift;
        rounded = rounded > largest_ ? beyond_ : rounded;
        // -0 + -0 is -0; where a format knows no -0, +0 makes one +0.
        const Real result = std::copysign(rounded, x) + zero_;
        return x == x ? result : nan_;
    }

  private:
    static constexpr bool is_double = std::is_same_v<Real, double>;
    static constexpr int digits = is_double ? 53 : 24;
    using Bits = std::conditional_t<is_double, std::uint64_t, std::uint32_t>;

    /// 2^floor(log2 x) of a normal number, 0 of a subnormal one, Inf of Inf and NaN.
    [[gnu::always_inline]] static Real binade(Real x) {
        constexpr Bits exponent = is_double ? static_cast<Bits>(0x7ff0000000000000ull) : static_cast<Bits>(0x7f800000u);
        return bit_cast<Real>(static_cast<Bits>(bit_cast<Bits>(x) & exponent));
    }

    Real least_, lift_, largest_, most_, beyond_, nan_, zero_;
};

/// Formats that the algorithms of this folder round to: sign, exponent and fraction, up to 25 digits, or fp64 itself.
constexpr bool is_rounded_here(const Format& f) {
    return f.encoding == Encoding::binary && (f == fp64 || (f.precision <= 25 && f.exponent_bits() <= 8));
}
constexpr bool fits_float(const Format& f) { return f.precision <= 11 && f.exponent_bits() <= 5; }

}  // namespace macheps::analysis
