// SPDX-License-Identifier: Apache-2.0
// Rounding modes, and round_shift, which defines how emulation discards bits.
#pragma once
#include "core/error.hpp"
#include "core/hd.hpp"

namespace macheps {

/// Rounding modes: the five modes of IEEE 754-2019 4.3, stochastic rounding, and round-to-odd (Boldo and Melquiond).
enum class Round : std::uint8_t { nearest_even, nearest_away, toward_zero, up, down, stochastic, to_odd };
/// Result of an overflow (OCP OFP8 1.0). `saturate` gives the largest finite value. `nonsaturate` gives Inf, or NaN in
/// a format without Inf.
enum class Overflow : std::uint8_t { nonsaturate, saturate };

/// Returns true if a finite value with this sign never overflows in `mode`, because a value above the largest finite
/// magnitude is rounded toward zero.
MACHEPS_HD constexpr bool rounds_inward(Round mode, bool negative) {
    return mode == Round::toward_zero || mode == Round::to_odd || (mode == Round::up && negative) ||
           (mode == Round::down && !negative);
}

/// Random bits for stochastic rounding: an integer `value` of `bits` bits, which is added to the first `bits` discarded
/// bits. The default is zero bits. Stochastic rounding without random bits would always truncate, so it is an error.
struct RandomBits {
    std::uint32_t value = 0;
    int bits = 0;  ///< 1 to 32
};

namespace detail {

/// Reports stochastic rounding without random bits: throws Error on the host, and traps on the device, which cannot
/// throw. The function is not constexpr, so that stochastic rounding without random bits does not compile in a constant
/// expression.
[[gnu::cold, gnu::noinline]] MACHEPS_HD inline void refuse_to_truncate() {
#if defined(__CUDA_ARCH__)
    __trap();
#else
    throw Error({.what = "stochastic rounding needs random bits",
                 .where = "Round::stochastic",
                 .fix = "pass RandomBits with 1 to 32 bits, or set the key of the Cast",
                 .exit = Exit::usage});
#endif
}

}  // namespace detail

/// Throws Error (device code traps) if `mode` is stochastic and `random` has no random bits. It does so even for
/// numbers that need no rounding.
MACHEPS_HD constexpr void require_random_bits(Round mode, RandomBits random) {
    if (mode == Round::stochastic && (random.bits < 1 || random.bits > 32)) detail::refuse_to_truncate();
}

/// Returns `significand` / 2^drop rounded to an integer. A significand of zero gives zero for any drop. For any other
/// significand, a negative drop is a left shift, and the caller ensures that it loses no bit. Let f < 1 be the
/// discarded fraction. Stochastic rounding rounds away from zero if and only if floor(2^random.bits * f) + random.value
/// is at least 2^random.bits. Without random bits, stochastic rounding fails as in require_random_bits().
MACHEPS_HD constexpr std::uint64_t round_shift(std::uint64_t significand, int drop, Round mode, bool negative,
                                               RandomBits random = {}) {
    require_random_bits(mode, random);
    if (significand == 0) return 0;  // a zero may have any exponent, so `drop` may be out of range
    if (drop <= 0) return significand << -drop;
    const std::uint64_t kept = drop < 64 ? significand >> drop : 0;
    const std::uint64_t discarded = drop < 64 ? significand & ((std::uint64_t{1} << drop) - 1) : significand;
    if (discarded == 0) return kept;
    bool away = false;
    switch (mode) {
        case Round::nearest_even:
        case Round::nearest_away: {
            // One half in the units of `discarded`. 0 means that this number does not fit in 64 bits.
            const std::uint64_t half = drop <= 64 ? std::uint64_t{1} << (drop - 1) : 0;
            const bool tie_away = mode == Round::nearest_away || (kept & 1) != 0;
            away = half != 0 && (discarded > half || (discarded == half && tie_away));
            break;
        }
        case Round::toward_zero:
            break;
        case Round::up:
            away = !negative;
            break;
        case Round::down:
            away = negative;
            break;
        case Round::to_odd:
            return kept | 1;
        case Round::stochastic: {
            const int excess = drop - random.bits;  // number of low discarded bits that are ignored
            const std::uint64_t seen = excess <= 0 ? discarded << -excess : excess < 64 ? discarded >> excess : 0;
            away = ((seen + random.value) >> random.bits) != 0;
            break;
        }
    }
    return kept + (away ? 1 : 0);
}

}  // namespace macheps
