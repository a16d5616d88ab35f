// SPDX-License-Identifier: Apache-2.0
// Table of the conversions of a device, and a model that converts the same inputs with the codec. Does not need the
// headers of the CUDA toolkit.
#pragma once
#include "core/profile.hpp"
#include "emulation/evidence/gpu/scalar/compare.hpp"
#include "emulation/evidence/gpu/scalar/convert_rows.hpp"
#include "emulation/evidence/gpu/scalar/inputs.hpp"

namespace macheps::evidence {

/// Changes to the rounded result. `relu` (`.relu` in the ISA) clamps negative results to 0 and keeps NaN canonical.
/// `unit` (`.sat` in the ISA) clamps to [0, 1] and changes NaN to 0. We read the ISA to mean that both change -0 to +0.
enum class After : std::uint8_t { none, relu, unit };

/// NaN results that a comparison accepts:
/// - `code`: only the code that the model gives
/// - `any`: any NaN; a code that differs from the model's code is counted separately
enum class NanResult : std::uint8_t { code, any };

enum class Elements : std::uint8_t { one, two };

struct ConvertModel {
    const char* name;
    Profile profile;
};

namespace convert_models {
// cvt (PTX ISA 9.1) returns the canonical NaN: all ones with a clear sign.
inline constexpr ConvertModel ptx{"codec, NVIDIA's NaN", {.nan = NanCodes::nvidia}};
inline constexpr ConvertModel satfinite{
    "profile ptx",
    {.saturates = Reach::every_format, .saturates_infinity = Reach::every_format, .nan = NanCodes::nvidia}};
// F2F, the instruction for conversions from and to fp64, keeps the sign and the top bits of the payload, and sets the
// quiet bit. Measured on an H100 (docs/gpu.md).
inline constexpr ConvertModel f2f{"codec, payload kept", {.nan = NanCodes::payload}};
// The conversion of bf16 to fp32 is a shift (SHF.L), which leaves signaling NaNs unchanged.
inline constexpr ConvertModel shift{"codec, NaN unchanged", {.nan = NanCodes::payload}};
// Source of the models of functions: cuda_fp16.hpp, cuda_bf16.hpp, cuda_fp8.hpp, cuda_fp6.hpp and cuda_fp4.hpp of CUDA
// 13.0.
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

/// Returns the number of bits of an element in a packed pair: fp6 occupies a byte, fp4 a nibble.
MACHEPS_HD constexpr int packed_bits(Format f) { return f.bits == 6 ? 8 : f.container_bits(); }

/// The inputs of a conversion and the codec's results.
struct ConvertByModel {
    ConvertRow row;

    MACHEPS_HD constexpr std::uint64_t inputs() const {
        if (row.from.container_bits() >= 32) return std::uint64_t{1} << 32;
        return std::uint64_t{1} << (row.from.container_bits() * (row.elements == Elements::two ? 2 : 1));
    }

    /// Returns the operands of an input. If the elements of a pair have 32 bits or more, `b` is the second element.
    /// Otherwise, `a` contains both elements.
    MACHEPS_HD Operands operands(std::uint64_t index) const {
        const auto u = static_cast<std::uint32_t>(index);
        const bool two = row.elements == Elements::two;
        return {.a = row.from.bits == 64 ? sample64(u) : index, .b = two && is_wide() ? other_element(u) : 0};
    }
    MACHEPS_HD std::uint64_t low(const Operands& x) const {
        const int bits = row.from.container_bits();
        return is_wide() || row.elements == Elements::one ? x.a : x.a & ((std::uint64_t{1} << bits) - 1);
    }
    MACHEPS_HD std::uint64_t high(const Operands& x) const {
        return is_wide() ? x.b : x.a >> row.from.container_bits();
    }

    /// Returns the codec's result, for both elements of a pair.
    MACHEPS_HD std::uint64_t result(const Operands& x) const {
        const std::uint64_t first = expected(low(x));
        return row.elements == Elements::two ? first | expected(high(x)) << packed_bits(row.to) : first;
    }

    /// Returns the model's code for one element.
    MACHEPS_HD std::uint64_t expected(std::uint64_t code) const {
        const Profile& profile = row.model.profile;
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
    /// Returns whether an element has 32 bits or more, so that it takes a whole operand.
    MACHEPS_HD constexpr bool is_wide() const { return row.from.container_bits() >= 32; }

    /// Returns the operand with this code as an fp32 number. NaNs in fp32, fp16 and bf16 keep their payload.
    MACHEPS_HD float as_float(std::uint64_t code) const {
        const Format f = row.from;
        if (f.bits == 32) return bit_cast<float>(static_cast<std::uint32_t>(code));
        if (f.bits != 16 || !is_nan_code(f, code)) return decode(f, code);
        const auto sign = static_cast<std::uint32_t>(code & f.sign_bit()) << 16;
        const auto fraction = static_cast<std::uint32_t>(code & (f.min_normal_code() - 1));
        return bit_cast<float>(sign | 0x7f800000u | fraction << (23 - f.fraction_bits()));
    }
};

}  // namespace macheps::evidence
