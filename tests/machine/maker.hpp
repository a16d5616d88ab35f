// SPDX-License-Identifier: Apache-2.0
// Parts of the generators of distributions.cpp: operands in any type whose product has a given exponent.
#pragma once
#include "tests/machine/distributions.hpp"

namespace macheps::machine_oracle {

/// Fills one case. A slot is what the unit aligns as a whole: a product, or a group of 16 with its scales.
class Maker {
  public:
    Maker(const Instruction& instruction, std::mt19937_64& random);

    [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }
    [[nodiscard]] int between(int low, int high) {
        return high <= low ? low : low + static_cast<int>(below(static_cast<std::uint64_t>(high - low) + 1));
    }
    [[nodiscard]] bool chance(int of, int in = 100) {
        return below(static_cast<std::uint64_t>(in)) < static_cast<std::uint64_t>(of);
    }
    [[nodiscard]] std::uint64_t bits(int n) { return n == 0 ? 0 : random_() >> (64 - n); }

    [[nodiscard]] int slots() const { return slots_; }
    /// Returns two different slots, usually of the same step.
    [[nodiscard]] std::pair<int, int> two_slots();
    /// Return the smallest and the largest exponent of a product, with the smallest and the largest scales.
    [[nodiscard]] int least() const { return least_; }
    [[nodiscard]] int greatest() const { return greatest_; }
    /// Returns an exponent that fits the result, with `room` bits below it that are within reach of products.
    [[nodiscard]] int leader(int room);

    /// Returns such an exponent or one up to `distance` below it.
    [[nodiscard]] int far_below(int room, int distance);

    enum class Digits { any, ones, none, few };
    [[nodiscard]] Digits some_digits();
    // Arguments are passed in braces, so that they are evaluated, and random numbers drawn, in the written order.
    struct Sized {
        bool negative;
        int exponent;
        Digits digits;
    };
    struct Term {
        int slot;
        bool negative;
        int exponent;
        Digits digits;
    };
    struct Power {
        int slot;
        bool negative;
        int exponent;
    };
    /// Returns a code of about that exponent. Bits that the unit does not read are random.
    [[nodiscard]] std::uint64_t code(const Type& type, Sized number);
    [[nodiscard]] std::uint64_t finite_code(const Type& type);
    [[nodiscard]] std::uint64_t special_code(const Type& type);
    [[nodiscard]] std::uint64_t subnormal_code(const Type& type);

    /// Chooses the scales of every block so that products of unscaled exponent 0 have exponent e, if possible.
    void set_scales(int e);
    /// Fills a slot with a value of about that exponent (one more if both significands are large). A single pair of
    /// scales does not change.
    void put(Term term);
    /// Fills a slot with exactly +-2^exponent, if the types have it.
    void put_power(Power power);
    void put_zero(int slot);
    /// Makes one of the two scales of a slot's block zero, if the scales' type has a zero.
    void put_zero_scale(int slot);
    /// Makes slot `to` the negative of `from`, scales included.
    void mirror(int from, int to);
    void put_c(Sized number) { made.c = code(in.c, number); }
    /// Sets C to -(a . b), as the instruction itself sums it, and changes its magnitude by `ulps`.
    void cancel_with_c(int ulps);
    /// Returns a code whose magnitude is larger by `ulps`. It stays finite and keeps its sign.
    [[nodiscard]] std::uint64_t nudged(const Type& type, std::uint64_t code, int ulps) const;

    const Instruction& in;
    Case made;

  private:
    void put_pair(Term term);
    void set_block(int block, int e);
    [[nodiscard]] int block_of(int slot) const { return slot * in.scales / slots_; }
    [[nodiscard]] int scale_sum(int block) const;

    std::mt19937_64& random_;
    int slots_ = 0, least_ = 0, greatest_ = 0;
};

}  // namespace macheps::machine_oracle
