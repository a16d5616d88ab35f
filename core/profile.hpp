// SPDX-License-Identifier: Apache-2.0
// What real implementations do where IEEE 754 and OCP leave a choice: NaN codes, infinities, overflow, e8m0 oddities.
// Each is a row of data over the generic codec, so that a difference between two libraries can be named and reproduced.
#pragma once
#include "core/codec.hpp"
#include "core/error.hpp"

#include <array>
#include <string_view>

namespace macheps {

/// The formats that a rule holds for.
enum class Reach : std::uint8_t { no_format, e4m3fn_alone, eight_bits, every_format };

enum class NanCodes : std::uint8_t {
    quiet,      ///< the canonical quiet NaN with the input's sign
    nvidia,     ///< all ones below a clear sign; tf32 by cvt.rna keeps the high payload and loses the low one
    cuda_host,  ///< as nvidia, but from fp64 the 8-bit formats keep the sign, and e5m2 the top of the payload
    ml_dtypes,  ///< quiet; in fp6 and fp4 the zero of the other sign
    torch,      ///< quiet; bf16 loses the sign, e5m2 has all ones
    payload,    ///< quiet, with the sign and the top of the payload
};

/// What e8m0fnu makes of zero and of negative numbers.
enum class ScaleDomain : std::uint8_t {
    magnitude,          ///< of |x|; zero gives the least scale
    positive_or_nan,    ///< NaN
    positive_or_least,  ///< the least scale
};

/// The conventions of one implementation. Formats that the implementation lacks follow the generic rules.
struct Profile {
    Reach saturates = Reach::no_format;           ///< a finite overflow becomes the largest finite value
    Reach saturates_infinity = Reach::no_format;  ///< so does an infinity
    bool fnuz_infinity_is_nan = false;            ///< even then
    bool truncation_overflows = false;            ///< toward_zero past the largest finite value gives Inf or NaN
    bool fp64_via_fp32 = false;                   ///< fp64 is rounded to fp32 first: two roundings
    bool flushes_subnormals = false;              ///< numbers below 2^-126, those of fp32, read as zeros of their sign
    NanCodes nan = NanCodes::quiet;
    ScaleDomain scale_domain = ScaleDomain::magnitude;

