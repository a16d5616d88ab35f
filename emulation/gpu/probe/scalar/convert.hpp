// SPDX-License-Identifier: Apache-2.0
// One conversion of the device, and what the codec makes of the same input.
#pragma once
#include "core/profile.hpp"
#include "emulation/gpu/probe/scalar/compare.hpp"
#include "emulation/gpu/probe/scalar/convert_rows.hpp"
#include "emulation/gpu/probe/scalar/inputs.hpp"

// Host compilers find unused parameters in the toolkit's own headers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#pragma GCC diagnostic pop

namespace macheps::gpu {

/// What is done to the rounded result. The ISA has `.relu` clamp negative results to 0 and leave NaN canonical, and
/// `.sat` clamp to [0, 1], NaN to 0; that either makes +0 of -0 is our reading of it.
enum class After : std::uint8_t { none, relu, unit };

/// NaN results: one code, which the model knows; or any NaN, its code being counted apart where it is another.
enum class NanResult : std::uint8_t { code, any };

enum class Elements : std::uint8_t { one, two };

struct ConvertModel {
    const char* name;
    Profile profile;
};

namespace convert_models {
// PTX ISA 9.1 cvt: canonical NaN, all ones below a clear sign.
inline constexpr ConvertModel ptx{"codec, NVIDIA's NaN", {.nan = NanCodes::nvidia}};
inline constexpr ConvertModel satfinite{
    "profile ptx",
    {.saturates = Reach::every_format, .saturates_infinity = Reach::every_format, .nan = NanCodes::nvidia}};
// F2F, the instruction for conversions from and to fp64, keeps the sign and the top of the payload and sets the quiet
// bit. Measured on an H100 for F2F.F16.F64 and F2F.BF16.F64 (docs/gpu.md).
inline constexpr ConvertModel f2f{"codec, payload kept", {.nan = NanCodes::payload}};
// CUDA 13.0 cuda_fp16.hpp, cuda_bf16.hpp, cuda_fp8.hpp, cuda_fp6.hpp, cuda_fp4.hpp.
inline constexpr ConvertModel nosat{"profile cuda_nosat", {.nan = NanCodes::cuda_host}};
inline constexpr ConvertModel sat{
    "profile cuda_sat",
    {.saturates = Reach::every_format, .saturates_infinity = Reach::every_format, .nan = NanCodes::cuda_host}};
}  // namespace convert_models

enum class Convert : std::uint16_t {
#define MACHEPS_ID(id, ...) id,
    MACHEPS_CVT_SM80(MACHEPS_ID) MACHEPS_CVT_SM90(MACHEPS_ID) MACHEPS_CVT_FUNCTIONS(MACHEPS_ID)
#undef MACHEPS_ID
};

struct ConvertRow {
    Convert id;
    const char* instruction;
    Format from, to;
    Round mode;
    ConvertModel model;
    After after;
    Elements elements;
    NanResult nan;
};

namespace detail {

constexpr bool is_pair(const char* instruction) {
    for (; *instruction != '\0'; ++instruction) {
        if (instruction[0] == 'x' && instruction[1] == '2') return true;
    }
    return false;
}

namespace convert_words {
inline constexpr Round rn = Round::nearest_even, rz = Round::toward_zero, rm = Round::down, rp = Round::up,
                       rna = Round::nearest_away;
using namespace convert_models;
inline constexpr ConvertRow rows[] = {
#define MACHEPS_ROW(id, shape, name, from, to, mode, model, after, nan)                                       \
    {Convert::id,   name, from, to, mode, model, After::after, is_pair(name) ? Elements::two : Elements::one, \
     NanResult::nan},
    MACHEPS_CVT_SM80(MACHEPS_ROW) MACHEPS_CVT_SM90(MACHEPS_ROW)
#undef MACHEPS_ROW
#define MACHEPS_ROW(id, name, from, to, mode, model, elements, nan, call) \
    {Convert::id, name, from, to, mode, model, After::none, Elements::elements, NanResult::nan},
        MACHEPS_CVT_FUNCTIONS(MACHEPS_ROW)
#undef MACHEPS_ROW
};
}  // namespace convert_words

}  // namespace detail

inline constexpr auto& convert_rows = detail::convert_words::rows;

/// Bits of an element in its packed pair: fp6 stands in bytes, fp4 in nibbles.
MACHEPS_HD constexpr int packed_bits(Format f) { return f.bits == 6 ? 8 : f.container_bits(); }

namespace detail {

/// An operand as the toolkit's functions want it. The first element of a pair is the low half.
struct ConvertInput {
    std::uint64_t a, b;

