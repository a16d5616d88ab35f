// SPDX-License-Identifier: Apache-2.0
// Dot-product units of CPUs. Sources of the parameters: Intel SDM vol. 2, Intel's AVX10.2 and AMX documents, Arm ARM,
// Power ISA 3.1, RISC-V Zvfbfwma. Rows with evidence `hardware` were compared with results of silicon, rows with
// evidence `emulated` with results of QEMU's user mode.
#pragma once
#include "emulation/machine/table_shared.hpp"

namespace macheps::machine_row {

inline constexpr FormatSet fp8_ocp{e4m3fn, e5m2};
inline constexpr std::string_view intel_sdm = "Intel SDM vol. 2";
inline constexpr std::string_view arm_arm = "Arm ARM";
inline constexpr std::string_view qemu = "QEMU 7.2";

/// Completes a row of x86. The unit flushes fp32 subnormals in operands and results. If there are NaN operands, the
/// result is the first of them, made quiet.
constexpr Machine x86_unit(Machine row) {
    row.arch = "x86";
    row.sum.flush_operands = true;
    row.sum.flush_results = ResultFlush::after_rounding;
    row.sum.nan = NanRule::first_operand;
    if (row.source.empty()) row.source = intel_sdm;
    return row;
}

/// Completes the row of an AVX-512 or AVX10.2 instruction that adds one pair of products, the odd product first.
constexpr Machine x86_pairs(Machine row) {
    row.k = row.sum.terms = 2;
    row.sum.order = ProductOrder::odd_first;
    return x86_unit(row);
}

/// Completes the row of an AMX tile instruction, which sums all of its k products in one step.
constexpr Machine amx(int joined_products, Machine row) {
    row.sum.model = SumModel::parted_chain;
    row.sum.terms = row.k;
    row.sum.joined_products = joined_products;
    return x86_unit(row);
}

/// Marks a row as one that reproduces the results of an emulator of the architecture.
constexpr Machine emulated(Machine row) {
    row.evidence = Evidence::emulated;
    row.measured = qemu;
    row.captured_terms = row.k;
    return row;
}

/// Completes the row of an Arm unit with FPCR.EBF = 0. The unit rounds every result to odd, flushes fp32 subnormals and
/// returns the default NaN for every NaN result.
constexpr Machine bfdot_unit(Machine row) {
    row.arch = "arm";
    row.operands = {bf16};
    row.sum = {.model = SumModel::odd_pairs,
               .terms = 2,
               .flush_operands = true,
               .flush_results = ResultFlush::before_rounding,
               .rounding = Round::to_odd,
               .nan = NanRule::default_7fc00000};
    row.source = arm_arm;
    return emulated(row);
}

/// Completes the row of a unit with one IEEE fma in fp32 per product.
constexpr Machine widening_fma(std::string_view arch, std::string_view source, Machine row) {
    row.arch = arch;
    row.source = source;
    return row;
}

/// Completes the row of a unit that rounds the sum of two products once, then adds the addend and rounds again.
constexpr Machine pair_unit(std::string_view arch, std::string_view source, Machine row) {
    row.arch = arch;
    row.source = source;
    row.k = 2;
    row.sum = {.model = SumModel::pair_then_add, .terms = 2};
    return row;
}

// clang-format off
inline constexpr Machine cpu[] = {
    x86_pairs({.name = "x86.vdpbf16ps", .instruction = "vdpbf16ps", .operands = {bf16}, .evidence = Evidence::hardware,
               .measured = "AMD Zen 5, Intel Xeon with AMX", .captured_terms = 2,
               .summary = "AVX512-BF16: the odd product, then the even one"}),
    x86_pairs({.name = "x86.vdpphps", .instruction = "vdpphps", .operands = {fp16}, .evidence = Evidence::inferred,
               .source = "Intel AVX10.2 specification", .summary = "AVX10.2: like vdpbf16ps, with fp16 operands"}),
    {.name = "x86.vfmaddph", .arch = "x86", .instruction = "vfmaddph", .operands = {fp16}, .addend = fp16, .result = fp16,
     .sum = {.delivery = Delivery::fp16_nearest_even, .addend = fp16, .nan = NanRule::first_operand},
     .evidence = Evidence::hardware, .measured = "Intel Xeon with AMX", .captured_terms = 1, .source = intel_sdm,
     .summary = "AVX512-FP16: one fma in fp16; subnormals are kept"},
    amx(1, {.name = "x86.amx.bf16", .instruction = "tdpbf16ps", .operands = {bf16}, .k = 32,
            .evidence = Evidence::hardware, .measured = "Intel Xeon with AMX", .captured_terms = 32,
            .summary = "separate chains of even and odd products over all of K; C is added last"}),
    amx(1, {.name = "x86.amx.fp16", .instruction = "tdpfp16ps", .operands = {fp16}, .k = 32,
            .evidence = Evidence::published, .summary = "like x86.amx.bf16; subnormals of fp16 are kept"}),
    amx(2, {.name = "x86.amx.fp8", .instruction = "tdpbf8ps tdphf8ps tdpbhf8ps tdphbf8ps", .operands = fp8_ocp, .k = 64,
            .evidence = Evidence::inferred, .source = "bochs-emu/Bochs bochs/cpu/avx/amx.cc",
            .summary = "in each group of four products, the first two are added and rounded, then the last two"}),

    bfdot_unit({.name = "arm.bfdot", .instruction = "bfdot bfmopa", .k = 2, .summary = "FPCR.EBF = 0"}),
    bfdot_unit({.name = "arm.bfmmla", .instruction = "bfmmla", .k = 4, .summary = "FPCR.EBF = 0: two chained bfdot"}),
    pair_unit("arm", arm_arm, {.name = "arm.bfdot.ebf", .instruction = "bfdot.ebf", .operands = {bf16},
              .evidence = Evidence::published, .summary = "FPCR.EBF = 1, FPCR.FZ = 0, to nearest even"}),
    emulated(widening_fma("arm", arm_arm, {.name = "arm.bfmlal", .instruction = "bfmlalb bfmlalt", .operands = {bf16},
                          .summary = "one fma in fp32"})),
    emulated(widening_fma("arm", arm_arm, {.name = "arm.fmlal", .instruction = "fmlal fmlal2", .operands = {fp16},
                          .summary = "one fma in fp32; subnormals of fp16 are kept"})),
    emulated(pair_unit("arm", arm_arm, {.name = "arm.sme.fmopa", .instruction = "fmopa", .operands = {fp16},
                       .summary = "one element of an outer product of pairs"})),
    {.name = "arm.fp8dot4", .arch = "arm", .instruction = "fdot", .operands = fp8_ocp, .k = 4,
     .sum = {.model = SumModel::exact_step, .terms = 4}, .evidence = Evidence::published, .source = arm_arm,
     .summary = "FP8DOT4 with FPMR.LSCALE = 0, overflow to infinity"},
    {.name = "arm.fp8dot2", .arch = "arm", .instruction = "fdot", .operands = fp8_ocp, .addend = fp16, .result = fp16, .k = 2,
     .sum = {.model = SumModel::exact_step, .terms = 2, .delivery = Delivery::fp16_nearest_even, .addend = fp16},
     .evidence = Evidence::published, .source = arm_arm, .summary = "FP8DOT2 with FPMR.LSCALE = 0, overflow to infinity"},

    emulated(pair_unit("power10", "Power ISA 3.1", {.name = "power10.xvbf16ger2", .instruction = "xvbf16ger2pp",
                       .operands = {bf16}, .summary = "subnormals are kept everywhere"})),
    emulated(pair_unit("power10", "Power ISA 3.1", {.name = "power10.xvf16ger2", .instruction = "xvf16ger2pp",
                       .operands = {fp16}, .summary = "subnormals are kept everywhere"})),
    widening_fma("riscv", "RISC-V Zvfbfwma", {.name = "riscv.vfwmaccbf16", .instruction = "vfwmaccbf16",
                 .operands = {bf16}, .evidence = Evidence::published, .summary = "one fma in fp32"}),
};
// clang-format on

}  // namespace macheps::machine_row
