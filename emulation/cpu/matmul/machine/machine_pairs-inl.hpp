// SPDX-License-Identifier: Apache-2.0
// Computes with 16-bit integers the fp8 steps of Ada and Hopper, which keep 13 fraction bits. Only for AVX-512. The
// product of two significands, shifted left by 7, fits in 15 bits. A right shift then drops the bits of the product
// below the unit of its column. The signs are stored as +1 or -1. An instruction multiplies pairs of shifted products
// by their signs and adds them to the sum. Included once per SIMD target.
#include "emulation/cpu/matmul/machine/machine_step-inl.hpp"

#if defined(MACHEPS_MACHINE_PAIRS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_PAIRS_INL
#undef MACHEPS_MACHINE_PAIRS_INL
#else
#define MACHEPS_MACHINE_PAIRS_INL
#endif

#if MACHEPS_SIMD_TARGET && HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Terms 2 t and 2 t + 1 of the columns of a panel of b. Each element holds 16 bits for each term: its significand, its
/// stored exponent, or its sign as +1 or -1.
struct PairBlock {
    std::int32_t significand[machine_columns], exponent[machine_columns], sign[machine_columns];
};

/// Terms 2 t and 2 t + 1 of a row of a, with 16 bits for each term: its significand shifted left by 7, its stored
/// exponent, and a sign mask. A sign of PairBlock is combined with the mask by exclusive or, which negates the sign if
/// the term of a is negative and keeps it otherwise.
struct PairFactor {
    std::int32_t significand, exponent, sign;
};

namespace pairs {

/// Returns the significand of a value with this exponent as an integer with 3 fraction bits, at most 15.
inline std::int32_t significand(float x, int exponent) {
    const float size = x < 0 ? -x : x;
    return static_cast<std::int32_t>(size * bit_cast<float>(static_cast<std::uint32_t>(127 + 3 - exponent) << 23));
}

inline std::int32_t joined(std::int32_t low, std::int32_t high) {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(low) & 0xffffu) | static_cast<std::uint32_t>(high)
                                                                                       << 16);
}

}  // namespace pairs

/// Packs `count` pairs from packed values and stored exponents [2 count, machine_columns].
inline void pack_pair_blocks(const float* value, const std::int8_t* exponent, int base, std::int64_t count,
                             PairBlock* out) {
    const F32 zero(0.0f);
    const auto significand = [&](F32 x, I32 e)
                                 HWY_ATTR { return cut_to_int(abs(x) * from_bits((I32(127 + 3 - base) - e) << 23)); };
    const auto join = [](I32 low, I32 high) HWY_ATTR { return (low & I32(0xffff)) | (high << 16); };
    for (std::int64_t t = 0; t < count; ++t, ++out) {
        for (std::int64_t j = 0; j < machine_columns; j += lanes_of_vector) {
            const std::int64_t at = 2 * t * machine_columns + j;
            const F32 x = load(value + at), y = load(value + at + machine_columns);
            const I32 ex = widened(exponent + at), ey = widened(exponent + at + machine_columns);
            store(join(select(x == zero, I32(0), significand(x, ex)), select(y == zero, I32(0), significand(y, ey))),
                  out->significand + j);
            store(join(ex, ey), out->exponent + j);
            const I32 sx = select(x < zero, I32(-1), I32(1)), sy = select(y < zero, I32(-1), I32(1));
            store(join(sx, sy), out->sign + j);
        }
    }
}

/// Packs `count` pairs from the packed values and stored exponents of rows of a.
inline void pack_pair_factors(const float* value, const std::int8_t* exponent, int base, std::int64_t count,
                              PairFactor* out) {
    for (std::int64_t t = 0; t < count; ++t, ++out, value += 2, exponent += 2) {
        const auto significand = [&](int i) {
            return value[i] == 0 ? 0 : pairs::significand(value[i], exponent[i] + base) << 7;
        };
        out->significand = pairs::joined(significand(0), significand(1));
        out->exponent = pairs::joined(exponent[0], exponent[1]);
        out->sign = pairs::joined(value[0] < 0 ? 0xfffe : 0, value[1] < 0 ? 0xfffe : 0);
    }
}

/// Restores the values [terms, machine_columns] from their pairs.
inline void unpack_pairs(const PairBlock* in, int base, int terms, float* out) {
    for (int k = 0; k < terms; ++k) {
        const PairBlock& block = in[k / 2];
        for (std::int64_t j = 0; j < machine_columns; ++j) {
            const auto half = [&](const std::int32_t* x) {
                return static_cast<std::int16_t>(static_cast<std::uint32_t>(x[j]) >> (k % 2 * 16));
            };
            const int m = half(block.significand), sign = half(block.sign);
            const auto power = static_cast<float>(Format::power_of_two(half(block.exponent) + base - 3));
            out[k * machine_columns + j] = m == 0 ? 0.0f : static_cast<float>(m * sign) * power;
        }
    }
}

