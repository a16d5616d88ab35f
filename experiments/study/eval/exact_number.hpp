// SPDX-License-Identifier: Apache-2.0
// A number exactly as typed: a decimal, a fraction or a hexadecimal float. A conversion to any format, including fp64,
// rounds it once.
#pragma once
#include "core/arithmetic.hpp"
#include "core/rounding.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

class ExactNumber {
  public:
    /// Parses a number, inf or nan, each with an optional sign. Returns nothing for other texts. Decimals above 10^400
    /// or below 10^-400 in magnitude become these bounds, because no format here distinguishes them.
    static std::optional<ExactNumber> read(std::string_view text);
    static ExactNumber of(double x);
    /// Returns the exact result of an operation on formats' values. A square root that is not rational is cut off 200 bits
    /// below its leading bit. Returns nothing if an operand or the result is infinite or NaN.
    static std::optional<ExactNumber> result_of(Operation operation, double a, double b, double c);

    /// Encodes the exact value, as encode64 of core/codec.hpp does for a double.
    std::uint64_t encode(Format f, Round mode, Overflow overflow, RandomBits random) const;
    /// Returns the leading bits of the number. The last of them is also set if any lower bit is set. Kind and sign are
    /// exact.
    Unpacked parts() const;
    /// Returns the number rounded to fp64, to nearest even.
    double near() const;
    bool is_near() const;  ///< whether near() equals the number

    /// Distance of a value from this number: the difference value - this, the difference divided by |this|, and the
    /// magnitude of the difference in units in the last place (ulps) of a format at this number. Each result is rounded
    /// once. All are 0 if both numbers are NaN or the same infinity.
    struct Distance {
        double error = 0, relative = 0, ulps = 0;
    };
    Distance distance_of(Format f, double value) const;

    /// A possible result of stochastic rounding.
    struct StochasticResult {
        std::uint64_t code = 0;      ///< a container
        double probability = 1;      ///< for random numbers of unlimited width; rounded once
        std::string fraction = "1";  ///< the exact probability, such as `4/5`
        std::uint64_t words = std::uint64_t{1}
                              << 32;  ///< how many of the 2^32 words of random bits give it in encode()
    };
    /// Returns the possible results of stochastic rounding: first the result of cutting off the digits that do not fit,
    /// then the result of rounding away from zero. Returns only one if the result is certain.
    std::vector<StochasticResult> stochastic_results(Format f, Overflow overflow) const;

  private:
    using Ratio = boost::multiprecision::cpp_rational;
    static double rounded(const Ratio& x, Round mode);

    Ratio value_{};
    bool is_negative_ = false;         ///< also set for -0
    std::optional<double> special_{};  ///< an infinity, or NaN
};

}  // namespace macheps::study
