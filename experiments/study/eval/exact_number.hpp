// SPDX-License-Identifier: Apache-2.0
// A number exactly as it was typed: a decimal, a fraction, a hexadecimal float. Every format rounds it once, fp64 too.
#pragma once
#include "core/codec.hpp"
#include "core/rounding.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <optional>
#include <string_view>

namespace macheps::study {

class ExactNumber {
  public:
    /// Decimals beyond 10^400 or below 10^-400 are taken for these: no format here tells them apart.
    /// Empty when the text is no number. inf and nan are, with their signs.
    static std::optional<ExactNumber> read(std::string_view text);
    static ExactNumber of(double x);

    /// As core/codec.hpp's encode64, from the exact value.
    std::uint64_t encode(Format f, Round mode, Overflow overflow, RandomBits random) const;
    /// Its leading bits, and a last one that says whether more follow: its kind and its sign are exact.
    Unpacked parts() const;
    /// Rounded to fp64, to nearest.
    double near() const;
    bool is_near() const;  ///< whether near() is the number itself

    /// value - this, relative to |this|, and in units of the format's last place at this number: each rounded once.
    /// 0 where both are one infinity, or NaN.
    struct Distance {
        double error = 0, relative = 0, ulps = 0;
    };
    Distance distance_of(Format f, double value) const;

  private:
    using Ratio = boost::multiprecision::cpp_rational;
    static double rounded(const Ratio& x, Round mode);

    Ratio value_{};
    bool is_negative_ = false;         ///< also of a zero
    std::optional<double> special_{};  ///< an infinity, or NaN
};

}  // namespace macheps::study
