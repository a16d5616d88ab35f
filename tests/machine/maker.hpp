// SPDX-License-Identifier: Apache-2.0
// Building blocks for the generators of distributions.cpp. They make operands of any type whose product has a given
// exponent.
#pragma once
#include "tests/machine/distributions.hpp"

namespace macheps::machine_oracle {

/// Fills one case. A slot is a term that the unit aligns as a whole: one product, or a group of 16 products with their
/// scales.
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
    /// Returns two different slots, usually of the same step. If there is only one slot, returns it twice.
    [[nodiscard]] std::pair<int, int> two_slots();
    /// These functions return the smallest exponent of a product with the smallest scales, and the largest exponent of
    /// a product with the largest scales.
    [[nodiscard]] int least() const { return least_; }
    [[nodiscard]] int greatest() const { return greatest_; }
    /// Returns an exponent for the largest term. It is in the range of the result, and products that are smaller by a
    /// factor of 2^room still exist, if the types allow it.
    [[nodiscard]] int leader(int room);

    /// Returns leader(room) minus a random number from 0 to `distance`.
    [[nodiscard]] int far_below(int room, int distance);

    enum class Digits { any, ones, none, few };
    [[nodiscard]] Digits some_digits();
    // Functions take these structs as braced lists, whose elements are evaluated in the written order. Therefore every
    // compiler draws the random numbers in the same order.
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
    /// Returns a code with the given exponent, clamped to the range of the type. Bits that the unit does not read are
    /// random.
    [[nodiscard]] std::uint64_t code(const Type& type, Sized number);
    [[nodiscard]] std::uint64_t finite_code(const Type& type);
    [[nodiscard]] std::uint64_t special_code(const Type& type);
    [[nodiscard]] std::uint64_t subnormal_code(const Type& type);

    /// Chooses the scales of every block so that products with the unscaled exponent 0 have the exponent e, if
    /// possible.
    void set_scales(int e);
    /// Fills a slot with a value of the given exponent, or of an exponent that is larger by one if both significands
    /// are large. A slot of 16 products gets new scales. Otherwise the scales do not change.
    void put(Term term);
    /// Fills a slot with exactly +-2^exponent, if the types can represent it.
    void put_power(Power power);
    void put_zero(int slot);
    /// Sets one of the two scales of the slot's block to zero, if the type of the scales has a zero.
    void put_zero_scale(int slot);
    /// Makes slot `to` the negative of slot `from`. The scales are copied.
    void mirror(int from, int to);
    void put_c(Sized number) { made.c = code(in.c, number); }
    /// Sets C to the negative of a . b as the instruction computes it, and then changes the magnitude of C by `ulps`.
    void cancel_with_c(int ulps);
    /// Returns `code` with its magnitude increased by `ulps`. If the result would not be finite or would have the other
    /// sign, returns `code` unchanged.
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
