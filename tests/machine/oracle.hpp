// SPDX-License-Identifier: Apache-2.0
// Independent implementation of GPU matrix units. It is slow and exact, was written only from the published models, and
// uses no code of macheps. One call computes one element of one instruction, d = a . b + c. All operands and results
// are codes. Sources: arXiv:2511.10909 (MMA-Sim), arXiv:2512.07004 and arXiv:2510.15884 (Khattak and Mikaitis), PTX ISA
// 9.2, AMD CDNA ISA guides.
#pragma once
#include "tests/machine/exact.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::machine_oracle {

/// How an instruction adds products and addend.
enum class Model {
    fused,          ///< NVIDIA: one integer sum of terms cut at a common unit; at most one pair of block scales
    grouped,        ///< NVIDIA fp4 with block scales: exact sums of 16 products, then `fused` for 4 such sums and C
    emulated_fp8,   ///< NVIDIA fp8 mma.sync that consists of two fp16 steps and an addition
    exact,          ///< CDNA1: exact sum, rounded once
    pairwise,       ///< CDNA2: fp32 products and additions, subnormals flushed
    truncated,      ///< CDNA3, 16-bit types and xf32: products cut at a common unit, sums floored
    truncated_fp8,  ///< CDNA3, fp8: like `truncated`, with separate sums of even and odd products
    fma_chain,      ///< f32 (AMD) and f64: one fused multiply-add after the other
    integer         ///< s32: exact sum that wraps or saturates
};

/// Parameters of one instruction. A test may change any of them before it calls `evaluate`.
struct Instruction {
    std::string arch, instr, qual;
    Model model = Model::fused;
    Type a{}, b{}, c{}, d{}, scale{};
    int products = 0;       ///< K, the number of products of the instruction
    int step = 0;           ///< L, the number of products of one fused step
    int fraction_bits = 0;  ///< F: terms are cut at 2^(largest exponent - F)
    int zero_exponent = 0;  ///< the exponent with which a zero term counts
    Rounding rounding = Rounding::nearest_even;
    int precision = 0;          ///< significand bits of the result: 14 for E8M13
    int scales = 0;             ///< number of pairs of block scales, or 0
    bool canonical_nan = true;  ///< a NaN result has one fixed code; if false, any NaN is right
    bool saturates = false;     ///< integers only
};

/// Returns the instruction with the given architecture (`sm_70` to `sm_121`, `CDNA1` to `CDNA3`), name (`mma`,
/// `mma.block_scale`, `wgmma`, `tcgen05.*`, `mfma`) and qualifier. The qualifier is
/// - `shape.d.a.b.c` for mma,
/// - `shape.d.a.b` for wgmma and tcgen05,
/// - `shape.blockN.d.a.b[.c].scale` for instructions with block scales,
/// - the end of the mnemonic for mfma, for example `f32_32x32x8f16`.
/// Throws std::invalid_argument if the architecture does not have the instruction.
[[nodiscard]] Instruction find_instruction(std::string_view arch, std::string_view instr, std::string_view qual);

/// Returns all forms of all instructions in the published table.
[[nodiscard]] std::vector<Instruction> all_instructions();

/// Wrong models that are close enough to the right model to pass a careless test. `none` is the right model.
enum class Mutation {
    none,
    floor_terms,           ///< bits below the unit floored, not cut towards zero
    product_renormalised,  ///< a product's exponent is that of its leading bit
    fewer_fraction_bits,   ///< F - 1
    more_fraction_bits,    ///< F + 1
    split_groups,          ///< two steps of L/2 products instead of one of L
    joined_groups,         ///< one step of 2 L products instead of two of L
    full_output,           ///< fp32 results keep 24 bits, not 14
    nearest_output,        ///< results rounded to nearest even instead of towards zero
    toward_zero_output,    ///< results rounded towards zero instead of to nearest even
    c_last,                ///< dot product rounded, then C added, then rounded
    pairwise_fp32,         ///< fp32 products and a tree of fp32 additions
    sticky_bit,            ///< a term that loses bits keeps a one below the unit
    e_zero_lower,          ///< zero_exponent - 1
    e_zero_higher,         ///< zero_exponent + 1
    zero_reads_emin,       ///< a zero operand counts with the smallest exponent of its type
    zero_reads_m126,       ///< a zero operand counts with exponent -126 (`zero_m126` in the vectors)
    zero_scale_counts,     ///< a group with a scale of zero counts with the exponents of its scales
    underflow_minus_zero,  ///< a negative sum that underflows gives -0
    descending_steps,      ///< steps in descending order of k
    native_fp8,            ///< mma.sync uses the fp8 unit of wgmma or tcgen05 instead of emulating fp8
    contiguous_halves,     ///< emulated fp8: one fp16 step for the lower half of k, one for the upper half
    halves_swapped,        ///< emulated fp8: k mod 4 in {2, 3} first
    sum_truncated,         ///< CDNA3: the joined sum and C cut towards zero, not floored
    no_31_bit_floor,       ///< CDNA3: the normalised sum is rounded without the floor to 31 fraction bits
    parities_joined,       ///< CDNA3 fp8: even and odd products in one sum
    c_never_dropped,       ///< CDNA3 fp8: a tiny C still counts
    products_stay_finite,  ///< CDNA3: a product of 2^128 or more is not infinite
    no_flush,              ///< CDNA2: subnormals kept
    products_fused,        ///< CDNA2: products not rounded before the first additions
    c_first,               ///< CDNA2: C + p0, then the other products one by one
    products_rounded,      ///< FMA chains: multiply, round, add, round
    count
};
[[nodiscard]] std::string_view name_of(Mutation mutation);

/// Returns the code of d. a and b have K codes each. sa and sb have Instruction::scales codes each, one for each block;
/// the blocks divide K into equal parts. Codes are right-aligned. If NaN results are not canonical, a NaN result is the
/// quiet NaN without payload.
[[nodiscard]] std::uint64_t evaluate(const Instruction& instruction, std::span<const std::uint64_t> a,
                                     std::span<const std::uint64_t> b, std::uint64_t c,
                                     std::span<const std::uint64_t> sa = {}, std::span<const std::uint64_t> sb = {},
                                     Mutation mutation = Mutation::none);

/// Returns whether two results of this instruction are the same. NaN payloads count only if NaN is canonical.
[[nodiscard]] bool same_result(const Instruction& instruction, std::uint64_t x, std::uint64_t y);

/// Whether a mutation is meaningful for an instruction and, if so, whether any input can show it.
struct Verdict {
    enum Kind { visible, invisible, meaningless } kind = meaningless;
    std::string_view reason;
};
[[nodiscard]] Verdict judge(const Instruction& instruction, Mutation mutation);

}  // namespace macheps::machine_oracle
