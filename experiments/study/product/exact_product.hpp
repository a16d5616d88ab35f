// SPDX-License-Identifier: Apache-2.0
// Exact sums of products of fp32 numbers, computed with fixed-point integers. They are the reference for the errors of
// the emulated machines. This file shares no code with emulation/.
#pragma once
#include "core/host/thread_pool.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace macheps::study {

/// `high` is the value rounded to nearest, ties to even. high + low is the value with a relative error of at most
/// 2^-105. It is the exact value if 105 bits suffice. If `low` is subnormal, the error is at most 2^-1075.
struct WideValue {
    double high = 0, low = 0;
};

/// Returns the value of a fixed-point number whose digit i has the weight 2^(32 i + lowest). Digits have signs and may
/// exceed 32 bits. The last digit must be able to hold all carries.
WideValue fixed_point_value(std::span<std::int64_t> digits, int lowest);

/// Exact sum of products of finite fp32 numbers. It is an integer of 640 bits in units of 2^-298, the smallest nonzero
/// product of two fp32 numbers, and can hold the sum of 2^30 products.
class ExactAccumulator {
  public:
    /// One operand, split into significand * 2^exponent, with the magnitude of the significand below 2^24.
    struct Parts {
        std::int32_t significand = 0;  ///< with sign
        std::int32_t exponent = 0;     ///< at least -149
    };
    static Parts split(float x);

    void clear() { digits_.fill(0); }
    void add_product(Parts a, Parts b) {
        const std::int64_t product = std::int64_t{a.significand} * b.significand;
        const auto place = static_cast<unsigned>(a.exponent + b.exponent + 298);
        const unsigned word = place / 32, shift = place % 32;
        // The product has 48 bits and is shifted by at most 31, so it covers three words of 32 bits. Each of these
        // words is added with the sign of the product.
        const std::int64_t sign = product < 0 ? -1 : 1;
        const std::uint64_t magnitude = static_cast<std::uint64_t>(product * sign);
        const std::uint64_t low = (magnitude & 0xffffffffu) << shift, high = (magnitude >> 32) << shift;
        digits_[word] += sign * static_cast<std::int64_t>(low & 0xffffffffu);
        digits_[word + 1] += sign * static_cast<std::int64_t>((low >> 32) + (high & 0xffffffffu));
        digits_[word + 2] += sign * static_cast<std::int64_t>(high >> 32);
    }
    WideValue value() const;

  private:
    static constexpr int lowest = -298;
    /// Word i has the weight 2^(32 i - 298). The largest product ends below bit 554. The words above it hold carries.
    static constexpr int words = 20;
    std::array<std::int64_t, words> digits_{};
};

struct ExactOutput {
    WideValue sum{};
    double magnitudes = 0;  ///< sum of |a||b|, fp64
};

/// Factors that change along k. In the output (row, column), the terms with indices in [block * i, block * (i + 1)) are
/// multiplied by a[row * blocks + i] and b[column * blocks + i], where blocks = ceil(k / block). If `block` is 0,
/// nothing is multiplied.
struct BlockFactors {
    std::int64_t block = 0;
    std::vector<float> a{}, b{};
};

/// Returns the [m,n] outputs of a [m,k] times b [k,n], row-major, for finite values. Without factors, the sums are
/// exact. With factors, the exact sum of each block is multiplied by its factors and added, with an error below 2^-100
/// of the magnitudes.
std::vector<ExactOutput> exact_product(std::span<const float> a, std::span<const float> b, std::int64_t m,
                                       std::int64_t n, std::int64_t k, ThreadPool& pool,
                                       const BlockFactors& factors = {});

/// Return x + y and x * factor, to within 2^-104 of the magnitudes.
WideValue sum(const WideValue& x, const WideValue& y);
WideValue scaled(const WideValue& x, double factor);

}  // namespace macheps::study
