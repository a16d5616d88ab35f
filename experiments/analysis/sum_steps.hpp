// SPDX-License-Identifier: Apache-2.0
// The arithmetic of sixteen sums side by side, on vectors of the chosen width: the bits of every lane are those of op
// (core/arithmetic.hpp), whatever the width.
#pragma once
#include "core/format.hpp"
#include "core/rng.hpp"
#include "core/rounding.hpp"
#include "emulation/cpu/simd/simd.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace macheps::analysis {

inline constexpr int sum_lanes = 16;

/// Aligned as its numbers are: of what a function returns GCC 12 keeps no greater alignment where it is no variable, and vector code
/// that counts on it faults.
struct LanePack {
    double lane[sum_lanes];
};
using LaneKeys = std::array<RngKey, sum_lanes>;

/// Four random words of each lane, as numbers: elements 4 block .. 4 block + 3 of the lanes' streams.
struct LaneWords {
    LanePack word[4];
};

/// What one format, mode and instruction set needs, behind functions that know it.
struct LaneKernels {
    using Two = void (*)(const void* rounder, const LanePack& a, const LanePack& b, const LanePack& word, LanePack& out);
    using Three = void (*)(const void* rounder, const LanePack& a, const LanePack& b, const LanePack& c, const LanePack& word,
                           LanePack& out);
    Two add = nullptr, sub = nullptr, mul = nullptr;
    Three fma = nullptr;
    bool draws = false;  ///< whether the words are read
};

/// Sixteen lanes of one format and mode. The format has at most 25 digits and exponents that fp32 holds, or is fp64.
class LaneArithmetic {
  public:
    LaneArithmetic(Simd simd, const Format& format, Round round, const LaneKeys& keys);

    LanePack add(const LanePack& a, const LanePack& b) { return two(kernels_.add, a, b); }
    LanePack sub(const LanePack& a, const LanePack& b) { return two(kernels_.sub, a, b); }
    LanePack mul(const LanePack& a, const LanePack& b) { return two(kernels_.mul, a, b); }
    LanePack fma(const LanePack& a, const LanePack& b, const LanePack& c) {
        LanePack out;
        kernels_.fma(rounder_.get(), a, b, c, next(), out);
        return out;
    }

  private:
    LanePack two(LaneKernels::Two kernel, const LanePack& a, const LanePack& b) {
        LanePack out;
        kernel(rounder_.get(), a, b, next(), out);
        return out;
    }
    /// The next word of every lane: one for each operation, also where its result is exact.
    const LanePack& next() {
        if (!kernels_.draws) return words_.word[0];
        if ((element_ & 3) == 0) refill_(keys_, element_ >> 2, words_);
        return words_.word[element_++ & 3];
    }

    LaneKernels kernels_;
    std::shared_ptr<const void> rounder_;
    void (*refill_)(const LaneKeys& keys, std::uint64_t block, LaneWords& words);
    LaneKeys keys_;
    LaneWords words_{};
    std::uint64_t element_ = 0;
};

}  // namespace macheps::analysis
