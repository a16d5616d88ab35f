// SPDX-License-Identifier: Apache-2.0
// AMD's matrix cores. Parameters: Xie et al. (MMA-Sim, arXiv 2511.10909).
#pragma once
#include "emulation/machine/table_shared.hpp"

namespace macheps::machine_row {

inline constexpr FormatSet fp8_fnuz{e4m3fnuz, e5m2fnuz};

constexpr Machine matrix_core(Machine row) {
    row.instruction = "mfma";
    row.evidence = Evidence::published;
    row.source = mma_sim;
    return row;
}

inline constexpr Machine amd[] = {
    matrix_core({.name = "cdna1.mfma.fp16",
                 .arch = "CDNA1",
                 .operands = {fp16},
                 .k = 16,
                 .sum = {.model = SumModel::exact_step, .terms = 4}}),
    matrix_core({.name = "cdna1.mfma.bf16",
                 .arch = "CDNA1",
                 .operands = {bf16},
                 .k = 8,
                 .sum = {.model = SumModel::exact_step, .terms = 2}}),
    matrix_core({.name = "cdna2.mfma.fp16",
                 .arch = "CDNA2",
                 .operands = {fp16},
                 .k = 16,
                 .sum = {.model = SumModel::flushed_pairs, .terms = 4}}),
    matrix_core({.name = "cdna2.mfma.bf16_1k",
                 .arch = "CDNA2",
                 .operands = {bf16},
                 .k = 16,
                 .sum = {.model = SumModel::flushed_pairs, .terms = 4}}),
    matrix_core({.name = "cdna2.mfma.bf16",
                 .arch = "CDNA2",
                 .operands = {bf16},
                 .k = 8,
                 .sum = {.model = SumModel::flushed_pairs, .terms = 2}}),
    matrix_core({.name = "cdna3.mfma.xf32",
                 .arch = "CDNA3",
                 .operands = {tf32},
                 .k = 8,
                 .sum = {.model = SumModel::floored, .terms = 4, .fraction_bits = 24}}),
    matrix_core({.name = "cdna3.mfma.fp16",
                 .arch = "CDNA3",
                 .operands = {fp16},
                 .k = 16,
                 .sum = {.model = SumModel::floored, .terms = 8, .fraction_bits = 24}}),
    matrix_core({.name = "cdna3.mfma.bf16",
                 .arch = "CDNA3",
                 .operands = {bf16},
                 .k = 16,
                 .sum = {.model = SumModel::floored, .terms = 8, .fraction_bits = 24}}),
    matrix_core({.name = "cdna3.mfma.fp8",
                 .arch = "CDNA3",
                 .operands = fp8_fnuz,
                 .k = 32,
                 .sum = {.model = SumModel::floored_even_odd, .terms = 16, .fraction_bits = 24}}),
    fma_unit(fp32, {.name = "cdna.mfma.fp32", .arch = "CDNA1 CDNA2 CDNA3", .instruction = "mfma", .k = 4}),
    fma_unit(fp64, {.name = "cdna.mfma.fp64", .arch = "CDNA2 CDNA3", .instruction = "mfma", .k = 4}),
};

}  // namespace macheps::machine_row
