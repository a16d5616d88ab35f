// SPDX-License-Identifier: Apache-2.0
// Peak speeds of GPUs for dense matmuls in each format. They come from the vendors' data sheets and are not
// measurements. The ratio of two peaks is an upper bound on the speedup of a recipe. It is reached only if all time is
// spent in matmuls.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::reports {

/// The peak speed of a GPU for matmuls with one kind of operands.
struct VendorPeak {
    std::string_view gpu;     ///< "h100"
    std::string_view kind;    ///< fp32, tf32, bf16, fp16, fp8, fp6 or fp4
    double tflops = 0;        ///< without sparsity, accumulating in fp32
    std::string_view source;  ///< the vendor's document
};
std::span<const VendorPeak> vendor_peaks();

/// A GPU whose peak speeds are known.
struct VendorGpu {
    std::string_view name;      ///< "h100"
    std::string_view title;     ///< "NVIDIA H100 SXM"
    std::string_view machines;  ///< beginning of the names of its matrix units: "sm90."; empty if another GPU has them
    bool has_block_scales = false;  ///< its matrix units apply the scales of MX formats and of NVFP4
};
std::span<const VendorGpu> vendor_gpus();
/// Returns the GPU with this name, or null.
const VendorGpu* find_vendor_gpu(std::string_view name);
/// Returns the GPU to whose matrix units a machine belongs: "a100" for "sm80.mma.bf16". Returns null for a machine of
/// no known GPU, such as `fp32.chain`.
const VendorGpu* gpu_of_machine(std::string_view machine);
/// The GPU of the column `peak` if neither --gpu nor a machine names one.
inline constexpr std::string_view usual_gpu = "h100";

/// Returns the kind (VendorPeak::kind) of a named format: fp8 for "e4m3fn". The width decides for formats of 8 bits or
/// fewer. The kind of a wider format is the first of bf16, fp16 and tf32 that contains all its values, or else fp32.
/// The kind of an unknown name is fp32.
std::string_view operand_kind(std::string_view format);

/// Returns the kind whose peak speed is 1x in the column `peak`: bf16, or fp16 on a GPU without bf16.
std::string_view unit_kind(std::string_view gpu);

/// Returns the peak speed of a set of matmuls on `gpu`, relative to the same matmuls in unit_kind(gpu).
/// `matmul_formats` has the form of RunRow::matmul_formats. The speed of a matmul is the peak of its slower operand
/// kind. Returns nothing if the text does not have this form, or if the GPU has no unit for an operand.
std::optional<double> relative_peak(std::string_view matmul_formats, std::string_view gpu);

/// Returns the first operand of these matmuls for which the GPU has no matrix unit: "e4m3fn" on an A100, "e4m3fn/mx32"
/// on an H100. Empty if there is none.
std::string operand_without_unit(std::string_view matmul_formats, std::string_view gpu);

}  // namespace macheps::reports
