// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/casts/codes_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "emulation/cpu/ops/casts/cast-inl.hpp"
#include "emulation/cpu/ops/casts/codes_kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX3
namespace {

using namespace vector_cast;

/// Computes the codes of a narrow cast to nearest even. VectorRounder::round_narrow() rounds a magnitude in binade e by
/// adding the power of two 2^(e + drop). The bits of this sum are
///     e + drop | 0...0 ulps    (exponent field | fraction field)
/// Here, `ulps` is the rounded magnitude in quanta of binade e, including the leading one. The code is the sum of
/// `ulps` and (e - emin) * 2^fraction_bits.
template <bool unit_scale, bool signless>
struct NarrowEncoder {
    HWY_INLINE explicit NarrowEncoder(const CastPlan& plan)
        : r(plan),
          min_binade(all(plan.emin_bits >> plan.drop)),
          nan(all(static_cast<std::int32_t>(plan.cast.format.nan_code()))),
          sign_bit(all(static_cast<std::int32_t>(plan.cast.format.sign_bit()))),
          sign_shift(32 - plan.cast.format.bits),
          drop(plan.drop) {
        // The code after the largest finite code is an infinity or a NaN. An overflow gives this code or, if the cast
        // saturates, the largest finite code. Therefore a number above `limit`, which is encoded as the code that an
        // overflow gives, is replaced by `limit`.
        const std::int32_t quantum = 1 << plan.drop;  // the quantum of the top binade, in units of fp32's last place
        limit = all(plan.max_bits + (plan.infinity_is_max ? 0 : quantum));
    }

    HWY_INLINE VI codes(VF x) const {
        const VF u = unit_scale ? x : fix_up(r.stand_in, hn::Mul(x, r.scale), r.product_table);
        const VI z = hn::Min(hn::And(as_int(u), all(magnitude_mask)), limit), binade = r.binade_of(z);
        const VI sum = as_int(hn::MulAdd(as_float(binade), r.drop_power, as_float(z)));
        const VI ulps = hn::And(sum, all(0x7fffff)), skipped = hn::Sub(hn::ShiftRightSame(binade, drop), min_binade);
        VI code = hn::Add(ulps, skipped);
        code = VI{_mm512_mask_mov_epi32(code.raw, not_at_most(u, u), nan.raw)};
        const VI sign = as_int(hn::ShiftRightSame(as_unsigned(as_int(u)), sign_shift));
        const __mmask16 has_sign = signless ? _mm512_test_epi32_mask(code.raw, code.raw) : __mmask16{0xffff};
        return VI{_mm512_mask_ternarylogic_epi32(code.raw, has_sign, sign.raw, sign_bit.raw, 0xf8)};
    }

    VectorRounder<Round::nearest_even> r;
    VI limit, min_binade, nan, sign_bit;
    int sign_shift, drop;
};

HWY_INLINE __m512i pack_bytes(VI a, VI b, VI c, VI d) {
    const __m512i words_ab = _mm512_packus_epi32(a.raw, b.raw), words_cd = _mm512_packus_epi32(c.raw, d.raw);
    // The pack instructions work within 128-bit blocks. Afterwards, group 4 i + v of four bytes comes from vector v.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words_ab, words_cd));
}

/// A table of 256 entries of 16 bits, held in eight registers. Two registers form a part of 64 entries.
struct Table256 {
    HWY_INLINE explicit Table256(const std::uint16_t* table) {
        for (int i = 0; i < 8; ++i) part[i] = _mm512_loadu_si512(table + 32 * i);
    }
    template <bool is_short>
    HWY_INLINE __m512i operator()(__m512i index) const {
        const __m512i first = _mm512_permutex2var_epi16(part[0], index, part[1]);
        if constexpr (is_short) return first;
        const __m512i second = _mm512_permutex2var_epi16(part[2], index, part[3]);
        const __m512i third = _mm512_permutex2var_epi16(part[4], index, part[5]);
        const __m512i fourth = _mm512_permutex2var_epi16(part[6], index, part[7]);
        const __mmask32 odd = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x40)),
                        high = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x80));
        return _mm512_mask_blend_epi16(high, _mm512_mask_blend_epi16(odd, first, second),
                                       _mm512_mask_blend_epi16(odd, third, fourth));
    }
    __m512i part[8];
};

