// SPDX-License-Identifier: Apache-2.0
// Second implementation of rounding to a format. It searches the list of the format's values. It shares only the names
// of the modes with core/codec.hpp, and neither shifts nor masks a significand.
//
// The search is exact for the following reason. All arithmetic is on doubles. The values of a format with at most 24
// significand bits, their midpoints and their differences are doubles. The difference |x| - low is exact if
// low <= |x| <= 2 low (Sterbenz) or low = 0, and no other differences are computed. Comparisons and scalings by powers
// of two are exact.
#pragma once
#include "core/format_table.hpp"
#include "core/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

namespace macheps::oracle {

/// The two values of a format that enclose a magnitude |x|, and the code of the lower value. A number above the largest
/// finite value has no upper neighbour. For such a number, `high` is the largest finite value plus one more step.
struct Neighbours {
    double low = 0, high = 0;
    std::uint64_t low_code = 0;
    double fraction = 0;     ///< (|x| - low) / (high - low), which is exact
    bool beyond = false;     ///< |x| >= the first value that the format does not have
    bool below_all = false;  ///< |x| < the smallest value; only in a format without zero
};

/// Parameters of one format. They are written down again here, so that the oracle uses no field of `Format`.
struct Row {
    std::string_view name;
    int width, exponent_bits, fraction_bits, bias;
    enum { ieee, one_nan, fnuz, finite, scale, integer } kind;
    int padding = 0;
};
inline constexpr Row rows[] = {
    {"fp64", 64, 11, 52, 1023, Row::ieee},   {"fp32", 32, 8, 23, 127, Row::ieee},
    {"tf32", 19, 8, 10, 127, Row::ieee, 13}, {"fp16", 16, 5, 10, 15, Row::ieee},
    {"bf16", 16, 8, 7, 127, Row::ieee},      {"e4m3fn", 8, 4, 3, 7, Row::one_nan},
    {"e5m2", 8, 5, 2, 15, Row::ieee},        {"e4m3fnuz", 8, 4, 3, 8, Row::fnuz},
    {"e5m2fnuz", 8, 5, 2, 16, Row::fnuz},    {"e4m3b11fnuz", 8, 4, 3, 11, Row::fnuz},
    {"e3m4", 8, 3, 4, 3, Row::ieee},         {"e4m3ieee", 8, 4, 3, 7, Row::ieee},
    {"e8m0fnu", 8, 8, 0, 127, Row::scale},   {"e2m3fn", 6, 2, 3, 1, Row::finite},
    {"e3m2fn", 6, 3, 2, 3, Row::finite},     {"e2m1fn", 4, 2, 1, 1, Row::finite},
    {"mxint8", 8, 0, 6, 0, Row::integer},
};

class RoundingOracle {
  public:
    explicit RoundingOracle(std::string_view name) {
        for (const auto& row : rows) {
            if (row.name == name) row_ = row;
        }
        if (row_.width > 19) return;  // no list for fp32 and fp64: their values are all floats and all doubles
        const int count = row_.kind == Row::scale ? 256 : 1 << (row_.width - 1);
        for (int code = 0; code < count && is_number(code); ++code) values_.push_back(value_of(code));
    }

    const Row& row() const { return row_; }
    /// Returns the values >= 0 of the format in the order of their codes, or an empty list for fp32 and fp64.
    const std::vector<double>& values() const { return values_; }
    double largest() const {
        if (row_.width == 64) return std::numeric_limits<double>::max();
        return row_.width == 32 ? double{std::numeric_limits<float>::max()} : values_.back();
    }

    /// Returns the neighbours of a finite number `x`.
    Neighbours find(double x) const {
        const double size = std::fabs(x);
        Neighbours n;
        if (row_.width == 64) {
            n.low = size;
            n.low_code = bits_of(size);
            n.high = std::nextafter(size, std::numeric_limits<double>::infinity());
            return n;
        }
        if (row_.width == 32) {
            constexpr float infinity = std::numeric_limits<float>::infinity();
            if (size >= 0x1p128) {
                n.beyond = true;
                return n;
            }
            float low = static_cast<float>(size);
            while (low > size) low = std::nextafter(low, 0.0f);
            const float high = std::nextafter(low, infinity);
            n.low = low;
            n.high = high == infinity ? 0x1p128 : high;
            std::uint32_t code;
            std::memcpy(&code, &low, sizeof code);
            n.low_code = code;
        } else {
            const auto above = std::upper_bound(values_.begin(), values_.end(), size);
            if (above == values_.begin()) {
                n.below_all = true;
                n.high = values_.front();
                return n;
            }
            n.low = *(above - 1);
            n.low_code = static_cast<std::uint64_t>(above - values_.begin() - 1);
            n.high = above != values_.end() ? *above : first_missing();
            n.beyond = size >= n.high;
        }
        if (!n.beyond) n.fraction = (size - n.low) / (n.high - n.low);
        return n;
    }

