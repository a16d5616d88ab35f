// SPDX-License-Identifier: Apache-2.0
// The machines. A matrix unit is one line here. Parameters: Xie et al. (MMA-Sim, arXiv 2511.10909), Khattak and
// Mikaitis (arXiv 2512.07004; their captures of silicon are the evidence `hardware`), Fasi et al. (PeerJ CS 330),
// machine code of ptxas 13.0 for the emulated fp8 forms, IEEE 754-2019.
#pragma once
#include "emulation/machine/machine.hpp"

#include <array>

namespace macheps {

namespace machine_row {

inline constexpr FormatSet fp8{e4m3fn, e5m2};
inline constexpr FormatSet fp8_fp6_fp4{e4m3fn, e5m2, e2m3fn, e3m2fn, e2m1fn};
inline constexpr FormatSet fp8_fnuz{e4m3fnuz, e5m2fnuz};
inline constexpr std::string_view mma_sim = "MMA-Sim, arXiv 2511.10909", captures = "captures of arXiv 2512.07004";
inline constexpr std::string_view sass = "machine code of ptxas 13.0";
inline constexpr auto H = Evidence::hardware, P = Evidence::published, I = Evidence::inferred;

/// NVIDIA's truncated fused dot-product-add. `f16` is the fp16 fraction bits of the architecture, which zero_exponent
/// follows; fp16 accumulators of mma.sync read 4 - f16, those of wgmma and tcgen05 -133.
constexpr Machine nvidia(std::string_view name, std::string_view arch, std::string_view instruction, FormatSet operands,
                         Format accumulator, int k, int small_k, int terms, int fraction_bits, int f16,
                         Evidence evidence, std::string_view measured = "") {
    const bool half = accumulator == fp16, sync = instruction == "mma";
    SumRule sum{.model = SumModel::truncated, .terms = terms, .fraction_bits = fraction_bits};
    sum.delivery = half                  ? Delivery::fp16_nearest_even
                   : fraction_bits == 13 ? Delivery::e8m13_toward_zero
                                         : Delivery::fp32_toward_zero;
    sum.addend = accumulator;
    sum.zero_exponent = !half ? -108 - f16 : sync ? 4 - f16 : -133;
    return {.name = name,
            .arch = arch,
            .instruction = instruction,
            .operands = operands,
            .addend = accumulator,
            .result = accumulator,
            .k = k,
            .small_k = small_k,
            .sum = sum,
            .canonical_nan = true,
            .evidence = evidence,
            .measured = measured,
            .source = evidence == H ? captures : mma_sim};
}

/// Volta's forms whose C and D differ.
constexpr Machine volta_mixed(std::string_view name, Format addend, Format result) {
    Machine m = nvidia(name, "sm_70", "mma", {fp16}, result, 4, 0, 4, 23, 23, P);
    m.addend = m.sum.addend = addend;
    m.sum.zero_exponent = addend == fp16 ? 4 - 23 : -108 - 23;
    return m;
}

/// fp8 mma.sync of sm_90 and sm_100: machine code shows two fp16 steps and one addition.
constexpr Machine emulated_fp8(std::string_view name, std::string_view arch, Format accumulator,
                               std::string_view gpus) {
    Machine m = nvidia(name, arch, "mma", fp8, accumulator, 32, 16, 16, 25, 25, gpus.empty() ? P : H, gpus);
    m.sum.model = SumModel::through_fp16;
    m.sum.delivery = accumulator == fp16 ? Delivery::fp16_nearest_even : Delivery::fp32_toward_zero;
    m.source = sass;
    return m;
}

/// Block-scaled forms: fp8, fp6 and fp4 with one ue8m0 pair per instruction.
constexpr Machine scaled(std::string_view name, std::string_view arch, std::string_view instruction, FormatSet operands,
                         Evidence evidence) {
    Machine m = nvidia(name, arch, instruction, operands, fp32, 32, 0, 32, 25, 25, evidence);
    m.scale = e8m0fnu;
    m.scale_block = 32;
    return m;
}

/// Block-scaled fp4: groups of 16 exact products.
constexpr Machine scaled_fp4(std::string_view name, std::string_view arch, std::string_view instruction, Format scale,
                             int block) {
    Machine m = nvidia(name, arch, instruction, {e2m1fn}, fp32, 64, 0, 64, 35, 25, P);
    m.scale = scale;
    m.scale_block = block;
    m.sum.model = SumModel::scaled_groups;
    m.sum.zero_exponent = -139;
    return m;
}

/// A chain of correctly rounded fma: f64 everywhere, f32 on AMD.
constexpr Machine fma_chain(std::string_view name, std::string_view arch, std::string_view instruction, Format format,
                            int k, int small_k) {
    const Delivery delivery = format == fp64 ? Delivery::fp64_nearest_even : Delivery::fp32_nearest_even;
    return {.name = name,
            .arch = arch,
            .instruction = instruction,
            .operands = {format},
            .addend = format,
            .result = format,
            .k = k,
            .small_k = small_k,
            .sum = {.model = SumModel::fma_chain, .delivery = delivery, .addend = format},
            .evidence = P,
            .source = mma_sim};
}

constexpr Machine amd(std::string_view name, std::string_view arch, FormatSet operands, int k, SumModel model,
                      int terms, int fraction_bits = 0) {
    return {.name = name,
            .arch = arch,
            .instruction = "mfma",
            .operands = operands,
            .k = k,
            .sum = {.model = model, .terms = terms, .fraction_bits = fraction_bits},
            .evidence = P,
            .source = mma_sim};
}

constexpr Machine order(std::string_view name, Format format, SumModel model, std::string_view summary) {
    const Delivery delivery = format == fp16   ? Delivery::fp16_nearest_even
                              : format == bf16 ? Delivery::bf16_nearest_even
                                               : Delivery::fp32_nearest_even;
    return {.name = name,
            .operands = {tf32, fp16, bf16, e4m3fn, e5m2, e2m3fn, e3m2fn, e2m1fn, e4m3fnuz, e5m2fnuz, fp32},
            .addend = format,
            .result = format,
            .sum = {.model = model, .delivery = delivery, .addend = format},
            .source = "IEEE 754-2019",
            .summary = summary};
}

}  // namespace machine_row

/// acc = +0, then acc = fma(a, b, acc) with k ascending, in fp32: what a CUDA-core kernel does.
inline constexpr Machine fp32_chain =
    machine_row::order("fp32.chain", fp32, SumModel::fma_chain, "one fp32 fma per term, k ascending");

namespace machine_row {

inline constexpr Machine rest[] = {
    order("fp32.pairwise", fp32, SumModel::pairwise,
          "fp32 products, added by halves at the largest power of two below n"),
    order("fp32.kahan", fp32, SumModel::kahan, "fp32 products, Kahan's compensated sum, k ascending"),
    order("bf16.chain", bf16, SumModel::fma_chain, "one fma per term, rounded to bf16, k ascending"),
    order("fp16.chain", fp16, SumModel::fma_chain, "one fma per term, rounded to fp16, k ascending"),
    order("exact", fp32, SumModel::exact, "the exact sum of the exact products, rounded once to fp32"),

    // name, architectures, instruction, operands, accumulator, K, smaller K, L, F, F of fp16, evidence
    nvidia("sm70.mma.fp16", "sm_70", "mma", {fp16}, fp32, 4, 0, 4, 23, 23, H, "V100"),
    nvidia("sm70.mma.fp16.acc16", "sm_70", "mma", {fp16}, fp16, 4, 0, 4, 23, 23, H, "V100"),
    volta_mixed("sm70.mma.fp16.c16", fp16, fp32),
    volta_mixed("sm70.mma.fp16.d16", fp32, fp16),

    nvidia("sm75.mma.fp16", "sm_75", "mma", {fp16}, fp32, 8, 0, 8, 24, 24, P),
    nvidia("sm75.mma.fp16.acc16", "sm_75", "mma", {fp16}, fp16, 8, 0, 8, 24, 24, P),

    nvidia("sm80.mma.fp16", "sm_80 sm_86", "mma", {fp16}, fp32, 16, 8, 8, 24, 24, H, "A100, A2"),
    nvidia("sm80.mma.bf16", "sm_80 sm_86", "mma", {bf16}, fp32, 16, 8, 8, 24, 24, H, "A100, A2"),
    nvidia("sm80.mma.fp16.acc16", "sm_80 sm_86", "mma", {fp16}, fp16, 16, 8, 8, 24, 24, H, "A100, A2"),
    nvidia("sm80.mma.tf32", "sm_80 sm_86", "mma", {tf32}, fp32, 8, 4, 4, 24, 24, H, "A100, A2"),
    fma_chain("sm80.mma.fp64", "sm_80 sm_86", "mma", fp64, 4, 0),

    nvidia("sm89.mma.fp16", "sm_89", "mma", {fp16}, fp32, 16, 8, 8, 24, 24, H, "RTX 1000 Ada, L40S"),
    nvidia("sm89.mma.bf16", "sm_89", "mma", {bf16}, fp32, 16, 8, 8, 24, 24, P),
    nvidia("sm89.mma.fp16.acc16", "sm_89", "mma", {fp16}, fp16, 16, 8, 8, 24, 24, P),
    nvidia("sm89.mma.tf32", "sm_89", "mma", {tf32}, fp32, 8, 4, 4, 24, 24, P),
    nvidia("sm89.mma.fp8", "sm_89", "mma", fp8, fp32, 32, 16, 16, 13, 24, H, "RTX 1000 Ada, L40S"),
    nvidia("sm89.mma.fp8.acc16", "sm_89", "mma", fp8, fp16, 32, 16, 16, 13, 24, H, "RTX 1000 Ada"),
    fma_chain("sm89.mma.fp64", "sm_89", "mma", fp64, 4, 0),

    nvidia("sm90.mma.fp16", "sm_90", "mma", {fp16}, fp32, 16, 8, 16, 25, 25, H, "H100, H200"),
    nvidia("sm90.mma.bf16", "sm_90", "mma", {bf16}, fp32, 16, 8, 16, 25, 25, H, "H100, H200"),
    nvidia("sm90.mma.fp16.acc16", "sm_90", "mma", {fp16}, fp16, 16, 8, 16, 25, 25, H, "H100, H200"),
    nvidia("sm90.mma.tf32", "sm_90", "mma", {tf32}, fp32, 8, 4, 8, 25, 25, H, "H100, H200"),
    emulated_fp8("sm90.mma.fp8", "sm_90", fp32, ""),
    emulated_fp8("sm90.mma.fp8.acc16", "sm_90", fp16, "H100, H200"),
    fma_chain("sm90.mma.fp64", "sm_90", "mma", fp64, 16, 4),
    nvidia("sm90.wgmma.fp16", "sm_90", "wgmma", {fp16}, fp32, 16, 0, 16, 25, 25, P),
    nvidia("sm90.wgmma.bf16", "sm_90", "wgmma", {bf16}, fp32, 16, 0, 16, 25, 25, P),
    nvidia("sm90.wgmma.fp16.acc16", "sm_90", "wgmma", {fp16}, fp16, 16, 0, 16, 25, 25, P),
    nvidia("sm90.wgmma.tf32", "sm_90", "wgmma", {tf32}, fp32, 8, 0, 8, 25, 25, P),
    nvidia("sm90.wgmma.fp8", "sm_90", "wgmma", fp8, fp32, 32, 0, 32, 13, 25, H, "H100, H200 (C = 0)"),
    nvidia("sm90.wgmma.fp8.acc16", "sm_90", "wgmma", fp8, fp16, 32, 0, 32, 13, 25, P),

    nvidia("sm100.mma.fp16", "sm_100", "mma", {fp16}, fp32, 16, 8, 16, 25, 25, H, "B200"),
    nvidia("sm100.mma.bf16", "sm_100", "mma", {bf16}, fp32, 16, 8, 16, 25, 25, H, "B200"),
    nvidia("sm100.mma.fp16.acc16", "sm_100", "mma", {fp16}, fp16, 16, 8, 16, 25, 25, H, "B200"),
    nvidia("sm100.mma.tf32", "sm_100", "mma", {tf32}, fp32, 8, 4, 8, 25, 25, H, "B200"),
    emulated_fp8("sm100.mma.fp8", "sm_100", fp32, "B200"),
    emulated_fp8("sm100.mma.fp8.acc16", "sm_100", fp16, "B200"),
    fma_chain("sm100.mma.fp64", "sm_100", "mma", fp64, 16, 4),
    nvidia("sm100.tcgen05.fp16", "sm_100", "tcgen05.f16", {fp16}, fp32, 16, 0, 16, 25, 25, P),
    nvidia("sm100.tcgen05.bf16", "sm_100", "tcgen05.f16", {bf16}, fp32, 16, 0, 16, 25, 25, P),
    nvidia("sm100.tcgen05.fp16.acc16", "sm_100", "tcgen05.f16", {fp16}, fp16, 16, 0, 16, 25, 25, P),
    nvidia("sm100.tcgen05.tf32", "sm_100", "tcgen05.tf32", {tf32}, fp32, 8, 0, 8, 25, 25, P),
    nvidia("sm100.tcgen05.fp8", "sm_100", "tcgen05.f8f6f4", fp8, fp32, 32, 0, 32, 25, 25, P),
    nvidia("sm100.tcgen05.fp8.acc16", "sm_100", "tcgen05.f8f6f4", fp8, fp16, 32, 0, 32, 25, 25, P),
    nvidia("sm100.tcgen05.f8f6f4", "sm_100", "tcgen05.f8f6f4", fp8_fp6_fp4, fp32, 32, 0, 32, 25, 25, I),
    nvidia("sm100.tcgen05.f8f6f4.acc16", "sm_100", "tcgen05.f8f6f4", fp8_fp6_fp4, fp16, 32, 0, 32, 25, 25, I),
    scaled("sm100.tcgen05.mxfp8", "sm_100", "tcgen05.mxf8f6f4", fp8, P),
    scaled("sm100.tcgen05.mxf8f6f4", "sm_100", "tcgen05.mxf8f6f4", fp8_fp6_fp4, I),
    scaled_fp4("sm100.tcgen05.mxfp4", "sm_100", "tcgen05.mxf4", e8m0fnu, 32),
    scaled_fp4("sm100.tcgen05.nvfp4", "sm_100", "tcgen05.mxf4nvf4", e4m3fn, 16),
    scaled_fp4("sm100.tcgen05.nvfp4.ue8m0", "sm_100", "tcgen05.mxf4nvf4", e8m0fnu, 32),

    nvidia("sm120.mma.fp16", "sm_120", "mma", {fp16}, fp32, 16, 8, 16, 25, 25, P),
    nvidia("sm120.mma.bf16", "sm_120", "mma", {bf16}, fp32, 16, 8, 16, 25, 25, P),
    nvidia("sm120.mma.fp16.acc16", "sm_120", "mma", {fp16}, fp16, 16, 8, 16, 25, 25, P),
    nvidia("sm120.mma.tf32", "sm_120", "mma", {tf32}, fp32, 8, 4, 8, 25, 25, P),
    nvidia("sm120.mma.fp8", "sm_120", "mma", fp8, fp32, 32, 16, 32, 25, 25, P),
    nvidia("sm120.mma.fp8.acc16", "sm_120", "mma", fp8, fp16, 32, 16, 32, 25, 25, P),
    nvidia("sm120.mma.f8f6f4", "sm_120", "mma", fp8_fp6_fp4, fp32, 32, 0, 32, 25, 25, I),
    nvidia("sm120.mma.f8f6f4.acc16", "sm_120", "mma", fp8_fp6_fp4, fp16, 32, 0, 32, 25, 25, I),
    fma_chain("sm120.mma.fp64", "sm_120", "mma", fp64, 16, 4),
    scaled("sm120.mma.mxfp8", "sm_120", "mma.block_scale", fp8, P),
    scaled("sm120.mma.mxf8f6f4", "sm_120", "mma.block_scale", fp8_fp6_fp4, I),
    scaled_fp4("sm120.mma.mxfp4", "sm_120", "mma.block_scale", e8m0fnu, 32),
    scaled_fp4("sm120.mma.nvfp4", "sm_120", "mma.block_scale", e4m3fn, 16),

    amd("cdna1.mfma.fp16", "CDNA1", {fp16}, 16, SumModel::exact_step, 4),
    amd("cdna1.mfma.bf16", "CDNA1", {bf16}, 8, SumModel::exact_step, 2),
    amd("cdna2.mfma.fp16", "CDNA2", {fp16}, 16, SumModel::flushed_pairs, 4),
    amd("cdna2.mfma.bf16_1k", "CDNA2", {bf16}, 16, SumModel::flushed_pairs, 4),
    amd("cdna2.mfma.bf16", "CDNA2", {bf16}, 8, SumModel::flushed_pairs, 2),
    amd("cdna3.mfma.xf32", "CDNA3", {tf32}, 8, SumModel::floored, 4, 24),
    amd("cdna3.mfma.fp16", "CDNA3", {fp16}, 16, SumModel::floored, 8, 24),
    amd("cdna3.mfma.bf16", "CDNA3", {bf16}, 16, SumModel::floored, 8, 24),
    amd("cdna3.mfma.fp8", "CDNA3", fp8_fnuz, 32, SumModel::floored_even_odd, 16, 24),
    fma_chain("cdna.mfma.fp32", "CDNA1 CDNA2 CDNA3", "mfma", fp32, 4, 0),
    fma_chain("cdna.mfma.fp64", "CDNA2 CDNA3", "mfma", fp64, 4, 0),
};

}  // namespace machine_row

/// Every machine, fp32.chain first.
inline constexpr auto all_machines = [] {
    std::array<const Machine*, 1 + std::size(machine_row::rest)> all{&fp32_chain};
    for (std::size_t i = 0; i < std::size(machine_row::rest); ++i) all[i + 1] = &machine_row::rest[i];
    return all;
}();

/// The machine of that name, or nullptr.
constexpr const Machine* find_machine(std::string_view name) {
    for (const Machine* machine : all_machines) {
        if (machine->name == name) return machine;
    }
    return nullptr;
}

}  // namespace macheps
