// SPDX-License-Identifier: Apache-2.0
// Every format that macheps knows, with the names that other systems give it. Host only.
#pragma once
#include "core/error.hpp"
#include "core/format.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps {

/// Names of a format in other systems. Several names in one cell are separated by spaces. A cell is empty if the system
/// has no name for the format.
struct Aliases {
    std::string_view pytorch{};
    std::string_view ml_dtypes{};       ///< also JAX
    std::string_view cuda{};            ///< C++ types and __nv_fp8_interpretation_t
    std::string_view cuda_data_type{};  ///< values of cudaDataType, for cuBLASLt
    std::string_view ptx{};             ///< instruction qualifiers
    std::string_view ocp{};
    std::string_view llvm{};  ///< MLIR type names
    std::string_view onnx{};  ///< TensorProto.DataType
    std::string_view safetensors{};
    std::string_view other{};

    static constexpr std::size_t count = 10;
    static constexpr std::array<std::string_view, count> columns{
        "pytorch", "ml_dtypes", "cuda", "cuda_data_type", "ptx", "ocp", "llvm", "onnx", "safetensors", "other"};
    constexpr std::array<std::string_view, count> cells() const {
        return {pytorch, ml_dtypes, cuda, cuda_data_type, ptx, ocp, llvm, onnx, safetensors, other};
    }
};

struct NamedFormat {
    std::string_view name;
    Format format;
    std::string_view summary;
    std::string_view source;
    Aliases aliases{};
};

