// SPDX-License-Identifier: Apache-2.0
// An exact sum of products of fp32 numbers (Kulisch's long accumulator). Host and device.
#pragma once
#include "core/codec.hpp"

namespace macheps {

/// A fixed-point number in two's complement that can hold the sum of 2^30 products of two fp32 numbers and an fp32
/// number.
class ExactSum {
  public:
    /// Adds (-1)^negative * significand * 2^exponent. The exponent must be at least -298, and the magnitude below
    /// 2^258.
    MACHEPS_HD constexpr void add(bool negative, std::uint64_t significand, int exponent) {
        const int at = exponent - lowest, word = at / 32, bit = at % 32;
        // The significand covers at most three words.
        std::uint64_t low = significand << bit, high = bit == 0 ? 0 : significand >> (64 - bit);
        const std::uint32_t part[3] = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                                       static_cast<std::uint32_t>(high)};
        std::int64_t carry = 0;
        for (int i = word; i < words; ++i) {
            const std::int64_t digit = i < word + 3 ? std::int64_t{part[i - word]} : 0;
            if (i >= word + 3 && carry == 0) break;
            const std::int64_t sum = std::int64_t{limb_[i]} + (negative ? -digit : digit) + carry;
            limb_[i] = static_cast<std::uint32_t>(sum);
            carry = sum >> 32;
        }
    }

    /// Returns at least 62 leading bits of the sum. The last bit is sticky: it is set if a lower bit of the sum is set.
    /// Rounding this value to any narrower format gives the same result as rounding the sum itself. A sum of zero is
    /// +0.
    MACHEPS_HD constexpr Unpacked value() const {
        const bool negative = (limb_[words - 1] >> 31) != 0;
        std::uint32_t magnitude[words] = {};
        std::uint64_t carry = negative ? 1 : 0;
        for (int i = 0; i < words; ++i) {
            const std::uint64_t digit = (negative ? ~limb_[i] : limb_[i]) + carry;
            magnitude[i] = static_cast<std::uint32_t>(digit);
            carry = negative ? digit >> 32 : 0;
        }
        int top = words - 1;
        while (top >= 0 && magnitude[top] == 0) --top;
        if (top < 0) return {Unpacked::Kind::finite, false, 0, 0};
        const int shift = countl_zero(std::uint64_t{magnitude[top]}) - 32;
        std::uint64_t significand = std::uint64_t{magnitude[top]} << 32 | (top > 0 ? magnitude[top - 1] : 0);
        std::uint32_t below = top > 1 ? magnitude[top - 2] : 0;
        if (shift > 0) {
            significand = significand << shift | below >> (32 - shift);
            below <<= shift;
        }
        bool sticky = below != 0;
        for (int i = 0; i < top - 2; ++i) sticky = sticky || magnitude[i] != 0;
        return {Unpacked::Kind::finite, negative, significand | (sticky ? 1u : 0u), lowest + 32 * (top - 1) - shift};
    }

  private:
    static constexpr int lowest = -320, words = 20;  // 2^-320 to 2^320
    std::uint32_t limb_[words] = {};
};

}  // namespace macheps