    /// Returns the bits of the container for `x`, whose neighbours are `n`.
    std::uint64_t code(double x, const Neighbours& n, Round mode, Overflow overflow, std::uint32_t random = 0,
                       int random_bits = 32) const {
        const bool negative = std::signbit(x);
        if (std::isnan(x)) return nan_code(negative) << row_.padding;
        if (std::isinf(x))
            return (overflow == Overflow::saturate ? top(negative) : too_large(negative)) << row_.padding;
        // A scale format has no sign, so the rounding modes act on |x|.
        const bool downward = row_.kind != Row::scale && negative;
        if (n.below_all) return 0;
        bool finite_stays = false;
        switch (mode) {
            case Round::toward_zero:
            case Round::to_odd:
                finite_stays = true;
                break;
            case Round::up:
                finite_stays = downward;
                break;
            case Round::down:
                finite_stays = !downward;
                break;
            default:
                break;
        }
        if (!n.beyond) {
            std::uint64_t magnitude = n.low_code;
            if (n.fraction != 0 && goes_away(n, mode, downward, random, random_bits)) ++magnitude;
            if (magnitude <= top_code()) return with_sign(magnitude, negative) << row_.padding;
        }
        const bool saturates = overflow == Overflow::saturate || finite_stays;
        return (saturates ? top(negative) : too_large(negative)) << row_.padding;
    }

    std::uint64_t code(double x, Round mode, Overflow overflow, std::uint32_t random = 0, int random_bits = 32) const {
        return code(x, std::isfinite(x) ? find(x) : Neighbours{}, mode, overflow, random, random_bits);
    }

  private:
    static std::uint64_t bits_of(double x) {
        std::uint64_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        return bits;
    }
    static double pow2(int e) { return std::ldexp(1.0, e); }

    bool is_number(int code) const {
        if (row_.kind == Row::scale) return code != 255;
        if (row_.kind == Row::one_nan) return code != (1 << (row_.width - 1)) - 1;
        if (row_.kind == Row::ieee) return code / (1 << row_.fraction_bits) != (1 << row_.exponent_bits) - 1;
        return true;
    }
    double value_of(int code) const {
        if (row_.kind == Row::integer) return code / 64.0;
        if (row_.kind == Row::scale) return pow2(code - 127);
        const int steps = 1 << row_.fraction_bits, field = code / steps;
        const double fraction = static_cast<double>(code % steps) / steps;
        return field == 0 ? fraction * pow2(1 - row_.bias) : (1 + fraction) * pow2(field - row_.bias);
    }
    double first_missing() const {
        const double last = values_.back();
        return row_.kind == Row::scale ? 2 * last : last + (last - values_[values_.size() - 2]);
    }
    bool goes_away(const Neighbours& n, Round mode, bool negative, std::uint32_t random, int random_bits) const {
        switch (mode) {
            case Round::nearest_even:
                // The only significand of a scale is 1, which is odd, so every tie goes up.
                if (row_.kind == Row::scale) return n.fraction >= 0.5;
                return n.fraction > 0.5 || (n.fraction == 0.5 && n.low_code % 2 == 1);
            case Round::nearest_away:
                return n.fraction >= 0.5;
            case Round::up:
                return !negative;
            case Round::down:
                return negative;
            case Round::to_odd:
                return n.low_code % 2 == 0;
            case Round::stochastic:
                return std::floor(std::ldexp(n.fraction, random_bits)) + random >= pow2(random_bits);
            default:
                return false;
        }
    }
    std::uint64_t top_code() const {
        if (row_.width == 64) return 0x7fefffffffffffff;
        return row_.width == 32 ? 0x7f7fffff : values_.size() - 1;
    }
    std::uint64_t with_sign(std::uint64_t magnitude, bool negative) const {
        if (!negative || row_.kind == Row::scale) return magnitude;
        if (row_.kind == Row::integer) return (256 - magnitude) % 256;
        if (row_.kind == Row::fnuz && magnitude == 0) return 0;
        return magnitude + (std::uint64_t{1} << (row_.width - 1));
    }
    std::uint64_t top(bool negative) const { return with_sign(top_code(), negative); }
    std::uint64_t too_large(bool negative) const {
        switch (row_.kind) {
            case Row::ieee:
            case Row::one_nan:
                return with_sign(top_code() + 1, negative);
            case Row::fnuz:
                return 0x80;
            case Row::scale:
                return 0xff;
            default:
                return top(negative);
        }
    }
    std::uint64_t nan_code(bool negative) const {
        switch (row_.kind) {
            case Row::ieee:
                return with_sign(top_code() + 1 + (std::uint64_t{1} << (row_.fraction_bits - 1)), negative);
            case Row::one_nan:
                return with_sign(top_code() + 1, negative);
            case Row::fnuz:
                return 0x80;
            case Row::scale:
                return 0xff;
            default:
                return top_code();
        }
    }

    Row row_{};
    std::vector<double> values_;
};

}  // namespace macheps::oracle
