// SPDX-License-Identifier: Apache-2.0
// Peak speeds of GPUs for dense matmuls in each format, as their vendors state them. They come from data sheets and are
// not measurements. Their ratio is an upper bound on the speedup of a recipe that spends all its time in matmuls.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::reports {

/// The peak of a GPU for one kind of operands.
struct VendorPeak {
    std::string_view gpu;     ///< "h100"
    std::string_view kind;    ///< fp32, tf32, bf16, fp16, fp8, fp6 or fp4
    double tflops = 0;        ///< without sparsity, accumulating in fp32
    std::string_view source;  ///< the vendor's document
};
std::span<const VendorPeak> vendor_peaks();

/// A GPU of the table.
struct VendorGpu {
    std::string_view name;   ///< "h100"
    std::string_view title;  ///< "NVIDIA H100 SXM"
};
std::span<const VendorGpu> vendor_gpus();
/// Returns the GPU with this name, or null.
const VendorGpu* find_vendor_gpu(std::string_view name);
/// The default GPU of tables and pages.
inline constexpr std::string_view usual_gpu = "h100";

/// Returns the kind of a format of the format table: fp8 for "e4m3fn". The width decides for formats of 8 bits or
/// fewer. Other formats get the first of bf16, fp16 and tf32 that holds all their values, or else fp32. So do unknown
/// names.
std::string_view operand_kind(std::string_view format);

/// Returns the peak speed of matmuls on `gpu` divided by that of the same matmuls in bf16 (in fp16 if the GPU has no
/// bf16). `matmul_formats` has the form of RunRow::matmul_formats. Each matmul takes the time of the slower of its two
/// operand kinds. Returns nothing if the text does not have this form, or if the vendor gives no figure for a kind.
std::optional<double> relative_peak(std::string_view matmul_formats, std::string_view gpu);

}  // namespace macheps::reports