    MACHEPS_HD float x() const { return bit_cast<float>(static_cast<std::uint32_t>(a)); }
    MACHEPS_HD float y() const { return bit_cast<float>(static_cast<std::uint32_t>(b)); }
    MACHEPS_HD float2 xy() const { return make_float2(x(), y()); }
    MACHEPS_HD double d() const { return bit_cast<double>(a); }
    MACHEPS_HD __half_raw half() const {
        __half_raw raw;
        raw.x = static_cast<unsigned short>(a);
        return raw;
    }
    MACHEPS_HD __half2_raw half2() const {
        __half2_raw raw;
        raw.x = static_cast<unsigned short>(a);
        raw.y = static_cast<unsigned short>(a >> 16);
        return raw;
    }
    MACHEPS_HD __nv_bfloat16_raw bfloat16() const {
        __nv_bfloat16_raw raw;
        raw.x = static_cast<unsigned short>(a);
        return raw;
    }
    MACHEPS_HD __nv_bfloat162_raw bfloat162() const {
        __nv_bfloat162_raw raw;
        raw.x = static_cast<unsigned short>(a);
        raw.y = static_cast<unsigned short>(a >> 16);
        return raw;
    }
    MACHEPS_HD __nv_fp8_storage_t byte() const { return static_cast<__nv_fp8_storage_t>(a); }
    MACHEPS_HD __nv_fp8x2_storage_t two_bytes() const { return static_cast<__nv_fp8x2_storage_t>(a); }
};

MACHEPS_HD inline std::uint64_t bits_of(float x) { return bit_cast<std::uint32_t>(x); }
MACHEPS_HD inline std::uint64_t bits_of(double x) { return bit_cast<std::uint64_t>(x); }
MACHEPS_HD inline std::uint64_t bits_of(__half x) { return static_cast<__half_raw>(x).x; }
MACHEPS_HD inline std::uint64_t bits_of(__nv_bfloat16 x) { return static_cast<__nv_bfloat16_raw>(x).x; }
MACHEPS_HD inline std::uint64_t bits_of(__half2_raw x) { return x.x | std::uint64_t{x.y} << 16; }
MACHEPS_HD inline std::uint64_t bits_of(__half2 x) { return bits_of(static_cast<__half2_raw>(x)); }
MACHEPS_HD inline std::uint64_t bits_of(__nv_bfloat162 x) {
    const auto raw = static_cast<__nv_bfloat162_raw>(x);
    return raw.x | std::uint64_t{raw.y} << 16;
}

}  // namespace detail

/// The result of the instruction or function itself; false where the device has none. In a build for the host the
/// instructions are played by `convert_on_host` (convert_bodies.hpp), the functions by the toolkit's own host
/// code.
MACHEPS_KERNEL inline bool convert_by_hardware(const ConvertRow& row, std::uint64_t a, std::uint64_t b,
                                               std::uint64_t& result);

}  // namespace macheps::gpu

#include "emulation/gpu/probe/scalar/convert_bodies.hpp"

namespace macheps::gpu {

/// A number of an operand's format with its NaN as it is: converters keep or lose payloads, so decoding must not.
struct ConvertProbe {
    ConvertRow row;
    bool fault = false;

    /// How many inputs there are.
    MACHEPS_HD constexpr std::uint64_t inputs() const {
        if (row.from.container_bits() >= 32) return std::uint64_t{1} << 32;
        return std::uint64_t{1} << (row.from.container_bits() * (row.elements == Elements::two ? 2 : 1));
    }

