// SPDX-License-Identifier: Apache-2.0
// NVIDIA's tensor cores. Sources of the parameters: Xie et al. (MMA-Sim, arXiv 2511.10909), Khattak and Mikaitis (arXiv
// 2512.07004), Fasi et al. (PeerJ CS 330), and, for fp8 instructions that run as fp16 steps, machine code of ptxas
// 13.0. Rows with evidence `hardware` reproduce the captures of Khattak and Mikaitis, the traces in tests/traces, or
// both.
#pragma once
#include "emulation/machine/table_shared.hpp"

namespace macheps::machine_row {

inline constexpr FormatSet fp8{e4m3fn, e5m2};
inline constexpr FormatSet fp8_fp6_fp4{e4m3fn, e5m2, e2m3fn, e3m2fn, e2m1fn};
inline constexpr std::string_view captures = "captures of arXiv 2512.07004";
inline constexpr std::string_view sass = "machine code of ptxas 13.0";
inline constexpr std::string_view traces = "traces that this program recorded (H100 80GB HBM3, H200; 2026-11-26)";
inline constexpr std::string_view captures_and_traces =
    "captures of arXiv 2512.07004; traces that this program recorded (H100 80GB HBM3, H200; 2026-11-26)";

/// Properties that the tensor cores of one generation share.
struct Generation {
    std::string_view arch;
    int fraction_bits = 0;   ///< bits kept below the largest exponent, unless TensorCore::fraction_bits is set
    bool is_traced = false;  ///< tests/traces has traces of all instructions and operand formats of the generation
};
inline constexpr Generation volta{.arch = "sm_70", .fraction_bits = 23};
inline constexpr Generation turing{.arch = "sm_75", .fraction_bits = 24};
inline constexpr Generation ampere{.arch = "sm_80 sm_86", .fraction_bits = 24};
inline constexpr Generation ada{.arch = "sm_89", .fraction_bits = 24};
inline constexpr Generation hopper{.arch = "sm_90", .fraction_bits = 25, .is_traced = true};
inline constexpr Generation blackwell{.arch = "sm_100", .fraction_bits = 25};
inline constexpr Generation blackwell_rtx{.arch = "sm_120", .fraction_bits = 25};

/// Properties of an instruction with specific operand and accumulator formats, in addition to the properties of its
/// generation.
struct TensorCore {
    std::string_view name{};
    std::string_view instruction = "mma";
    FormatSet operands{};
    Format accumulator = fp32;
    int k = 0;                    ///< products per instruction
    int small_k = 0;              ///< products in the smaller shape of the instruction; 0: only one shape
    int terms = 0;                ///< products per fused step
    int fraction_bits = 0;        ///< 0: the value of the generation
    std::string_view measured{};  ///< GPUs whose captures the row reproduces; empty: none
    int captured_terms = 0;       ///< number of products that are nonzero in the captures; 0: all k products are
    bool is_inferred = false;     ///< nothing is published for these formats; the row uses the model of related formats
};

/// Builds the row of a truncated fused dot-product-add. F is the generation's number of fraction bits. The exponent of
/// a zero addend is -108 - F for an fp32 accumulator and 4 - F for an fp16 accumulator. An exception is tcgen05 with an
/// fp16 accumulator, where it is -133. Traces of an H100 (2026-11-26, tests/traces) confirm the value 4 - F = -21 for
/// wgmma. They also show that a negative sum that underflows gives +0; the other generations are assumed to do the
/// same.
constexpr Machine tensor_core(const Generation& generation, const TensorCore& row) {
    const bool half = row.accumulator == fp16;
    const int fraction_bits = row.fraction_bits != 0 ? row.fraction_bits : generation.fraction_bits;
    SumRule sum{.model = SumModel::truncated, .terms = row.terms, .fraction_bits = fraction_bits};
    sum.delivery = half                  ? Delivery::fp16_nearest_even
                   : fraction_bits == 13 ? Delivery::e8m13_toward_zero
                                         : Delivery::fp32_toward_zero;
    sum.addend = row.accumulator;
    sum.nan = NanRule::canonical_7fffffff;
    sum.underflow_keeps_sign = false;
    const bool is_tcgen05 = row.instruction.substr(0, 7) == "tcgen05";
    sum.zero_exponent = !half ? -108 - generation.fraction_bits : is_tcgen05 ? -133 : 4 - generation.fraction_bits;
    const bool is_measured = !row.measured.empty();
    return {.name = row.name,
            .arch = generation.arch,
            .instruction = row.instruction,
            .operands = row.operands,
            .addend = row.accumulator,
            .result = row.accumulator,
            .k = row.k,
            .small_k = row.small_k,
            .sum = sum,
            .evidence = row.is_inferred                       ? Evidence::inferred
                        : is_measured || generation.is_traced ? Evidence::hardware
                                                              : Evidence::published,
            .measured = generation.is_traced && !is_measured ? "H100, H200" : row.measured,
            .captured_terms = !is_measured && !generation.is_traced ? 0
                              : row.captured_terms != 0             ? row.captured_terms
                                                                    : row.k,
            .source = generation.is_traced ? (is_measured ? captures_and_traces : traces)
                      : is_measured        ? captures
                                           : mma_sim};
}

/// Marks a row as one that reproduces the traces in tests/traces.
constexpr Machine traced(Machine m) {
    m.evidence = Evidence::hardware;
    m.measured = "H100, H200";
    m.captured_terms = m.k;
    m.source = traces;
    return m;
}

/// Builds the row of a Volta instruction whose C and D have different formats.
constexpr Machine volta_mixed(std::string_view name, Format addend, Format result) {
    Machine m = tensor_core(volta, {.name = name, .operands = {fp16}, .accumulator = result, .k = 4, .terms = 4});
    m.addend = m.sum.addend = addend;
    m.sum.zero_exponent = addend == fp16 ? 4 - volta.fraction_bits : -108 - volta.fraction_bits;
    return m;
}

/// Builds the row of an fp8 mma.sync of sm_90 or sm_100. In machine code, this instruction is two fp16 steps and one
/// addition.
constexpr Machine emulated_fp8(const Generation& generation, const TensorCore& row) {
    Machine m = tensor_core(generation, row);
    m.sum.model = SumModel::through_fp16;
    if (!generation.is_traced) m.source = sass;
    return m;
}

/// Builds the row of an fp8, fp6 or fp4 instruction with ue8m0 scales. All products of an instruction share one pair of
/// scales.
constexpr Machine block_scaled(const Generation& generation, Format scale, int block, const TensorCore& row) {
    Machine m = tensor_core(generation, row);
    m.scale = scale;
    m.scale_block = block;
    return m;
}

/// Builds the row of a block-scaled fp4 instruction. It sums each group of 16 products exactly.
constexpr Machine group_scaled(const Generation& generation, Format scale, int block, const TensorCore& row) {
    Machine m = block_scaled(generation, scale, block, row);
    m.sum.model = SumModel::scaled_groups;
    m.sum.zero_exponent = -139;
    return m;
}

// clang-format off
inline constexpr Machine nvidia[] = {
    tensor_core(volta, {.name = "sm70.mma.fp16", .operands = {fp16}, .k = 4, .terms = 4, .measured = "V100"}),
    tensor_core(volta, {.name = "sm70.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 4, .terms = 4,
                        .measured = "V100"}),
    volta_mixed("sm70.mma.fp16.c16", fp16, fp32),
    volta_mixed("sm70.mma.fp16.d16", fp32, fp16),

    tensor_core(turing, {.name = "sm75.mma.fp16", .operands = {fp16}, .k = 8, .terms = 8}),
    tensor_core(turing, {.name = "sm75.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 8, .terms = 8}),

    tensor_core(ampere, {.name = "sm80.mma.fp16", .operands = {fp16}, .k = 16, .small_k = 8, .terms = 8,
                         .measured = "A100, A2", .captured_terms = 8}),
    tensor_core(ampere, {.name = "sm80.mma.bf16", .operands = {bf16}, .k = 16, .small_k = 8, .terms = 8,
                         .measured = "A100, A2", .captured_terms = 8}),
    tensor_core(ampere, {.name = "sm80.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 16, .small_k = 8,
                         .terms = 8, .measured = "A100, A2", .captured_terms = 8}),
    tensor_core(ampere, {.name = "sm80.mma.tf32", .operands = {tf32}, .k = 8, .small_k = 4, .terms = 4,
                         .measured = "A100, A2", .captured_terms = 4}),
    fma_unit(fp64, {.name = "sm80.mma.fp64", .arch = "sm_80 sm_86", .instruction = "mma", .k = 4}),

    tensor_core(ada, {.name = "sm89.mma.fp16", .operands = {fp16}, .k = 16, .small_k = 8, .terms = 8,
                      .measured = "RTX 1000 Ada, L40S", .captured_terms = 8}),
    tensor_core(ada, {.name = "sm89.mma.bf16", .operands = {bf16}, .k = 16, .small_k = 8, .terms = 8,
                      .measured = "RTX 1000 Ada, L40S", .captured_terms = 8}),
    tensor_core(ada, {.name = "sm89.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 16, .small_k = 8,
                      .terms = 8, .measured = "RTX 1000 Ada, L40S", .captured_terms = 8}),
    tensor_core(ada, {.name = "sm89.mma.tf32", .operands = {tf32}, .k = 8, .small_k = 4, .terms = 4,
                      .measured = "RTX 1000 Ada, L40S", .captured_terms = 4}),
    tensor_core(ada, {.name = "sm89.mma.fp8", .operands = fp8, .k = 32, .small_k = 16, .terms = 16, .fraction_bits = 13,
                      .measured = "RTX 1000 Ada, L40S"}),
    tensor_core(ada, {.name = "sm89.mma.fp8.acc16", .operands = fp8, .accumulator = fp16, .k = 32, .small_k = 16,
                      .terms = 16, .fraction_bits = 13, .measured = "RTX 1000 Ada"}),
    fma_unit(fp64, {.name = "sm89.mma.fp64", .arch = "sm_89", .instruction = "mma", .k = 4}),

    tensor_core(hopper, {.name = "sm90.mma.fp16", .operands = {fp16}, .k = 16, .small_k = 8, .terms = 16,
                         .measured = "H100, H200"}),
    tensor_core(hopper, {.name = "sm90.mma.bf16", .operands = {bf16}, .k = 16, .small_k = 8, .terms = 16,
                         .measured = "H100, H200"}),
    tensor_core(hopper, {.name = "sm90.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 16, .small_k = 8,
                         .terms = 16, .measured = "H100, H200"}),
    tensor_core(hopper, {.name = "sm90.mma.tf32", .operands = {tf32}, .k = 8, .small_k = 4, .terms = 8,
                         .measured = "H100, H200", .captured_terms = 4}),
    emulated_fp8(hopper, {.name = "sm90.mma.fp8", .operands = fp8, .k = 32, .small_k = 16, .terms = 16}),
    emulated_fp8(hopper, {.name = "sm90.mma.fp8.acc16", .operands = fp8, .accumulator = fp16, .k = 32, .small_k = 16,
                          .terms = 16, .measured = "H100, H200"}),
    traced(fma_unit(fp64, {.name = "sm90.mma.fp64", .arch = "sm_90", .instruction = "mma", .k = 16, .small_k = 4})),
    tensor_core(hopper, {.name = "sm90.wgmma.fp16", .instruction = "wgmma", .operands = {fp16}, .k = 16, .terms = 16}),
    tensor_core(hopper, {.name = "sm90.wgmma.bf16", .instruction = "wgmma", .operands = {bf16}, .k = 16, .terms = 16}),
    tensor_core(hopper, {.name = "sm90.wgmma.fp16.acc16", .instruction = "wgmma", .operands = {fp16},
                         .accumulator = fp16, .k = 16, .terms = 16}),
    tensor_core(hopper, {.name = "sm90.wgmma.tf32", .instruction = "wgmma", .operands = {tf32}, .k = 8, .terms = 8}),
    tensor_core(hopper, {.name = "sm90.wgmma.fp8", .instruction = "wgmma", .operands = fp8, .k = 32, .terms = 32,
                         .fraction_bits = 13, .measured = "H100, H200 (C = 0)"}),
    tensor_core(hopper, {.name = "sm90.wgmma.fp8.acc16", .instruction = "wgmma", .operands = fp8, .accumulator = fp16,
                         .k = 32, .terms = 32, .fraction_bits = 13}),

    tensor_core(blackwell, {.name = "sm100.mma.fp16", .operands = {fp16}, .k = 16, .small_k = 8, .terms = 16,
                            .measured = "B200"}),
    tensor_core(blackwell, {.name = "sm100.mma.bf16", .operands = {bf16}, .k = 16, .small_k = 8, .terms = 16,
                            .measured = "B200"}),
    tensor_core(blackwell, {.name = "sm100.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 16,
                            .small_k = 8, .terms = 16, .measured = "B200"}),
    tensor_core(blackwell, {.name = "sm100.mma.tf32", .operands = {tf32}, .k = 8, .small_k = 4, .terms = 8,
                            .measured = "B200", .captured_terms = 4}),
    emulated_fp8(blackwell, {.name = "sm100.mma.fp8", .operands = fp8, .k = 32, .small_k = 16, .terms = 16,
                             .measured = "B200"}),
    emulated_fp8(blackwell, {.name = "sm100.mma.fp8.acc16", .operands = fp8, .accumulator = fp16, .k = 32,
                             .small_k = 16, .terms = 16, .measured = "B200"}),
    fma_unit(fp64, {.name = "sm100.mma.fp64", .arch = "sm_100", .instruction = "mma", .k = 16, .small_k = 4}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.fp16", .instruction = "tcgen05.f16", .operands = {fp16}, .k = 16,
                            .terms = 16}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.bf16", .instruction = "tcgen05.f16", .operands = {bf16}, .k = 16,
                            .terms = 16}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.fp16.acc16", .instruction = "tcgen05.f16", .operands = {fp16},
                            .accumulator = fp16, .k = 16, .terms = 16}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.tf32", .instruction = "tcgen05.tf32", .operands = {tf32}, .k = 8,
                            .terms = 8}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.fp8", .instruction = "tcgen05.f8f6f4", .operands = fp8, .k = 32,
                            .terms = 32}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.fp8.acc16", .instruction = "tcgen05.f8f6f4", .operands = fp8,
                            .accumulator = fp16, .k = 32, .terms = 32}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.f8f6f4", .instruction = "tcgen05.f8f6f4", .operands = fp8_fp6_fp4,
                            .k = 32, .terms = 32, .is_inferred = true}),
    tensor_core(blackwell, {.name = "sm100.tcgen05.f8f6f4.acc16", .instruction = "tcgen05.f8f6f4",
                            .operands = fp8_fp6_fp4, .accumulator = fp16, .k = 32, .terms = 32, .is_inferred = true}),
    block_scaled(blackwell, e8m0fnu, 32, {.name = "sm100.tcgen05.mxfp8", .instruction = "tcgen05.mxf8f6f4",
                                          .operands = fp8, .k = 32, .terms = 32}),
    block_scaled(blackwell, e8m0fnu, 32, {.name = "sm100.tcgen05.mxf8f6f4", .instruction = "tcgen05.mxf8f6f4",
                                          .operands = fp8_fp6_fp4, .k = 32, .terms = 32, .is_inferred = true}),
    group_scaled(blackwell, e8m0fnu, 32, {.name = "sm100.tcgen05.mxfp4", .instruction = "tcgen05.mxf4",
                                          .operands = {e2m1fn}, .k = 64, .terms = 64, .fraction_bits = 35}),
    group_scaled(blackwell, e4m3fn, 16, {.name = "sm100.tcgen05.nvfp4", .instruction = "tcgen05.mxf4nvf4",
                                         .operands = {e2m1fn}, .k = 64, .terms = 64, .fraction_bits = 35}),
    group_scaled(blackwell, e8m0fnu, 32, {.name = "sm100.tcgen05.nvfp4.ue8m0", .instruction = "tcgen05.mxf4nvf4",
                                          .operands = {e2m1fn}, .k = 64, .terms = 64, .fraction_bits = 35}),

    tensor_core(blackwell_rtx, {.name = "sm120.mma.fp16", .operands = {fp16}, .k = 16, .small_k = 8, .terms = 16}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.bf16", .operands = {bf16}, .k = 16, .small_k = 8, .terms = 16}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.fp16.acc16", .operands = {fp16}, .accumulator = fp16, .k = 16,
                                .small_k = 8, .terms = 16}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.tf32", .operands = {tf32}, .k = 8, .small_k = 4, .terms = 8}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.fp8", .operands = fp8, .k = 32, .small_k = 16, .terms = 32}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.fp8.acc16", .operands = fp8, .accumulator = fp16, .k = 32,
                                .small_k = 16, .terms = 32}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.f8f6f4", .operands = fp8_fp6_fp4, .k = 32, .terms = 32,
                                .is_inferred = true}),
    tensor_core(blackwell_rtx, {.name = "sm120.mma.f8f6f4.acc16", .operands = fp8_fp6_fp4, .accumulator = fp16, .k = 32,
                                .terms = 32, .is_inferred = true}),
    fma_unit(fp64, {.name = "sm120.mma.fp64", .arch = "sm_120", .instruction = "mma", .k = 16, .small_k = 4}),
    block_scaled(blackwell_rtx, e8m0fnu, 32, {.name = "sm120.mma.mxfp8", .instruction = "mma.block_scale",
                                              .operands = fp8, .k = 32, .terms = 32}),
    block_scaled(blackwell_rtx, e8m0fnu, 32, {.name = "sm120.mma.mxf8f6f4", .instruction = "mma.block_scale",
                                              .operands = fp8_fp6_fp4, .k = 32, .terms = 32, .is_inferred = true}),
    group_scaled(blackwell_rtx, e8m0fnu, 32, {.name = "sm120.mma.mxfp4", .instruction = "mma.block_scale",
                                              .operands = {e2m1fn}, .k = 64, .terms = 64, .fraction_bits = 35}),
    group_scaled(blackwell_rtx, e4m3fn, 16, {.name = "sm120.mma.nvfp4", .instruction = "mma.block_scale",
                                             .operands = {e2m1fn}, .k = 64, .terms = 64, .fraction_bits = 35}),
};
// clang-format on

}  // namespace macheps::machine_row