/// One row per format, widest first. New rows are tested automatically, because the tests loop over the table.
inline constexpr std::array<NamedFormat, 17> all_formats{{
    {.name = "fp64",
     .format = fp64,
     .summary = "IEEE double precision",
     .source = "IEEE 754-2019 binary64",
     .aliases = {.pytorch = "float64 torch.float64",
                 .ml_dtypes = "float64",
                 .cuda = "double",
                 .cuda_data_type = "CUDA_R_64F",
                 .ptx = ".f64",
                 .llvm = "f64",
                 .onnx = "DOUBLE",
                 .safetensors = "F64"}},
    {.name = "fp32",
     .format = fp32,
     .summary = "IEEE single precision",
     .source = "IEEE 754-2019 binary32",
     .aliases = {.pytorch = "float32 torch.float32",
                 .ml_dtypes = "float32",
                 .cuda = "float",
                 .cuda_data_type = "CUDA_R_32F",
                 .ptx = ".f32",
                 .llvm = "f32",
                 .onnx = "FLOAT",
                 .safetensors = "F32"}},
    {.name = "tf32",
     .format = tf32,
     .summary = "fp32 with 10 fraction bits, in a 32-bit container whose low 13 bits are zero",
     .source = "PTX ISA 9.1, alternate floating-point formats",
     .aliases = {.cuda = "nvcuda::wmma::precision::tf32", .ptx = ".tf32", .other = "tensorfloat32 tfloat32"}},
    {.name = "fp16",
     .format = fp16,
     .summary = "IEEE half precision",
     .source = "IEEE 754-2019 binary16",
     .aliases = {.pytorch = "float16 half torch.float16 torch.half",
                 .ml_dtypes = "float16",
                 .cuda = "__half half",
                 .cuda_data_type = "CUDA_R_16F",
                 .ptx = ".f16",
                 .llvm = "f16",
                 .onnx = "FLOAT16",
                 .safetensors = "F16"}},
    {.name = "bf16",
     .format = bf16,
     .summary = "the high half of fp32",
     .source = "jax-ml/ml_dtypes bfloat16",
     .aliases = {.pytorch = "bfloat16 torch.bfloat16",
                 .ml_dtypes = "bfloat16",
                 .cuda = "__nv_bfloat16",
                 .cuda_data_type = "CUDA_R_16BF",
                 .ptx = ".bf16",
                 .llvm = "bf16",
                 .onnx = "BFLOAT16",
                 .safetensors = "BF16"}},
    {.name = "e4m3fn",
     .format = e4m3fn,
     .summary = "fp8 for values: no infinity, one NaN per sign, up to 448",
     .source = "OCP OFP8 1.0 E4M3",
     .aliases = {.pytorch = "float8_e4m3fn torch.float8_e4m3fn",
                 .ml_dtypes = "float8_e4m3fn",
                 .cuda = "__nv_fp8_e4m3 __NV_E4M3",
                 .cuda_data_type = "CUDA_R_8F_E4M3 CUDA_R_8F_UE4M3",
                 .ptx = ".e4m3 .ue4m3",
                 .ocp = "E4M3",
                 .llvm = "f8E4M3FN",
                 .onnx = "FLOAT8E4M3FN",
                 .safetensors = "F8_E4M3",
                 .other = "float8e4nv"}},
    {.name = "e5m2",
     .format = e5m2,
     .summary = "fp8 for gradients: the high byte of fp16",
     .source = "OCP OFP8 1.0 E5M2",
     .aliases = {.pytorch = "float8_e5m2 torch.float8_e5m2",
                 .ml_dtypes = "float8_e5m2",
                 .cuda = "__nv_fp8_e5m2 __NV_E5M2",
                 .cuda_data_type = "CUDA_R_8F_E5M2",
                 .ptx = ".e5m2",
                 .ocp = "E5M2",
                 .llvm = "f8E5M2",
                 .onnx = "FLOAT8E5M2",
                 .safetensors = "F8_E5M2",
                 .other = "float8e5"}},
    {.name = "e4m3fnuz",
     .format = e4m3fnuz,
     .summary = "fp8 without infinity and -0, up to 240 (AMD MI300, Graphcore)",
     .source = "jax-ml/ml_dtypes float8_e4m3fnuz",
     .aliases = {.pytorch = "float8_e4m3fnuz torch.float8_e4m3fnuz",
                 .ml_dtypes = "float8_e4m3fnuz",
                 .llvm = "f8E4M3FNUZ",
                 .onnx = "FLOAT8E4M3FNUZ",
                 .safetensors = "F8_E4M3FNUZ",
                 .other = "float8e4b8"}},
    {.name = "e5m2fnuz",
     .format = e5m2fnuz,
     .summary = "fp8 without infinity and -0, bias 16 (AMD MI300, Graphcore)",
     .source = "jax-ml/ml_dtypes float8_e5m2fnuz",
     .aliases = {.pytorch = "float8_e5m2fnuz torch.float8_e5m2fnuz",
                 .ml_dtypes = "float8_e5m2fnuz",
                 .llvm = "f8E5M2FNUZ",
                 .onnx = "FLOAT8E5M2FNUZ",
                 .safetensors = "F8_E5M2FNUZ",
                 .other = "float8e5b16"}},
    {.name = "e4m3b11fnuz",
     .format = e4m3b11fnuz,
     .summary = "fp8 without infinity and -0, bias 11, largest value 30",
     .source = "jax-ml/ml_dtypes float8_e4m3b11fnuz",
     .aliases = {.ml_dtypes = "float8_e4m3b11fnuz", .llvm = "f8E4M3B11FNUZ"}},
    {.name = "e3m4",
     .format = e3m4,
     .summary = "fp8 with IEEE infinities and NaNs, up to 15.5",
     .source = "jax-ml/ml_dtypes float8_e3m4",
     .aliases = {.ml_dtypes = "float8_e3m4", .llvm = "f8E3M4"}},
    {.name = "e4m3ieee",
     .format = e4m3ieee,
     .summary = "fp8 with IEEE infinities and NaNs, up to 240; not what CUDA, OCP and PyTorch call e4m3",
     .source = "jax-ml/ml_dtypes float8_e4m3",
     .aliases = {.ml_dtypes = "float8_e4m3", .llvm = "f8E4M3"}},
    {.name = "e8m0fnu",
     .format = e8m0fnu,
     .summary = "a power of two: the block scale of the MX formats; no sign, no zero",
     .source = "OCP MX 1.0 E8M0",
     .aliases = {.pytorch = "float8_e8m0fnu torch.float8_e8m0fnu",
                 .ml_dtypes = "float8_e8m0fnu",
                 .cuda = "__nv_fp8_e8m0",
                 .cuda_data_type = "CUDA_R_8F_UE8M0",
                 .ptx = ".ue8m0",
                 .ocp = "E8M0",
                 .llvm = "f8E8M0FNU",
                 .onnx = "FLOAT8E8M0",
                 .safetensors = "F8_E8M0"}},
    {.name = "e2m3fn",
     .format = e2m3fn,
     .summary = "fp6: every code is a finite number, up to 7.5",
     .source = "OCP MX 1.0 FP6 E2M3",
     .aliases = {.ml_dtypes = "float6_e2m3fn",
                 .cuda = "__nv_fp6_e2m3 __NV_E2M3",
                 .cuda_data_type = "CUDA_R_6F_E2M3",
                 .ptx = ".e2m3",
                 .ocp = "E2M3",
                 .llvm = "f6E2M3FN",
                 .safetensors = "F6_E2M3",
                 .other = "fp6_e2m3"}},
    {.name = "e3m2fn",
     .format = e3m2fn,
     .summary = "fp6: every code is a finite number, up to 28",
     .source = "OCP MX 1.0 FP6 E3M2",
     .aliases = {.ml_dtypes = "float6_e3m2fn",
                 .cuda = "__nv_fp6_e3m2 __NV_E3M2",
                 .cuda_data_type = "CUDA_R_6F_E3M2",
                 .ptx = ".e3m2",
                 .ocp = "E3M2",
                 .llvm = "f6E3M2FN",
                 .safetensors = "F6_E3M2",
                 .other = "fp6_e3m2"}},
    {.name = "e2m1fn",
     .format = e2m1fn,
     .summary = "fp4: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives",
     .source = "OCP MX 1.0 FP4 E2M1",
     .aliases = {.pytorch = "float4_e2m1fn_x2 torch.float4_e2m1fn_x2",
                 .ml_dtypes = "float4_e2m1fn",
                 .cuda = "__nv_fp4_e2m1 __NV_E2M1",
                 .cuda_data_type = "CUDA_R_4F_E2M1",
                 .ptx = ".e2m1",
                 .ocp = "E2M1",
                 .llvm = "f4E2M1FN",
                 .onnx = "FLOAT4E2M1",
                 .safetensors = "F4"}},
    {.name = "mxint8",
     .format = mxint8,
     .summary = "two's complement times 2^-6: the integer element of the MX formats",
     .source = "OCP MX 1.0 INT8",
     .aliases = {.ocp = "MXINT8"}},
}};

