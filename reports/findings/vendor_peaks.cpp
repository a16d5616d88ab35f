// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/vendor_peaks.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/float_chars.hpp"
#include "core/text/split.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace macheps::reports {

namespace {

constexpr VendorGpu gpus[] = {
    {"v100", "NVIDIA V100 SXM2", "sm70."},       {"t4", "NVIDIA T4", "sm75."},
    {"a100", "NVIDIA A100 SXM", "sm80."},        {"l40s", "NVIDIA L40S", "sm89."},
    {"h100", "NVIDIA H100 SXM", "sm90."},        {"h200", "NVIDIA H200 SXM", ""},
    {"b200", "NVIDIA HGX B200", "sm100.", true}, {"mi300x", "AMD Instinct MI300X", "cdna3."},
};

constexpr std::string_view volta = "NVIDIA V100 data sheet, SXM2: 5120 cores and 640 tensor cores at 1530 MHz",
                           turing = "NVIDIA T4 data sheet: 2560 cores and 320 tensor cores at 1590 MHz",
                           ampere = "NVIDIA A100 data sheet (nvidia-1758950-r4-web), SXM, without sparsity",
                           ada = "NVIDIA L40S data sheet, without sparsity",
                           hopper = "NVIDIA H100 architecture white paper, SXM5",
                           hopper2 = "NVIDIA H200 data sheet, SXM; half of the sparse figures",
                           blackwell = "NVIDIA Blackwell data sheet, HGX B200; half of the sparse figures",
                           cdna3 =
                               "AMD Instinct MI300X data sheet, matrix peaks without sparsity: 304 units at 2100 MHz";

constexpr VendorPeak peaks[] = {
    {"v100", "fp32", 15.7, volta},     {"v100", "fp16", 125, volta},      {"t4", "fp32", 8.1, turing},
    {"t4", "fp16", 65, turing},        {"a100", "fp32", 19.5, ampere},    {"a100", "tf32", 156, ampere},
    {"a100", "fp16", 312, ampere},     {"a100", "bf16", 312, ampere},     {"l40s", "fp32", 91.6, ada},
    {"l40s", "tf32", 183, ada},        {"l40s", "fp16", 362.05, ada},     {"l40s", "bf16", 362.05, ada},
    {"l40s", "fp8", 733, ada},         {"h100", "fp32", 66.9, hopper},    {"h100", "tf32", 494.7, hopper},
    {"h100", "fp16", 989.4, hopper},   {"h100", "bf16", 989.4, hopper},   {"h100", "fp8", 1978.9, hopper},
    {"h200", "fp32", 67, hopper2},     {"h200", "tf32", 494.5, hopper2},  {"h200", "fp16", 989.5, hopper2},
    {"h200", "bf16", 989.5, hopper2},  {"h200", "fp8", 1979, hopper2},    {"b200", "fp32", 75, blackwell},
    {"b200", "tf32", 1100, blackwell}, {"b200", "fp16", 2250, blackwell}, {"b200", "bf16", 2250, blackwell},
    {"b200", "fp8", 4500, blackwell},  {"b200", "fp6", 4500, blackwell},  {"b200", "fp4", 9000, blackwell},
    {"mi300x", "fp32", 163.4, cdna3},  {"mi300x", "tf32", 653.7, cdna3},  {"mi300x", "fp16", 1307.4, cdna3},
    {"mi300x", "bf16", 1307.4, cdna3}, {"mi300x", "fp8", 2614.9, cdna3},
};

std::optional<double> peak_of(std::string_view gpu, std::string_view kind) {
    const auto found = std::find_if(std::begin(peaks), std::end(peaks),
                                    [&](const VendorPeak& row) { return row.gpu == gpu && row.kind == kind; });
    return found == std::end(peaks) ? std::nullopt : std::optional(found->tflops);
}

/// Returns the peak speed of matmuls with an operand such as "e4m3fn" or, with block scales, "e4m3fn/mx32".
std::optional<double> peak_of_operand(std::string_view gpu, std::string_view operand) {
    const std::string_view format = take_until(operand, '/');
    const VendorGpu* row = find_vendor_gpu(gpu);
    if (!operand.empty() && (row == nullptr || !row->has_block_scales)) return std::nullopt;
    return peak_of(gpu, operand_kind(format));
}

}  // namespace

std::span<const VendorPeak> vendor_peaks() { return peaks; }
std::span<const VendorGpu> vendor_gpus() { return gpus; }

const VendorGpu* find_vendor_gpu(std::string_view name) {
    const auto found =
        std::find_if(std::begin(gpus), std::end(gpus), [&](const VendorGpu& row) { return row.name == name; });
    return found == std::end(gpus) ? nullptr : found;
}

const VendorGpu* gpu_of_machine(std::string_view machine) {
    const auto found = std::find_if(std::begin(gpus), std::end(gpus), [&](const VendorGpu& row) {
        return !row.machines.empty() && machine.starts_with(row.machines);
    });
    return found == std::end(gpus) ? nullptr : found;
}

std::string_view operand_kind(std::string_view name) {
    const NamedFormat* named = find_format(name);
    if (named == nullptr) return "fp32";
    const Format f = named->format;
    const auto largest = [](const Format& of) { return decode64(of, of.max_finite_code() << of.padding); };
    const auto fits = [&](const Format& wide) {
        return f.precision <= wide.precision && f.emin() - f.fraction_bits() >= wide.emin() - wide.fraction_bits() &&
               largest(f) <= largest(wide);
    };
    if (f.bits <= 4) return "fp4";
    if (f.bits <= 6) return "fp6";
    if (f.bits <= 8) return "fp8";
    if (fits(bf16)) return "bf16";
    if (fits(fp16)) return "fp16";
    return fits(tf32) ? "tf32" : "fp32";
}

std::string_view unit_kind(std::string_view gpu) { return peak_of(gpu, "bf16") ? "bf16" : "fp16"; }

std::optional<double> relative_peak(std::string_view matmul_formats, std::string_view gpu) {
    const std::optional<double> unit = peak_of(gpu, unit_kind(gpu));
    double all = 0, time = 0;  // number of multiply-adds, and their time; one multiply-add at the speed `unit` takes 1
    while (!matmul_formats.empty()) {
        std::string_view pair = take_until(matmul_formats, ';');
        const std::string_view a = take_until(pair, '*'), b = take_until(pair, ':');
        double count = 0;
        const auto [end, error] = number_from_chars(pair.data(), pair.data() + pair.size(), count);
        const std::optional<double> peak_a = peak_of_operand(gpu, a), peak_b = peak_of_operand(gpu, b);
        if (error != std::errc{} || end != pair.data() + pair.size() || !peak_a || !peak_b) return std::nullopt;
        all += count;
        time += count * *unit / std::min(*peak_a, *peak_b);
    }
    return time > 0 ? std::optional(all / time) : std::nullopt;
}

std::string operand_without_unit(std::string_view matmul_formats, std::string_view gpu) {
    while (!matmul_formats.empty()) {
        std::string_view pair = take_until(matmul_formats, ';');
        std::string_view operands = take_until(pair, ':');
        while (!operands.empty()) {
            const std::string_view operand = take_until(operands, '*');
            if (!peak_of_operand(gpu, operand)) return std::string(operand);
        }
    }
    return {};
}

}  // namespace macheps::reports
