// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/sum/steps.hpp"

#include "core/arithmetic.hpp"
#include "experiments/study/rounder.hpp"
#include "experiments/study/sum/round.hpp"

#include <cmath>
#include <limits>

namespace macheps::study {

namespace {

// Each of the following classes defines the additions, products and fmas of one lane. The last parameter of each
// function is the random word for the operation.

/// Rounds to nearest even. Sums and products computed in fp64 and then rounded are correct by Figueroa's theorem
/// (rounder.hpp). An fma first rounds to odd in fp64.
class NearestLane {
  public:
    static constexpr bool draws = false;
    NearestLane(const Format& format, Round, Beyond beyond) : round_(format, beyond) {}
    [[gnu::always_inline]] double add(double a, double b, double) const { return round_(a + b); }
    [[gnu::always_inline]] double mul(double a, double b, double) const { return round_(a * b); }
    [[gnu::always_inline]] double fma(double a, double b, double c, double) const {
        return round_(odd_sum(two_sum(a * b, c)));
    }

  private:
    Rounder<double> round_;
};

class ModeLane {
  public:
    static constexpr bool draws = true;
    ModeLane(const Format& format, Round mode, Beyond beyond)
        : round_(format, mode, beyond), is_down_(mode == Round::down) {}
    [[gnu::always_inline]] double add(double a, double b, double word) const {
        ExactPair x = two_sum(a, b);
        // If numbers of opposite signs add to exactly zero, the sum is -0 in the mode `down`, and +0 in all other
        // modes.
        const bool is_signed = std::copysign(1.0, a) + std::copysign(1.0, b) < 2;
        x.sum = (is_down_ & is_signed & (x.sum == 0)) ? -0.0 : x.sum;
        return round_(x, word);
    }
    [[gnu::always_inline]] double mul(double a, double b, double word) const { return round_({a * b, 0}, word); }
    [[gnu::always_inline]] double fma(double a, double b, double c, double word) const { return add(a * b, c, word); }

  private:
    ModeRounder round_;
    bool is_down_;
};

/// Arithmetic in fp64 with rounding to nearest even.
class NativeLane {
  public:
    static constexpr bool draws = false;
    NativeLane(const Format&, Round, Beyond) {}  // an overflow always gives Inf
    [[gnu::always_inline]] double add(double a, double b, double) const { return a + b; }
    [[gnu::always_inline]] double mul(double a, double b, double) const { return a * b; }
    [[gnu::always_inline]] double fma(double a, double b, double c, double) const { return std::fma(a, b, c); }
};

/// Arithmetic in fp64 with any other rounding mode, computed by op() in core/arithmetic.hpp.
class DefinedLane {
  public:
    static constexpr bool draws = true;
    DefinedLane(const Format& format, Round mode, Beyond beyond) : format_(format), mode_(mode), beyond_(beyond) {}
    double add(double a, double b, double word) const { return run(Operation::add, a, b, 0, word); }
    double mul(double a, double b, double word) const { return run(Operation::mul, a, b, 0, word); }
    double fma(double a, double b, double c, double word) const { return run(Operation::fma, a, b, c, word); }