    MACHEPS_KERNEL Trial operator()(std::uint64_t index) const {
        Trial trial;
        const bool two = row.elements == Elements::two, wide = row.from.container_bits() >= 32;
        const auto u = static_cast<std::uint32_t>(index);
        trial.a = row.from.bits == 64 ? sample64(u) : index;
        trial.b = two && wide ? other_element(u) : 0;
        trial.offered = convert_by_hardware(row, trial.a, trial.b, trial.got);
        const int from_bits = row.from.container_bits(), to_bits = packed_bits(row.to);
        const std::uint64_t low = wide || !two ? trial.a : trial.a & ((std::uint64_t{1} << from_bits) - 1);
        const std::uint64_t high = wide ? trial.b : trial.a >> from_bits;
        trial.kind = class_of(row.from, low);
        trial.want = expected(low);
        if (two) {
            trial.kind = max_of(trial.kind, class_of(row.from, high));
            trial.want |= expected(high) << to_bits;
        }
        if (fault) trial.want ^= std::uint64_t{1} << row.to.padding;
        const std::uint64_t mask = to_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << to_bits) - 1;
        for (int shift = 0; shift <= (two ? to_bits : 0); shift += to_bits) {
            const std::uint64_t got = trial.got >> shift & mask, want = trial.want >> shift & mask;
            if (same_bits(got, want)) continue;
            const bool free = row.nan == NanResult::any && is_nan_code(row.to, got) && is_nan_code(row.to, want);
            trial.differs = trial.differs || !free;
            trial.nan_code = trial.nan_code || free;
        }
        // Nothing may stand outside the elements.
        const int all_bits = two ? 2 * to_bits : to_bits;
        if (all_bits < 64 && trial.got >> all_bits != 0) trial.differs = true;
        return trial;
    }

    /// The model's code for one element.
    MACHEPS_HD std::uint64_t expected(std::uint64_t code) const {
        const Profile& profile = row.model.profile;
        // bf16 to fp32 is a shift (SHF.L), which leaves signaling NaN as they are.
        const bool shifted = row.from.bits == 16 && row.from.precision == 8 && row.to.bits == 32 && row.to.padding == 0;
        if (shifted && is_nan_code(row.from, code)) return code << 16;
        const bool as_double = row.from.bits == 64;
        const double wide = as_double ? bit_cast<double>(code) : 0;
        const float narrow = as_float(code);
        std::uint64_t result =
            as_double ? encode64(profile, row.to, wide, row.mode) : encode64(profile, row.to, narrow, row.mode);
        if (row.after == After::none) return result;
        const bool nan = is_nan_code(row.to, result);
        const std::uint64_t sign = row.to.sign_bit() << row.to.padding;
        if (!nan && (result & sign) != 0) return 0;
        if (row.after == After::relu) return result;
        const std::uint64_t one = static_cast<std::uint64_t>(row.to.exponent_bias)
                                  << row.to.fraction_bits() << row.to.padding;
        return nan ? 0 : min_of(result, one);
    }

  private:
    /// The ISA defines no bits below a tf32 code.
    MACHEPS_HD bool same_bits(std::uint64_t got, std::uint64_t want) const {
        return got >> row.to.padding == want >> row.to.padding;
    }

    /// The number of fp32 that `code` stands for. NaN of the fp32, fp16 and bf16 operands keep their payload.
    MACHEPS_HD float as_float(std::uint64_t code) const {
        const Format f = row.from;
        if (f.bits == 32) return bit_cast<float>(static_cast<std::uint32_t>(code));
        if (f.bits != 16 || !is_nan_code(f, code)) return decode(f, code);
        const auto sign = static_cast<std::uint32_t>(code & f.sign_bit()) << 16;
        const auto fraction = static_cast<std::uint32_t>(code & (f.min_normal_code() - 1));
        return bit_cast<float>(sign | 0x7f800000u | fraction << (23 - f.fraction_bits()));
    }
};

}  // namespace macheps::gpu
