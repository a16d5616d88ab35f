// SPDX-License-Identifier: Apache-2.0
// Arithmetic for sixteen sums at a time, on vectors of the chosen width. For every width, each lane has the same bits
// as op() in core/arithmetic.hpp.
#pragma once
#include "core/format.hpp"
#include "core/rng.hpp"
#include "core/rounding.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/rounder.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace macheps::study {

inline constexpr int sum_lanes = 16;

/// One number for each lane. The alignment is only that of a double. GCC 12 does not preserve a larger alignment for a
/// returned temporary, and vector code that relies on a larger alignment would crash.
struct LanePack {
    double lane[sum_lanes];
};
using LaneKeys = std::array<RngKey, sum_lanes>;

/// Four random words for each lane, stored as doubles. They are elements 4 block to 4 block + 3 of the lane's random
/// stream.
struct LaneWords {
    LanePack word[4];
};

/// An index or a count for each lane.
using LaneSteps = std::array<std::int64_t, sum_lanes>;

/// The functions for one format, rounding mode and instruction set. Each function casts `rounder` to the lane class for
/// which the function was compiled.
struct LaneKernels {
    using Two = void (*)(const void* rounder, const LanePack& a, const LanePack& b, const LanePack& word,
                         LanePack& out);
    using Three = void (*)(const void* rounder, const LanePack& a, const LanePack& b, const LanePack& c,
                           const LanePack& word, LanePack& out);
    using Run = void (*)(const void* rounder, const double* x, bool is_shared, std::int64_t n, LanePack& sums,
                         LaneSteps& moved);
    Two add = nullptr, sub = nullptr, mul = nullptr;
    Three fma = nullptr;
    Run add_run = nullptr;
    bool draws = false;  ///< whether the functions use the random words
};

/// Arithmetic of sixteen lanes in one format and rounding mode. The format is fp64, or it has at most 25 digits and
/// exponents that fp32 can hold.
class LaneArithmetic {
  public:
    LaneArithmetic(Simd simd, const Format& format, Round round, const LaneKeys& keys,
                   Beyond beyond = Beyond::as_format);

    LanePack add(const LanePack& a, const LanePack& b) { return two(kernels_.add, a, b); }
    LanePack sub(const LanePack& a, const LanePack& b) { return two(kernels_.sub, a, b); }
    LanePack mul(const LanePack& a, const LanePack& b) { return two(kernels_.mul, a, b); }
    LanePack fma(const LanePack& a, const LanePack& b, const LanePack& c) {
        LanePack out;
        kernels_.fma(rounder_.get(), a, b, c, next(), out);
        return out;
    }

    /// Computes sums = sums + x_i in every lane, for i from 0 to n - 1. If `is_shared` is true, x is [n] and is the
    /// same for every lane. Otherwise x is [n, sum_lanes]. Sets `moved` to 1 plus the index of the last term that
    /// changed a lane's sum. If no term changed the sum, `moved` keeps its value.
    void add_run(const double* x, bool is_shared, std::int64_t n, LanePack& sums, LaneSteps& moved) {
        if (!kernels_.draws) return kernels_.add_run(rounder_.get(), x, is_shared, n, sums, moved);
        for (std::int64_t i = 0; i < n; ++i) {
            LanePack term;
            for (int l = 0; l < sum_lanes; ++l) term.lane[l] = is_shared ? x[i] : x[i * sum_lanes + l];
            const LanePack next = add(sums, term);
            for (int l = 0; l < sum_lanes; ++l) {
                const auto lane = static_cast<std::size_t>(l);
                moved[lane] = next.lane[l] != sums.lane[l] ? i + 1 : moved[lane];
            }
            sums = next;
        }
    }

  private:
    LanePack two(LaneKernels::Two kernel, const LanePack& a, const LanePack& b) {
        LanePack out;
        kernel(rounder_.get(), a, b, next(), out);
        return out;
    }
    /// Returns the next random word of every lane. Each operation uses one word, even if its result is exact.
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

}  // namespace macheps::study
