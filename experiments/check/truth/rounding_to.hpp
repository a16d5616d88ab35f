// SPDX-License-Identifier: Apache-2.0
// A format's distances and roundings to it for loops over many numbers: what follows from the format alone is worked out
// once. The results are those of core's ulp and codec.
#pragma once
#include "core/codec.hpp"
#include "core/ulp.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace macheps::check {

/// Half of the distance between neighbours of a format, subnormals included.
class HalfUlp {
  public:
    explicit HalfUlp(const Format& format)
        : least_(format.emin()),
          top_(exponent_of(decode64(format, format.max_finite_code() << format.padding))),
          fraction_bits_(format.fraction_bits()) {}

    /// At |x|: beyond the largest finite number that of the top binade, infinite at infinity, NaN at NaN.
    double operator()(double x) const {
        const auto field = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
        if (field == 0x7ff) return std::isnan(x) ? x : std::numeric_limits<double>::infinity();
        // Zeros and subnormal numbers of fp64 lie below the least exponent of any other format; fp64's own is -1022.
        const int exponent = field == 0 ? -1022 : field - 1023;
        return Format::power_of_two(std::min(std::max(exponent, least_), top_) - fraction_bits_ - 1);
    }

  private:
    int least_, top_, fraction_bits_;
};

/// x to nearest even in the bits of fp64, for results that are normal numbers of the format.
class NearestNormal {
  public:
    explicit NearestNormal(const Format& format)
        : drop_(53 - format.precision),
          least_(Format::power_of_two(format.emin())),
          // The top binade has other numbers than finite ones in some formats.
          most_(format.encoding == Encoding::binary
                    ? Format::power_of_two((1 << (format.bits - format.precision)) - 2 - format.exponent_bias)
                    : 0) {}

    /// False where the codec has to be asked.
    bool round(double x, double& y) const {
        if (most_ == 0) return false;
        const auto bits = std::bit_cast<std::uint64_t>(x), half = std::uint64_t{1} << (drop_ - 1),
                   odd = (bits >> drop_) & 1;
        y = std::bit_cast<double>((bits + (half - 1) + odd) & ~((half << 1) - 1));
        return is_normal(y);
    }
    /// Of a number of the format.
    bool is_normal(double y) const { return std::fabs(y) > least_ && std::fabs(y) < most_; }
    /// True where x may lie on the middle of two normal numbers.
    bool is_tie(double x) const {
        const auto half = std::uint64_t{1} << (drop_ - 1);
        return (std::bit_cast<std::uint64_t>(x) & ((half << 1) - 1)) == half;
    }
    /// Codes that lie between two normal numbers of the format, of one sign.
    std::uint64_t distance(double x, double y) const {
        const std::uint64_t a = std::bit_cast<std::uint64_t>(x) >> drop_, b = std::bit_cast<std::uint64_t>(y) >> drop_;
        return a < b ? b - a : a - b;
    }

  private:
    int drop_;
    double least_, most_;
};

}  // namespace macheps::check