/// Returns the row whose name or alias is `name`, ignoring case. Returns null if the name is unknown or ambiguous. For
/// example, `e4m3` means e4m3fn in CUDA, OCP and PyTorch, but an IEEE-like format in ml_dtypes and LLVM.
const NamedFormat* find_format(std::string_view name);

/// Returns the format of a name such as `e5m6`: a sign, 2 to 8 exponent bits and 1 to 23 fraction bits, with the
/// infinities, NaNs and bias of IEEE 754. fp32 can represent every value of such a format. If all_formats contains the
/// same format under another name (e5m10 is fp16, e8m10 is tf32), the format of that row is returned. Returns nothing
/// for other names.
std::optional<Format> ieee_format(std::string_view name);

/// Returns the format called `name`, which is a name in all_formats or, failing that, a name such as `e5m6` that
/// ieee_format() understands. If the name is unknown, throws an Error that suggests the nearest name. `where` is the
/// place from which the name comes, such as a file and line, or an option.
Format format_named(std::string_view name, std::string_view where = {}, Exit exit = Exit::bad_input);

/// Returns the name of `format` in all_formats. If the format is not in the table, returns a name made of its widths
/// (e5m6) if these describe the format, and "custom" otherwise.
std::string_view format_name(const Format& format);

/// Returns the names of all_formats, in the order of the table.
std::vector<std::string_view> format_names();

/// Returns the names in one cell of `Aliases`.
std::vector<std::string_view> split_names(std::string_view cell);

}  // namespace macheps
