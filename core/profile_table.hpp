// SPDX-License-Identifier: Apache-2.0
// The table of codec profiles. A row names the edition of the implementation and the formats that it supports. Host
// only. docs/conversions.md shows how each profile converts NaN, infinities, overflow and zeros.
#pragma once
#include "core/error.hpp"
#include "core/profile.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace macheps {

struct NamedProfile {
    std::string_view name;
    Profile profile;
    std::string_view edition;    ///< the newest version that the profile was compared with
    std::string_view formats{};  ///< names of the formats that the implementation converts to; empty: every format
    std::string_view summary;
    std::string_view source;
    std::string_view aliases{};  ///< other names of the row, separated by spaces
};

namespace profiles {

// The specification of ONNX Cast has one table until opset 23 and another from opset 24 on. It does not cover float4,
// float6 and the sign of a NaN. In these cases the profiles follow the reference implementation, which converts with
// ml_dtypes.
inline constexpr Profile onnx_19{.saturates = Reach::eight_bits,
                                 .saturates_infinity = Reach::eight_bits,
                                 .fnuz_infinity_is_nan = true,
                                 .nan = NanCodes::ml_dtypes};
inline constexpr Profile onnx_24{.saturates = Reach::eight_bits,
                                 .saturates_infinity = Reach::eight_bits,
                                 .nan = NanCodes::ml_dtypes,
                                 .scale_round = Round::up};
inline constexpr Profile onnx_nosat{
    .nan = NanCodes::ml_dtypes, .scale_domain = ScaleDomain::in_range_or_nan, .scale_round = Round::up};
inline constexpr std::string_view onnx_formats_19 = "fp64 fp32 fp16 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz";
inline constexpr std::string_view onnx_formats_23 = "fp64 fp32 fp16 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz e2m1fn";
inline constexpr std::string_view onnx_formats_24 = "fp64 fp32 fp16 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz e8m0fnu e2m1fn";
inline constexpr std::string_view onnx_formats_28 =
    "fp64 fp32 fp16 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz e8m0fnu e2m3fn e3m2fn e2m1fn";
inline constexpr std::string_view onnx_edition = "ONNX 1.23.2, operator Cast";
inline constexpr std::string_view onnx_source = "ONNX operator Cast, its tables of float8 and float8e8m0";

inline constexpr std::string_view cuda_formats = "fp64 fp32 tf32 fp16 bf16 e4m3fn e5m2 e8m0fnu e2m3fn e3m2fn e2m1fn";
inline constexpr std::string_view torch_formats = "fp64 fp32 fp16 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz e8m0fnu";
inline constexpr std::string_view ml_dtypes_formats =
    "fp64 fp32 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz e4m3b11fnuz e3m4 e4m3ieee e8m0fnu e2m3fn e3m2fn e2m1fn";

}  // namespace profiles

