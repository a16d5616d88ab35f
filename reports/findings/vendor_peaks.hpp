// SPDX-License-Identifier: Apache-2.0
// What vendors state that their GPUs can multiply: dense peaks, format by format. Figures of data sheets, not measurements;
// the ratios say what a recipe could gain at most where matmuls are all that takes time.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::reports {

/// A GPU and a kind of operands.
struct VendorPeak {
    std::string_view gpu;     ///< "h100"
    std::string_view kind;    ///< fp32, tf32, bf16, fp16, fp8, fp6 or fp4
    double tflops = 0;        ///< without sparsity, sums in fp32
    std::string_view source;  ///< the vendor's document
};
std::span<const VendorPeak> vendor_peaks();

/// A GPU of the table.
struct VendorGpu {
    std::string_view name;   ///< "h100"
    std::string_view title;  ///< "NVIDIA H100 SXM"
};
std::span<const VendorGpu> vendor_gpus();
/// Null where there is none of that name.
const VendorGpu* find_vendor_gpu(std::string_view name);
/// The GPU of a table or a page that names none.
inline constexpr std::string_view usual_gpu = "h100";

/// The kind of a format of the format table: "e4m3fn" is fp8. Formats that no matrix unit multiplies go by the least kind that
/// holds their values, fp32 at last.
std::string_view operand_kind(std::string_view format);

/// RunRow::matmul_formats read: the peak of these matmuls on `gpu` over that of the same matmuls in bf16 (fp16 where the GPU has no
/// bf16), each taking the time that the slower of its two operands' kinds takes. Nothing where the text is none of that form, or the
/// vendor states no figure for one of the kinds.
std::optional<double> relative_peak(std::string_view matmul_formats, std::string_view gpu);

}  // namespace macheps::reports
