// SPDX-License-Identifier: Apache-2.0
// Sparse matrix instructions: mma.sp of sm_80 to sm_90 and wgmma.sp of sm_90a. Each one corresponds to a dense
// instruction with the same types, m and n. Compared with the dense instruction, a row of a has the same number of
// elements and a column of b has twice as many. Metadata selects the half of the elements of b that is multiplied.
// Plain data for host and device. Source: PTX ISA 9.0, "Sparse matrix storage" of mma.sp and wgmma.mma_async.sp.
#pragma once
#include "emulation/evidence/gpu/matrix/forms.hpp"

namespace macheps::evidence {

/// Returns whether a sparse instruction corresponds to `dense`. With fp8 operands, mma.sp has only one shape: its k is
/// twice the larger k of the dense instructions. Its results are f32, because ptxas 13.0 accepts f16 results only for
/// sm_120a.
constexpr bool has_sparse(const InstructionForm& dense) {
    const bool fp8_mma = dense.unit == Unit::mma && bytes_of(dense.a) == 1;
    return dense.is_plain() && dense.n == 8 && dense.a != PtxType::f64 &&
           (!fp8_mma || (dense.k == 32 && dense.d == PtxType::f32));
}

inline constexpr int sparse_forms = [] {
    int count = 0;
    for (int i = 0; i < instruction_forms; ++i) count += has_sparse(instruction_form(i));
    return count;
}();
/// Dense forms that have a corresponding sparse form, as indices of instruction_form_list.
inline constexpr auto sparse_form_list = [] {
    std::array<int, sparse_forms> list{};
    std::size_t count = 0;
    for (int i = 0; i < instruction_forms; ++i) {
        if (has_sparse(instruction_form(i))) list[count++] = i;
    }
    return list;
}();
/// Returns the dense form that corresponds to sparse form number `index`.
constexpr const InstructionForm& dense_form(int index) {
    return instruction_form(sparse_form_list[static_cast<std::size_t>(index)]);
}

/// Returns `mma.sp` or `wgmma.sp`.
inline std::string sparse_instruction(const InstructionForm& dense) { return dense.instruction() + ".sp"; }
/// Returns the qualifier: `m16n8k32.f32.f16.f16.f32`. As in PTX, its k is the k of the sparse instruction.
inline std::string sparse_qualifier(InstructionForm dense) {
    dense.k *= 2;
    return dense.qualifier();
}
inline std::string sparse_name(const InstructionForm& dense) {
    return sparse_instruction(dense) + "." + sparse_qualifier(dense);
}

/// Returns the name of the instruction in the machine code of sm_90a: `HMMA.SP`. mma.sp with fp8 operands is emulated
/// by several instructions: `F2FP HMMA.SP FADD`.
inline std::string sparse_sass(const InstructionForm& dense) {
    std::string text = dense.sass();
    return text.insert(text.find("MMA") + 3, ".SP");
}

/// Returns the number of metadata patterns. A pattern selects two of four products (six ways), or one of two products
/// if elements have four bytes (two ways).
MACHEPS_HD constexpr int sparse_patterns(PtxType a) { return bytes_of(a) == 4 ? 2 : 6; }

/// Returns the metadata word of pattern number (`number` modulo sparse_patterns(a)). All groups of four bits in the
/// word are equal, so it does not matter which thread provides the metadata of which row. The products that this
/// pattern leaves out are those that pattern sparse_patterns(a) - 1 - number selects.
MACHEPS_HD constexpr std::uint32_t sparse_metadata(PtxType a, std::uint64_t number) {
    const auto count = static_cast<std::uint64_t>(sparse_patterns(a));
    // Every four bits hold the 2-bit positions of the two selected elements, the lower position first: (0,1) (0,2)
    // (0,3) (1,2) (1,3) (2,3). In tf32, the positions (0,1) select the first of two elements and (2,3) the second.
    const std::uint32_t bits = count == 2 ? 0xe4u : 0xed9c84u;
    return (bits >> 4 * (number % count) & 15u) * 0x11111111u;
}

/// Returns the index k of the product, selected or not, to which element `i` of a row of a belongs.
MACHEPS_HD constexpr int chosen_product(PtxType a, std::uint32_t metadata, int i) {
    if (bytes_of(a) == 4) return 2 * i + static_cast<int>(metadata >> 4 * (i % 8) >> 1 & 1u);
    return i / 2 * 4 + static_cast<int>(metadata >> (4 * (i / 2 % 8) + 2 * (i % 2)) & 3u);
}

}  // namespace macheps::evidence