/// Returns, in each 32-bit lane, acc plus the two products of the 16-bit halves of x and y.
template <bool vnni>
HWY_INLINE __m512i add_pairs(__m512i acc, __m512i x, __m512i y) {
    if constexpr (vnni) {
        // Inline assembly, because the intrinsic requires AVX512-VNNI, which the baseline of this target lacks.
        __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
        return acc;
    } else {
        return _mm512_add_epi32(acc, _mm512_madd_epi16(x, y));
    }
}

/// Computes one step of `terms` products for `rows` (1 or 2) rows of a. Replaces the addends in c [rows,
/// machine_columns] by the results.
template <int terms, int rows, bool vnni, Delivery delivery>
HWY_INLINE void pair_rows(const MachinePlan& plan, const PairFactor* const* a, const float* const* a_value,
                          const PairBlock* b, const std::int8_t* largest, float* c) {
    constexpr std::int64_t lanes = lanes_of_vector;
    const int base = plan.a_base + plan.b_base;
    const I32 shift_field(plan.rule.fraction_bits + 254);
    F32 scale[rows][4];
    I32 exponent[rows][4];
    __m512i unit[rows][4], sum[rows][4];
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < 4; ++v) {
            const I32 e = widened(largest + r * machine_columns + v * lanes) + I32(base + 127);
            I32 ec = exponent_field(load(c + r * machine_columns + v * lanes));
            if constexpr (delivery == Delivery::fp16_nearest_even) {
                ec = select(ec == I32(0), I32(plan.rule.zero_exponent + 127), I32(hn::Max(ec.v, I32(127 - 14).v)));
            }
            exponent[r][v] = I32(hn::Max(e.v, ec.v));
            scale[r][v] = from_bits((shift_field - exponent[r][v]) << 23);
            const I32 stored = exponent[r][v] - I32(base + 127);
            unit[r][v] = (stored | (stored << 16)).v.raw;
            sum[r][v] = _mm512_setzero_si512();
        }
    }
    for (int t = 0; t < terms / 2; ++t) {
        const PairBlock& block = b[t];
        __m512i ae[rows], am[rows], as[rows];
        for (int r = 0; r < rows; ++r) {
            ae[r] = _mm512_set1_epi32(a[r][t].exponent);
            am[r] = _mm512_set1_epi32(a[r][t].significand);
            as[r] = _mm512_set1_epi32(a[r][t].sign);
        }
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            __m512i eb = _mm512_load_si512(block.exponent + v * lanes);
            __m512i mb = _mm512_load_si512(block.significand + v * lanes);
            __m512i sb = _mm512_load_si512(block.sign + v * lanes);
            // Forces the values into registers for reuse by the second row, because loads limit the speed of this loop.
            if (rows > 1) __asm__("" : "+v"(eb), "+v"(mb), "+v"(sb));
#pragma GCC unroll 2
            for (int r = 0; r < rows; ++r) {
                const __m512i shift = _mm512_sub_epi16(_mm512_sub_epi16(unit[r][v], eb), ae[r]);
                const __m512i term = _mm512_srlv_epi16(_mm512_mullo_epi16(mb, am[r]), shift);
                sum[r][v] = add_pairs<vnni>(sum[r][v], term, _mm512_xor_si512(sb, as[r]));
            }
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < 4; ++v) {
            float* const out = c + r * machine_columns;
            const F32 addend = load(out + v * lanes);
            const I32 total = I32(hn::Vec<DI32>{sum[r][v]}) + cut_to_int(addend * scale[r][v]);
            F32 d = deliver_sum<delivery>(total, from_bits(I32(254 << 23) - bits(scale[r][v])));
            const M32 beyond = (exponent[r][v] < I32(min_exponent + 127)) | (exponent[r][v] > I32(max_exponent + 127));
            if (HWY_UNLIKELY(any(beyond))) {
                const M32 kept = (widened(largest + r * machine_columns + v * lanes) < I32(0)) | not_finite(addend);
                alignas(64) float value[terms * machine_columns];
                if (mask_bits(beyond & !kept) != 0) unpack_pairs(b, plan.b_base, terms, value);
                const StepOperands<std::int8_t> x{.a = a_value[r], .b = value};
                d = settle(plan, x, beyond, kept, v, out, d);
            }
            store(d, out + v * lanes);
        }
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
