// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/exact_product.hpp"

#include "core/hd.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace macheps::study {

ExactAccumulator::Parts ExactAccumulator::split(float x) {
    const auto bits = bit_cast<std::uint32_t>(x);
    const auto field = static_cast<std::int32_t>((bits >> 23) & 0xff),
               fraction = static_cast<std::int32_t>(bits & 0x7fffff);
    const std::int32_t significand = field == 0 ? fraction : fraction | 0x800000;
    return {(bits >> 31) != 0 ? -significand : significand, (field == 0 ? 1 : field) - 150};
}

WideValue fixed_point_value(std::span<std::int64_t> digits, int lowest) {
    // Carries are propagated first. After that, every digit except the top digit lies in [0, 2^32), and the sign of the
    // top digit is the sign of the number.
    const int words = static_cast<int>(digits.size());
    std::int64_t* const d = digits.data();
    const auto carry = [&] {
        for (int i = 0; i + 1 < words; ++i) {
            const std::int64_t over = d[i] >> 32;  // floor
            d[i] -= over * (std::int64_t{1} << 32);
            d[i + 1] += over;
        }
    };
    carry();
    const bool is_negative = d[words - 1] < 0;
    if (is_negative) {
        for (std::int64_t& digit : digits) digit = -digit;
        carry();
    }
    int top = words - 1;
    while (top >= 0 && d[top] == 0) --top;
    if (top < 0) return {};
    const int leading = 32 * top + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(d[top]))) - 1;
    const auto bit = [&](int i) {
        return i < 0 || i > leading ? 0u : static_cast<unsigned>((d[i / 32] >> (i % 32)) & 1);
    };
    // `last` is the position of the lowest bit that fp64 can hold at this magnitude. `bits` has the bits from the
    // leading one down to `last`, and `rest` has the next 53 bits. The last bit of `rest` is also set if any lower bit
    // is set. These integers are used for the rounding, because adding two fp64 parts could underflow.
    const int last = std::max(leading - 52, -1074 - lowest);
    std::uint64_t bits = 0, rest = 0;
    for (int i = leading; i >= last; --i) bits = bits << 1 | bit(i);
    for (int i = last - 1; i >= last - 53; --i) rest = rest << 1 | bit(i);
    for (int i = last - 54; i >= 0 && (rest & 1) == 0; --i) rest |= bit(i);
    constexpr std::uint64_t half = std::uint64_t{1} << 52;
    const bool is_up = rest > half || (rest == half && (bits & 1) == 1);
    const double high = std::ldexp(static_cast<double>(bits + (is_up ? 1 : 0)), last + lowest);
    const double below = static_cast<double>(static_cast<std::int64_t>(rest) - (is_up ? std::int64_t{1} << 53 : 0));
    const double low = std::ldexp(below, last - 53 + lowest);
    return is_negative ? WideValue{-high, -low} : WideValue{high, low};
}

WideValue ExactAccumulator::value() const {
    std::array<std::int64_t, words> digits = digits_;
    return fixed_point_value(digits, lowest);
}

WideValue sum(const WideValue& x, const WideValue& y) {
    // Knuth's two-sum of the high parts. Its error is added to the low parts. Then `high` and `low` are normalised
    // again.
    const double high = x.high + y.high, back = high - x.high;
    const double low = (x.high - (high - back)) + (y.high - back) + (x.low + y.low);
    const double top = high + low;
    return {top, low - (top - high)};
}

WideValue scaled(const WideValue& x, double factor) {
    const double high = x.high * factor;
    return {high, std::fma(x.high, factor, -high) + x.low * factor};
}

std::vector<ExactOutput> exact_product(std::span<const float> a, std::span<const float> b, std::int64_t m,
                                       std::int64_t n, std::int64_t k, ThreadPool& pool, const BlockFactors& factors) {
    using Parts = ExactAccumulator::Parts;
    std::vector<Parts> left(a.size()), right(b.size());
    std::vector<float> columns(b.size());
    for (std::size_t i = 0; i < a.size(); ++i) left[i] = ExactAccumulator::split(a[i]);
    for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t j = 0; j < n; ++j) {
            columns[j * k + p] = b[p * n + j];
            right[j * k + p] = ExactAccumulator::split(b[p * n + j]);
        }
    }
    const bool has_factors = factors.block > 0;
    const std::int64_t block = has_factors ? factors.block : k, blocks = (k + block - 1) / block;
    std::vector<ExactOutput> out(static_cast<std::size_t>(m * n));
    pool.run(m * n, [&](std::int64_t element) {
        const std::int64_t i = element / n, j = element % n;
        const Parts *x = left.data() + i * k, *y = right.data() + j * k;
        for (std::int64_t at = 0; at < blocks; ++at) {
            ExactAccumulator products;
            double magnitudes = 0;
            for (std::int64_t p = at * block; p < std::min((at + 1) * block, k); ++p) {
                products.add_product(x[p], y[p]);
                magnitudes += std::fabs(double{a[i * k + p]} * double{columns[j * k + p]});
            }
            WideValue value = products.value();
            if (has_factors) {
                const double fa = factors.a[i * blocks + at], fb = factors.b[j * blocks + at];
                value = scaled(scaled(value, fa), fb);
                magnitudes *= std::fabs(fa * fb);
            }
            out[element].sum = blocks == 1 ? value : sum(out[element].sum, value);
            out[element].magnitudes += magnitudes;
        }
    });
    return out;
}

}  // namespace macheps::study