  private:
    double run(Operation operation, double a, double b, double c, double word) const {
        const auto code = [](double x) { return bit_cast<std::uint64_t>(x); };
        const Rounded result = op(operation, format_, code(a), code(b), code(c), mode_, Overflow::nonsaturate,
                                  {static_cast<std::uint32_t>(word), 32});
        const double value = bit_cast<double>(result.bits);
        const bool is_marked = beyond_ == Beyond::infinity && result.flags.overflow;
        return is_marked ? std::copysign(std::numeric_limits<double>::infinity(), value) : value;
    }
    Format format_;
    Round mode_;
    Beyond beyond_;
};

/// Loops over the lanes. They are inlined into one function per instruction set, where the compiler vectorises them.
/// The rounder is copied so that its constants stay in registers.
template <class Lane>
struct LaneLoops {
    [[gnu::always_inline]] static void add(const void* rounder, const LanePack& a, const LanePack& b,
                                           const LanePack& word, LanePack& out) {
        const Lane lane = *static_cast<const Lane*>(rounder);
        for (int l = 0; l < sum_lanes; ++l) out.lane[l] = lane.add(a.lane[l], b.lane[l], word.lane[l]);
    }
    [[gnu::always_inline]] static void sub(const void* rounder, const LanePack& a, const LanePack& b,
                                           const LanePack& word, LanePack& out) {
        const Lane lane = *static_cast<const Lane*>(rounder);
        for (int l = 0; l < sum_lanes; ++l) out.lane[l] = lane.add(a.lane[l], -b.lane[l], word.lane[l]);
    }
    [[gnu::always_inline]] static void mul(const void* rounder, const LanePack& a, const LanePack& b,
                                           const LanePack& word, LanePack& out) {
        const Lane lane = *static_cast<const Lane*>(rounder);
        for (int l = 0; l < sum_lanes; ++l) out.lane[l] = lane.mul(a.lane[l], b.lane[l], word.lane[l]);
    }
    [[gnu::always_inline]] static void fma(const void* rounder, const LanePack& a, const LanePack& b, const LanePack& c,
                                           const LanePack& word, LanePack& out) {
        const Lane lane = *static_cast<const Lane*>(rounder);
        for (int l = 0; l < sum_lanes; ++l) out.lane[l] = lane.fma(a.lane[l], b.lane[l], c.lane[l], word.lane[l]);
    }
    /// Adds n terms to the sum of each lane, one after the other, without random words. Each addition has to wait for
    /// the previous one, and a call for each addition would lengthen the wait. All of them are therefore done in one
    /// call.
    [[gnu::always_inline]] static void add_run(const void* rounder, const double* x, bool is_shared, std::int64_t n,
                                               LanePack& sums, LaneSteps& moved) {
        const Lane lane = *static_cast<const Lane*>(rounder);
        double s[sum_lanes];
        std::int64_t last[sum_lanes];
        for (int l = 0; l < sum_lanes; ++l) {
            s[l] = sums.lane[l];
            last[l] = moved[static_cast<std::size_t>(l)];
        }
        for (std::int64_t i = 0; i < n; ++i) {
            double term[sum_lanes];
            for (int l = 0; l < sum_lanes; ++l) term[l] = is_shared ? x[i] : x[i * sum_lanes + l];
            for (int l = 0; l < sum_lanes; ++l) {
                const double next = lane.add(s[l], term[l], 0);
                last[l] = next != s[l] ? i + 1 : last[l];
                s[l] = next;
            }
        }
        for (int l = 0; l < sum_lanes; ++l) {
            sums.lane[l] = s[l];
            moved[static_cast<std::size_t>(l)] = last[l];
        }
    }
};

/// Computes philox4x32_10 for every lane.
[[gnu::always_inline]] inline void draw_words(const LaneKeys& keys, std::uint64_t block, LaneWords& words) {
    std::uint32_t x0[sum_lanes], x1[sum_lanes], x2[sum_lanes], x3[sum_lanes], k0[sum_lanes], k1[sum_lanes];
    for (int l = 0; l < sum_lanes; ++l) {
        x0[l] = static_cast<std::uint32_t>(block);
        x1[l] = static_cast<std::uint32_t>(block >> 32);
        x2[l] = keys[l].step;
        x3[l] = keys[l].site;
        k0[l] = static_cast<std::uint32_t>(keys[l].seed);
        k1[l] = static_cast<std::uint32_t>(keys[l].seed >> 32);
    }
    for (int round = 0; round < 10; ++round) {
        for (int l = 0; l < sum_lanes; ++l) {
            const std::uint64_t p = std::uint64_t{0xd2511f53u} * x0[l], q = std::uint64_t{0xcd9e8d57u} * x2[l];
            x0[l] = static_cast<std::uint32_t>(q >> 32) ^ x1[l] ^ k0[l];
            x2[l] = static_cast<std::uint32_t>(p >> 32) ^ x3[l] ^ k1[l];
            x1[l] = static_cast<std::uint32_t>(q);
            x3[l] = static_cast<std::uint32_t>(p);
            k0[l] += 0x9e3779b9u;
            k1[l] += 0xbb67ae85u;
        }
    }
    for (int l = 0; l < sum_lanes; ++l) {
        words.word[0].lane[l] = x0[l];
        words.word[1].lane[l] = x1[l];
        words.word[2].lane[l] = x2[l];
        words.word[3].lane[l] = x3[l];
    }
}

// Defines a struct with the loops, compiled for one instruction set. `attribute` selects the instruction set.
#define MACHEPS_SUM_TARGET(name, attribute)                                                                        \
    template <class Lane>                                                                                          \
    struct name {                                                                                                  \
        attribute static void add(const void* r, const LanePack& a, const LanePack& b, const LanePack& w,          \
                                  LanePack& o) {                                                                   \
            LaneLoops<Lane>::add(r, a, b, w, o);                                                                   \
        }                                                                                                          \
        attribute static void sub(const void* r, const LanePack& a, const LanePack& b, const LanePack& w,          \
                                  LanePack& o) {                                                                   \
            LaneLoops<Lane>::sub(r, a, b, w, o);                                                                   \
        }                                                                                                          \
        attribute static void mul(const void* r, const LanePack& a, const LanePack& b, const LanePack& w,          \
                                  LanePack& o) {                                                                   \
            LaneLoops<Lane>::mul(r, a, b, w, o);                                                                   \
        }                                                                                                          \
        attribute static void fma(const void* r, const LanePack& a, const LanePack& b, const LanePack& c,          \
                                  const LanePack& w, LanePack& o) {                                                \
            LaneLoops<Lane>::fma(r, a, b, c, w, o);                                                                \
        }                                                                                                          \
        attribute static void add_run(const void* r, const double* x, bool is_shared, std::int64_t n, LanePack& s, \
                                      LaneSteps& moved) {                                                          \
            if (is_shared) {                                                                                       \
                LaneLoops<Lane>::add_run(r, x, true, n, s, moved);                                                 \
            } else {                                                                                               \
                LaneLoops<Lane>::add_run(r, x, false, n, s, moved);                                                \
            }                                                                                                      \
        }                                                                                                          \
        attribute static void draw(const LaneKeys& keys, std::uint64_t block, LaneWords& words) {                  \
            draw_words(keys, block, words);                                                                        \
        }                                                                                                          \
        static LaneKernels kernels() {                                                                             \
            return {.add = add, .sub = sub, .mul = mul, .fma = fma, .add_run = add_run, .draws = Lane::draws};     \
        }                                                                                                          \
    };

MACHEPS_SUM_TARGET(PlainTarget, )
#if defined(__x86_64__)
MACHEPS_SUM_TARGET(Avx2Target, [[gnu::target("avx2,fma")]])
MACHEPS_SUM_TARGET(Avx512Target, [[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]])
#endif
#undef MACHEPS_SUM_TARGET

template <class Lane>
LaneKernels kernels_on(Simd simd) {
#if defined(__x86_64__)
    return choose(simd, PlainTarget<Lane>::kernels, Avx2Target<Lane>::kernels, Avx512Target<Lane>::kernels)();
#else
    (void)simd;
    return PlainTarget<Lane>::kernels();
#endif
}

using Draw = void (*)(const LaneKeys&, std::uint64_t, LaneWords&);
Draw draw_on(Simd simd) {
#if defined(__x86_64__)
    return choose(simd, PlainTarget<NativeLane>::draw, Avx2Target<NativeLane>::draw, Avx512Target<NativeLane>::draw);
#else
    (void)simd;
    return PlainTarget<NativeLane>::draw;
#endif
}

}  // namespace

LaneArithmetic::LaneArithmetic(Simd simd, const Format& format, Round round, const LaneKeys& keys, Beyond beyond)
    : refill_(draw_on(simd)), keys_(keys) {
    const auto use = [&]<class Lane>(std::shared_ptr<const Lane> lane, LaneKernels kernels) {
        kernels_ = kernels;
        rounder_ = std::move(lane);
    };
    if (format == fp64 && round == Round::nearest_even) {
        use(std::make_shared<const NativeLane>(format, round, beyond), kernels_on<NativeLane>(simd));
    } else if (format == fp64) {
        use(std::make_shared<const DefinedLane>(format, round, beyond), PlainTarget<DefinedLane>::kernels());
    } else if (round == Round::nearest_even) {
        use(std::make_shared<const NearestLane>(format, round, beyond), kernels_on<NearestLane>(simd));
    } else {
        use(std::make_shared<const ModeLane>(format, round, beyond), kernels_on<ModeLane>(simd));
    }
    kernels_.draws = kernels_.draws && round == Round::stochastic;
}

}  // namespace macheps::study