    constexpr bool operator==(const Profile&) const = default;
};

namespace detail {

// Device code may not refer to the named formats of a namespace; these are their values.
template <Format known>
MACHEPS_HD constexpr bool is(Format f) {
    constexpr Format copy = known;
    return f == copy;
}

MACHEPS_HD constexpr bool within(Reach reach, Format f) {
    switch (reach) {
        case Reach::no_format:
            return false;
        case Reach::e4m3fn_alone:
            return is<e4m3fn>(f);
        case Reach::eight_bits:
            return f.bits <= 8;
        default:
            return true;
    }
}

/// The code of a NaN, without padding. `payload` is the source's fraction, its quiet bit leading at bit 63.
MACHEPS_HD constexpr std::uint64_t nan_code_of(NanCodes rule, Format f, bool negative, std::uint64_t payload,
                                               bool from_fp64, Round mode) {
    const std::uint64_t sign = negative ? f.sign_bit() : 0;
    const bool signed_nan = f.specials == Specials::inf_and_nan || f.specials == Specials::nan_only;
    const std::uint64_t quiet = (signed_nan ? sign : 0) | f.nan_code();
    if (!signed_nan) {
        if (rule == NanCodes::ml_dtypes && f.specials == Specials::none) return sign ^ f.sign_bit();
        return quiet;  // fnuz has one NaN; without any, the largest finite value stands for it
    }
    if (f.bits == 64) return quiet;
    switch (rule) {
        case NanCodes::torch:
            return is<bf16>(f) ? f.nan_code() : is<e5m2>(f) ? sign | f.magnitude_mask() : quiet;
        case NanCodes::cuda_host:
            if (from_fp64 && is<e4m3fn>(f)) return quiet;
            if (from_fp64 && is<e5m2>(f)) return quiet | payload >> 62;
            [[fallthrough]];
        case NanCodes::nvidia:
            // cvt.rna.tf32 adds to finite inputs only, then masks: a NaN whose payload is all in the low bits turns
            // Inf.
            if (is<tf32>(f) && mode == Round::nearest_away) return sign | f.inf_code() | payload >> 54;
            return f.magnitude_mask();
        case NanCodes::payload:
            return quiet | payload >> (64 - f.fraction_bits());
        default:
            return quiet;
    }
}

MACHEPS_HD constexpr std::uint64_t payload_of(float x) { return std::uint64_t{bit_cast<std::uint32_t>(x)} << 41; }
MACHEPS_HD constexpr std::uint64_t payload_of(double x) { return bit_cast<std::uint64_t>(x) << 12; }

}  // namespace detail

/// The code of `x` in `f`, as the implementation behind `profile` makes it. As total as the generic encode64.
template <class Source>
MACHEPS_HD constexpr std::uint64_t encode64(Profile profile, Format f, Source x, Round mode, RandomBits random = {}) {
    require_random_bits(mode, random);
    constexpr bool from_fp64 = sizeof(Source) == 8;
    const Unpacked parts = unpack(x);
    if (from_fp64 && profile.fp64_via_fp32 && f.bits < 64 && parts.kind == Unpacked::Kind::finite) {
        const auto single = encode(fp32, x, Round::nearest_even, Overflow::nonsaturate);
        return encode64(profile, f, bit_cast<float>(single), mode, random);
    }
    if (parts.kind == Unpacked::Kind::nan) {
        return detail::nan_code_of(profile.nan, f, parts.negative, detail::payload_of(x), from_fp64, mode) << f.padding;
    }
    const bool infinite = parts.kind == Unpacked::Kind::infinite;
    if (profile.flushes_subnormals && !infinite && parts.significand != 0 &&
        detail::bit_length(parts.significand) - 1 + parts.exponent < -126) {
        return encode64(f, parts.negative ? -0.0f : 0.0f, mode, Overflow::nonsaturate, random);
    }
    const bool is_zero = !infinite && parts.significand == 0;
    if (f.encoding == Encoding::power_of_two && (parts.negative || is_zero)) {
        if (profile.scale_domain == ScaleDomain::positive_or_nan) return f.nan_code();
        if (profile.scale_domain == ScaleDomain::positive_or_least) return 0;
    }
    const bool kept_nan = profile.fnuz_infinity_is_nan && f.specials == Specials::fnuz;
    const bool saturate =
        infinite ? detail::within(profile.saturates_infinity, f) && !kept_nan : detail::within(profile.saturates, f);
    const auto overflow = saturate ? Overflow::saturate : Overflow::nonsaturate;
    if (profile.truncation_overflows && mode == Round::toward_zero && !saturate && !infinite && f.can_overflow()) {
        // The grid goes on beyond the largest finite value: one step further, nothing is left to truncate to.
        const double top = decode64(f, f.max_finite_code() << f.padding);
        const double below = decode64(f, (f.max_finite_code() - 1) << f.padding);
        const double next = f.encoding == Encoding::power_of_two ? 2 * top : top + (top - below);
        const double size = parts.negative ? -static_cast<double>(x) : static_cast<double>(x);
        if (size >= next) {
            const double infinity = bit_cast<double>(parts.negative ? 0xfff0000000000000ull : 0x7ff0000000000000ull);
            return encode64(f, infinity, mode, overflow, random);
        }
    }
    return encode64(f, x, mode, overflow, random);
}

/// The same for formats whose container has at most 32 bits.
template <class Source>
MACHEPS_HD constexpr std::uint32_t encode(Profile profile, Format f, Source x, Round mode, RandomBits random = {}) {
    return static_cast<std::uint32_t>(encode64(profile, f, x, mode, random));
}

struct NamedProfile {
    std::string_view name;
    Profile profile;
    std::string_view summary;
    std::string_view source;
};

/// Compare NaN codes only within one profile: between two of them, compare NaN by class.
inline constexpr std::array<NamedProfile, 13> all_profiles{{
    {.name = "ieee",
     .profile = {},
     .summary = "one rounding; overflow by the mode; quiet NaN with its sign",
     .source = "IEEE 754-2019 4.3, 7.4"},
    {.name = "cuda_sat",
     .profile = {.saturates = Reach::every_format,
                 .saturates_infinity = Reach::every_format,
                 .nan = NanCodes::cuda_host},
     .summary = "CUDA headers on the host, __NV_SATFINITE",
     .source = "CUDA 13.0 cuda_fp8.hpp, cuda_fp6.hpp, cuda_fp4.hpp"},
    {.name = "cuda_nosat",
     .profile = {.nan = NanCodes::cuda_host},
     .summary = "CUDA headers on the host, __NV_NOSAT",
     .source = "CUDA 13.0 cuda_fp8.hpp, cuda_fp16.hpp, cuda_bf16.hpp"},
    {.name = "ptx",
     .profile = {.saturates = Reach::every_format, .saturates_infinity = Reach::every_format, .nan = NanCodes::nvidia},
     .summary = "cvt with .satfinite; NaN codes of the 8-bit formats are documented, not measured",
     .source = "PTX ISA 9.1 cvt"},
    {.name = "mldtypes",
     .profile = {.truncation_overflows = true,
                 .nan = NanCodes::ml_dtypes,
                 .scale_domain = ScaleDomain::positive_or_nan},
     .summary = "ml_dtypes C++ conversions, defaults (its NumPy astype goes through fp32)",
     .source = "jax-ml/ml_dtypes b793a6e"},
    {.name = "mldtypes_sat",
     .profile = {.saturates = Reach::every_format,
                 .nan = NanCodes::ml_dtypes,
                 .scale_domain = ScaleDomain::positive_or_least},
     .summary = "ml_dtypes with kSaturate: finite values only, an infinity is not held back",
     .source = "jax-ml/ml_dtypes b793a6e"},
    {.name = "torch_legacy",
     .profile = {.fp64_via_fp32 = true, .nan = NanCodes::torch},
     .summary = "PyTorch scalar casts before PR 178817: e4m3fn overflows to NaN",
     .source = "pytorch torch/headeronly/util"},
    {.name = "torch_sat",
     .profile = {.saturates = Reach::e4m3fn_alone,
                 .saturates_infinity = Reach::e4m3fn_alone,
                 .fp64_via_fp32 = true,
                 .nan = NanCodes::torch},
     .summary = "PyTorch since PR 178817: e4m3fn overflow saturates, an infinity too",
     .source = "pytorch PR 178817; PyTorch 2.15.0 by scripts/compare-conversions"},
    {.name = "onnx_saturate",
     .profile = {.saturates = Reach::eight_bits, .saturates_infinity = Reach::eight_bits, .fnuz_infinity_is_nan = true},
     .summary = "ONNX Cast, saturate = 1",
     .source = "ONNX technical details, float stored in 8 bits"},
    {.name = "onnx_nosat",
     .profile = {},
     .summary = "ONNX Cast, saturate = 0",
     .source = "ONNX technical details, float stored in 8 bits"},
    {.name = "x86.vcvtneps2bf16",
     .profile = {.flushes_subnormals = true, .nan = NanCodes::payload},
     .summary = "AVX512-BF16, AVX-NE-CONVERT: to nearest even whatever MXCSR says; fp32 subnormals are zeros",
     .source = "Intel SDM vol. 2; captures of AMD Zen 5"},
    {.name = "x86.vcvtps2ph",
     .profile = {.nan = NanCodes::payload},
     .summary = "F16C: gradual underflow always; MXCSR.DAZ, which is off here, would flush operands",
     .source = "Intel SDM vol. 2; captures of AMD Zen 5"},
    {.name = "arm.bfcvtn",
     .profile = {.nan = NanCodes::payload},
     .summary = "subnormals kept (FPCR.FZ = 0), NaN quieted",
     .source = "Arm ARM; captures of QEMU 7.2"},
}};

/// The profile called `name`. Throws Error with the nearest name.
Profile profile_named(std::string_view name, std::string_view where = {}, Exit exit = Exit::bad_input);

}  // namespace macheps