/// The table of codec profiles. Do not compare the NaN codes of two different profiles: compare only whether both
/// results are NaN.
inline constexpr std::array<NamedProfile, 25> all_profiles{{
    {.name = "ieee",
     .profile = {},
     .edition = "IEEE 754-2019, OCP OFP8 1.0, OCP MX 1.0",
     .summary = "one rounding; overflow depends on the rounding mode; quiet NaN with its sign",
     .source = "IEEE 754-2019 4.3, 7.4"},
    {.name = "cuda_sat",
     .profile = {.saturates = Reach::every_format,
                 .saturates_infinity = Reach::every_format,
                 .nan = NanCodes::cuda_host,
                 .scale_round = Round::up},
     .edition = "CUDA 13.5 headers",
     .formats = profiles::cuda_formats,
     .summary = "CUDA headers on the host, __NV_SATFINITE",
     .source = "cuda_fp8.hpp, cuda_fp6.hpp, cuda_fp4.hpp"},
    {.name = "cuda_nosat",
     .profile = {.nan = NanCodes::cuda_host, .scale_round = Round::up},
     .edition = "CUDA 13.5 headers",
     .formats = profiles::cuda_formats,
     .summary = "CUDA headers on the host, __NV_NOSAT",
     .source = "cuda_fp8.hpp, cuda_fp16.hpp, cuda_bf16.hpp"},
    {.name = "ptx",
     .profile = {.saturates = Reach::every_format,
                 .saturates_infinity = Reach::every_format,
                 .nan = NanCodes::nvidia,
                 .scale_round = Round::up},
     .edition = "PTX ISA 9.1",
     .formats = "fp32 tf32 fp16 bf16 e4m3fn e5m2 e8m0fnu e2m3fn e3m2fn e2m1fn",
     .summary = "cvt with .satfinite; fp32 to tf32, fp16, bf16 and 8-bit formats measured on an H100",
     .source = "PTX ISA 9.1 cvt"},
    {.name = "mldtypes",
     .profile = {.truncation_overflows = true,
                 .nan = NanCodes::ml_dtypes,
                 .scale_domain = ScaleDomain::positive_or_nan,
                 .scale_least = ScaleLeast::nearest_up},
     .edition = "ml_dtypes 0.6.0",
     .formats = profiles::ml_dtypes_formats,
     .summary = "ml_dtypes C++ conversions, defaults (its NumPy astype rounds fp64 to fp32 first)",
     .source = "jax-ml/ml_dtypes"},
    {.name = "mldtypes_sat",
     .profile = {.saturates = Reach::every_format,
                 .nan = NanCodes::ml_dtypes,
                 .scale_domain = ScaleDomain::positive_or_min,
                 .scale_least = ScaleLeast::nearest_up},
     .edition = "ml_dtypes b793a6e",
     .formats = profiles::ml_dtypes_formats,
     .summary = "ml_dtypes C++ conversions with kSaturate: finite values saturate, infinities do not",
     .source = "jax-ml/ml_dtypes"},
    {.name = "torch_legacy",
     .profile = {.fp64_via_fp32 = Reach::every_format, .nan = NanCodes::torch, .scale_least = ScaleLeast::nearest_up},
     .edition = "PyTorch before PR 178817",
     .formats = profiles::torch_formats,
     .summary = "PyTorch scalar casts before PR 178817: e4m3fn overflows to NaN",
     .source = "pytorch torch/headeronly/util"},
    {.name = "torch_sat",
     .profile = {.saturates = Reach::e4m3fn_alone,
                 .saturates_infinity = Reach::e4m3fn_alone,
                 .fp64_via_fp32 = Reach::every_format,
                 .nan = NanCodes::torch,
                 .scale_least = ScaleLeast::nearest_up},
     .edition = "PyTorch 2.15.0",
     .formats = profiles::torch_formats,
     .summary = "PyTorch since PR 178817: in e4m3fn, overflow and infinities saturate",
     .source = "pytorch PR 178817"},
    {.name = "onnx.19",
     .profile = profiles::onnx_19,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_19,
     .summary = "opset 19, saturate = 1: an infinity gives NaN in fnuz formats",
     .source = profiles::onnx_source,
     .aliases = "onnx.20"},
    {.name = "onnx.19.nosat",
     .profile = profiles::onnx_nosat,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_19,
     .summary = "opset 19, saturate = 0",
     .source = profiles::onnx_source,
     .aliases = "onnx.20.nosat"},
    {.name = "onnx.21",
     .profile = profiles::onnx_19,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_19,
     .summary = "opset 21, saturate = 1: same as onnx.19",
     .source = profiles::onnx_source,
     .aliases = "onnx.22"},
    {.name = "onnx.21.nosat",
     .profile = profiles::onnx_nosat,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_19,
     .summary = "opset 21, saturate = 0: same as onnx.19.nosat",
     .source = profiles::onnx_source,
     .aliases = "onnx.22.nosat"},
    {.name = "onnx.23",
     .profile = profiles::onnx_19,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_23,
     .summary = "opset 23, saturate = 1: onnx.19 and float4e2m1",
     .source = profiles::onnx_source},
    {.name = "onnx.23.nosat",
     .profile = profiles::onnx_nosat,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_23,
     .summary = "opset 23, saturate = 0: onnx.19.nosat and float4e2m1",
     .source = profiles::onnx_source},
    {.name = "onnx.24",
     .profile = profiles::onnx_24,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_24,
     .summary = "opset 24, saturate = 1: an infinity saturates in every float8; float8e8m0 rounds up by default",
     .source = profiles::onnx_source},
    {.name = "onnx.24.nosat",
     .profile = profiles::onnx_nosat,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_24,
     .summary = "opset 24, saturate = 0: float8e8m0 gives NaN for zero and for values outside its range",
     .source = profiles::onnx_source},
    {.name = "onnx.25",
     .profile = profiles::onnx_24,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_24,
     .summary = "opset 25, saturate = 1: same as onnx.24",
     .source = profiles::onnx_source,
     .aliases = "onnx.26 onnx.27"},
    {.name = "onnx.25.nosat",
     .profile = profiles::onnx_nosat,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_24,
     .summary = "opset 25, saturate = 0: same as onnx.24.nosat",
     .source = profiles::onnx_source,
     .aliases = "onnx.26.nosat onnx.27.nosat"},
    {.name = "onnx.28",
     .profile = profiles::onnx_24,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_28,
     .summary = "opset 28, saturate = 1: onnx.24 and float6",
     .source = profiles::onnx_source},
    {.name = "onnx.28.nosat",
     .profile = profiles::onnx_nosat,
     .edition = profiles::onnx_edition,
     .formats = profiles::onnx_formats_28,
     .summary = "opset 28, saturate = 0: onnx.24.nosat and float6",
     .source = profiles::onnx_source},
    {.name = "onnx_reference.1.23",
     .profile = {.saturates = Reach::eight_bits,
                 .saturates_infinity = Reach::signed_eight_bits,
                 .fp64_via_fp32 = Reach::all_but_fp16,
                 .nan = NanCodes::ml_dtypes,
                 .scale_least = ScaleLeast::fp32_fields,
                 .scale_round = Round::up},
     .edition = "onnx 1.23.2, ReferenceEvaluator",
     .formats = profiles::onnx_formats_28,
     .summary = "the reference implementation of Cast in every opset, saturate = 1",
     .source = "onnx/reference/ops/op_cast.py, onnx/numpy_helper.py"},
    {.name = "onnx_reference.1.23.nosat",
     .profile = {.fp64_via_fp32 = Reach::all_but_fp16,
                 .nan = NanCodes::ml_dtypes,
                 .scale_least = ScaleLeast::fp32_fields,
                 .scale_round = Round::up},
     .edition = "onnx 1.23.2, ReferenceEvaluator",
     .formats = profiles::onnx_formats_28,
     .summary = "the reference implementation of Cast in every opset, saturate = 0",
     .source = "onnx/reference/ops/op_cast.py, onnx/numpy_helper.py"},
    {.name = "x86.vcvtneps2bf16",
     .profile = {.flushes_subnormals = true, .nan = NanCodes::payload},
     .edition = "AMD Zen 5",
     .formats = "bf16",
     .summary = "AVX512-BF16, AVX-NE-CONVERT: rounds to nearest even and ignores MXCSR; reads fp32 subnormals as zeros",
     .source = "Intel SDM vol. 2; captures of AMD Zen 5"},
    {.name = "x86.vcvtps2ph",
     .profile = {.nan = NanCodes::payload},
     .edition = "AMD Zen 5",
     .formats = "fp16",
     .summary = "F16C: underflow is always gradual; assumes MXCSR.DAZ = 0 (DAZ = 1 flushes operands)",
     .source = "Intel SDM vol. 2; captures of AMD Zen 5"},
    {.name = "arm.bfcvtn",
     .profile = {.nan = NanCodes::payload},
     .edition = "QEMU 7.2",
     .formats = "bf16",
     .summary = "subnormals kept (FPCR.FZ = 0), NaN quieted",
     .source = "Arm ARM; captures of QEMU 7.2"},
}};

/// Returns the row with this name or alias. If the name is unknown, throws an Error that suggests the nearest name. If
/// the name means different conversions in different editions (`onnx`, `onnx_saturate`), throws an Error that lists the
/// names to choose from.
const NamedProfile& profile_row(std::string_view name, std::string_view where = {}, Exit exit = Exit::bad_input);

/// Returns the profile of profile_row(name).
Profile profile_named(std::string_view name, std::string_view where = {}, Exit exit = Exit::bad_input);

/// Returns whether the implementation converts to `f`.
bool has_format(const NamedProfile& row, const Format& f);

/// Throws Error if the implementation does not convert to `f`, because its behaviour is then unknown.
void require_format(const NamedProfile& row, const Format& f, std::string_view where = {}, Exit exit = Exit::bad_input);

}  // namespace macheps
