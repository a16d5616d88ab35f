// SPDX-License-Identifier: Apache-2.0
// Computes half ulps of a format and rounds numbers to a format, for loops over many numbers. Values that depend only
// on the format are computed once. The results are equal to those of the ulp and the codec in core.
#pragma once
#include "core/codec.hpp"
#include "core/ulp.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace macheps::check {

/// Computes half the distance between neighbouring numbers of a format, including subnormal numbers.
class HalfUlp {
  public:
    explicit HalfUlp(const Format& format)
        : least_(format.emin()),
          top_(exponent_of(decode64(format, format.max_finite_code() << format.padding))),
          fraction_bits_(format.fraction_bits()) {}

    /// Returns half an ulp at |x|. Beyond the largest finite number, returns half an ulp of the top binade. Returns
    /// infinity for infinities, and NaN for NaN.
    double operator()(double x) const {
        const auto field = static_cast<int>(bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
        if (field == 0x7ff) return std::isnan(x) ? x : std::numeric_limits<double>::infinity();
        // Zeros and subnormal fp64 numbers get the exponent -1022, the smallest of fp64. It is below the smallest
        // exponent of every other format, so that `least_` replaces it.
        const int exponent = field == 0 ? -1022 : field - 1023;
        return Format::power_of_two(std::min(std::max(exponent, least_), top_) - fraction_bits_ - 1);
    }

  private:
    int least_, top_, fraction_bits_;
};

/// Rounds fp64 numbers to nearest even by integer operations on their bits. This works only if the result is a normal
/// number of the format.
class NearestNormal {
  public:
    explicit NearestNormal(const Format& format)
        : drop_(53 - format.precision),
          least_(Format::power_of_two(format.emin())),
          // This limit leaves numbers in the top binade to the codec, because in some formats the top binade also has
          // codes that are not finite numbers.
          most_(format.encoding == Encoding::binary
                    ? Format::power_of_two((1 << (format.bits - format.precision)) - 2 - format.exponent_bias)
                    : 0) {}

    /// Sets y to x, rounded to the format. Returns false if the codec must round x instead.
    bool round(double x, double& y) const {
        if (most_ == 0) return false;
        const auto bits = bit_cast<std::uint64_t>(x), half = std::uint64_t{1} << (drop_ - 1), odd = (bits >> drop_) & 1;
        y = bit_cast<double>((bits + (half - 1) + odd) & ~((half << 1) - 1));
        return is_normal(y);
    }
    /// Returns true if y is certainly a normal number. Precondition: y is a number of the format.
    bool is_normal(double y) const { return std::fabs(y) > least_ && std::fabs(y) < most_; }
    /// Returns true if x may be the midpoint of two normal numbers.
    bool is_tie(double x) const {
        const auto half = std::uint64_t{1} << (drop_ - 1);
        return (bit_cast<std::uint64_t>(x) & ((half << 1) - 1)) == half;
    }
    /// Returns the difference of the codes of two normal numbers of the format that have the same sign.
    std::uint64_t distance(double x, double y) const {
        const std::uint64_t a = bit_cast<std::uint64_t>(x) >> drop_, b = bit_cast<std::uint64_t>(y) >> drop_;
        return a < b ? b - a : a - b;
    }

  private:
    int drop_;
    double least_, most_;
};

}  // namespace macheps::check