template <bool is_short>
void decode_bytes_as(const std::uint16_t* table, const std::uint8_t* codes, float* out, std::int64_t n) {
    const Table256 values(table);
    // Each 16-bit word becomes the high half of an fp32 number.
    alignas(64) std::uint16_t place[64];
    for (int i = 0; i < 64; ++i) place[i] = static_cast<std::uint16_t>(i / 2);
    const __m512i low = _mm512_load_si512(place), high = _mm512_load_si512(place + 32);
    constexpr __mmask32 upper_halves = 0xaaaaaaaau;
    std::int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512i index = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i)));
        const __m512i words = values.template operator()<is_short>(index);
        _mm512_storeu_si512(out + i, _mm512_maskz_permutexvar_epi16(upper_halves, low, words));
        _mm512_storeu_si512(out + i + 16, _mm512_maskz_permutexvar_epi16(upper_halves, high, words));
    }
    for (; i < n; ++i) out[i] = bit_cast<float>(std::uint32_t{table[codes[i]]} << 16);
}

template <bool unit_scale, bool signless>
void encode_bytes_as(const CastPlan& plan, const float* in, std::uint8_t* codes, std::int64_t n) {
    const NarrowEncoder<unit_scale, signless> encoder(plan);
    const auto encode_64 = [&](const float* x, std::uint8_t* to) HWY_ATTR {
        const VI a = encoder.codes(hn::LoadU(df, x)), b = encoder.codes(hn::LoadU(df, x + 16));
        const VI c = encoder.codes(hn::LoadU(df, x + 32)), d = encoder.codes(hn::LoadU(df, x + 48));
        _mm512_storeu_si512(to, pack_bytes(a, b, c, d));
    };
    std::int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        // Prefetch the operands. If they are already in the caches, this costs almost nothing.
        for (int line = 0; line < 64; line += 16)
            _mm_prefetch(reinterpret_cast<const char*>(in + i + line) + 2048, _MM_HINT_T0);
        encode_64(in + i, codes + i);
    }
    if (i == n) return;
    float x[64] = {};
    std::uint8_t to[64];
    std::copy(in + i, in + n, x);
    encode_64(x, to);
    std::copy(to, to + (n - i), codes + i);
}

void encode_bytes(const CastPlan& plan, const float* in, std::uint8_t* codes, std::int64_t n) {
    // If the format has no NaN, a NaN must first be replaced, which only the kernels with a scale do.
    const bool unit_scale = plan.cast.encode_scale == 1 && !plan.nan_is_max;
    if (plan.signless) {
        return unit_scale ? encode_bytes_as<true, true>(plan, in, codes, n)
                          : encode_bytes_as<false, true>(plan, in, codes, n);
    }
    return unit_scale ? encode_bytes_as<true, false>(plan, in, codes, n)
                      : encode_bytes_as<false, false>(plan, in, codes, n);
}

void encode_words(bool is_fp16, const float* in, std::uint16_t* codes, std::int64_t n) {
    const auto encode_16 = [&](VF x) HWY_ATTR {
        return is_fp16 ? _mm512_cvtps_ph(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                       : _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x.raw), 16));
    };
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), encode_16(hn::LoadU(df, in + i)));
    }
    if (i == n) return;
    std::uint16_t to[16];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), encode_16(load_n(in + i, static_cast<std::size_t>(n - i)).v));
    std::copy(to, to + (n - i), codes + i);
}

void decode_bytes(const std::uint16_t* table, int bits, const std::uint8_t* codes, float* out, std::int64_t n) {
    return bits <= 6 ? decode_bytes_as<true>(table, codes, out, n) : decode_bytes_as<false>(table, codes, out, n);
}

void decode_words(bool is_fp16, const std::uint16_t* codes, float* out, std::int64_t n) {
    const VI nan_table = all(Classes{.nan = response::nan}.table());
    const auto decode_16 = [&](const std::uint16_t* from) HWY_ATTR {
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        const VF x = is_fp16 ? VF{_mm512_cvtph_ps(words)}
                             : VF{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
        return with_sign_of(fix_up(x, x, nan_table), x);
    };
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) hn::StoreU(decode_16(codes + i), df, out + i);
    if (i == n) return;
    std::uint16_t from[16] = {};
    std::copy(codes + i, codes + n, from);
    store_n(F32(decode_16(from)), out + i, static_cast<std::size_t>(n - i));
}

}  // namespace

const CodeKernels* code_kernels_of_target() {
    static constexpr CodeKernels kernels{encode_bytes, encode_words, decode_bytes, decode_words};
    return &kernels;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX3 {
const CodeKernels* code_kernels_of_target();
}

#if !MACHEPS_HAS_VECTORS || defined(MACHEPS_ONLY_AVX2)
const CodeKernels* code_kernels(Simd) { return nullptr; }
#else
const CodeKernels* code_kernels(Simd simd) {
    const auto none = []() -> const CodeKernels* { return nullptr; };
    return choose(simd, none, none, N_AVX3::code_kernels_of_target)();
}
#endif

}  // namespace macheps
#endif
