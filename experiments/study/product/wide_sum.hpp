// SPDX-License-Identifier: Apache-2.0
// Exact sums of products of fp64 numbers, as fixed-point integers. They are the reference results of `gemm --via`. They
// are exact under any cancellation.
#pragma once
#include "core/codec.hpp"
#include "experiments/study/product/exact_product.hpp"

#include <array>
#include <cstdint>

namespace macheps::study {

/// Sum of up to 2^30 products of finite doubles, computed without rounding. Its unit is 2^-2148, the square of the
/// smallest positive fp64 number.
class WideSum {
  public:
    void add_product(double a, double b) {
        const Unpacked x = unpack(a), y = unpack(b);
        __extension__ typedef unsigned __int128 Wide;
        const Wide product = Wide{x.significand} * y.significand;  // below 2^106
        const int place = x.exponent + y.exponent - lowest;
        const std::int64_t sign = x.negative != y.negative ? -1 : 1;
        add(sign, static_cast<std::uint64_t>(product), place);
        add(sign, static_cast<std::uint64_t>(product >> 64), place + 64);
    }
    WideValue value() const {
        std::array<std::int64_t, words> digits = digits_;
        return fixed_point_value(digits, lowest);
    }

  private:
    /// Adds sign * bits * 2^place, in units of 2^lowest. After the shift, the bits cover up to three digits.
    void add(std::int64_t sign, std::uint64_t bits, int place) {
        const auto word = static_cast<std::size_t>(place / 32);
        const int shift = place % 32;
        const std::uint64_t low = (bits & 0xffffffffu) << shift, high = (bits >> 32) << shift;
        digits_[word] += sign * static_cast<std::int64_t>(low & 0xffffffffu);
        digits_[word + 1] += sign * static_cast<std::int64_t>((low >> 32) + (high & 0xffffffffu));
        digits_[word + 2] += sign * static_cast<std::int64_t>(high >> 32);
    }

    /// All products are below 2^2048, which is bit 4196. The digits above hold carries.
    static constexpr int lowest = -2148, words = 136;
    std::array<std::int64_t, words> digits_{};
};

}  // namespace macheps::study
