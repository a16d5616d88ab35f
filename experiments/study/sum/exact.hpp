// SPDX-License-Identifier: Apache-2.0
// Exact sums of doubles or of products of doubles, and the error of a number compared with such a sum.
#pragma once
#include "core/overflow.hpp"
#include "emulation/machine/exact_sum.hpp"

#include <bit>
#include <cmath>

namespace macheps::study {

/// An exact sum. If a term is infinite or NaN, the sum is infinite or NaN.
class ExactTotal {
  public:
    void add(double x) {
        if (!std::isfinite(x)) special_ += x;
        const Unpacked u = unpack(x);
        if (!std::isfinite(x) || u.significand == 0) return;
        const int zeros = std::countr_zero(u.significand);
        sum_.add(u.negative, u.significand >> zeros, u.exponent + zeros);
    }
    /// Adds the exact product x y, as two doubles if one double cannot hold it.
    void add_product(double x, double y) {
        const double p = x * y;
        add(p);
        if (std::isfinite(p)) add(std::fma(x, y, -p));
    }
    double rounded(const Format& format, Round mode, RandomBits random) const {
        std::uint64_t code = 0;
        if (special_ != 0) {
            code = encode64(format, special_, Round::nearest_even, Overflow::nonsaturate);
        } else {
            code = detail::encode_unpacked(format, sum_.value(), mode, Overflow::nonsaturate, random) << format.padding;
        }
        return decode64(format, code);
    }
    /// Returns whether rounded() is finite although the sum overflows.
    bool saturates(const Format& format, Round mode, RandomBits random) const {
        return special_ == 0 && hides_overflow(format, mode) && overflows(format, sum_.value(), mode, random) &&
               std::isfinite(rounded(format, mode, random));
    }
    double to_double() const { return rounded(fp64, Round::nearest_even, {}); }
    /// Returns value - sum, rounded once.
    double error_of(double value) const {
        ExactTotal difference = *this;
        difference.add(-value);
        return -difference.to_double();
    }

  private:
    ExactSum sum_{};
    double special_ = 0;
};

}  // namespace macheps::study
