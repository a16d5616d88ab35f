// SPDX-License-Identifier: Apache-2.0
// Sparse matrix instructions: mma.sp of sm_80 to sm_90 and wgmma.sp of sm_90a. Each stands beside a dense instruction
// of the same types, m and n. a holds as many products of a row as the dense one's, b twice as many of a column, and
// metadata says which half of them counts. Plain data for host and device. Source: PTX ISA 9.0, "Sparse matrix storage"
// of mma.sp and wgmma.mma_async.sp.
#pragma once
#include "emulation/evidence/gpu/matrix/forms.hpp"

namespace macheps::evidence {

/// Of fp8, mma.sp has one shape, with twice the greater dense k, and results in f32: ptxas 13.0 takes f16 for sm_120a
/// alone.
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
/// Numbers of the dense forms among instruction_form_list.
inline constexpr auto sparse_form_list = [] {
    std::array<int, sparse_forms> list{};
    std::size_t count = 0;
    for (int i = 0; i < instruction_forms; ++i) {
        if (has_sparse(instruction_form(i))) list[count++] = i;
    }
    return list;
}();
/// The dense form beside sparse form number `index`.
constexpr const InstructionForm& dense_form(int index) {
    return instruction_form(sparse_form_list[static_cast<std::size_t>(index)]);
}

/// `mma.sp`, `wgmma.sp`
inline std::string sparse_instruction(const InstructionForm& dense) { return dense.instruction() + ".sp"; }
/// `m16n8k32.f32.f16.f16.f32`: k counts all products, as PTX does.
inline std::string sparse_qualifier(InstructionForm dense) {
    dense.k *= 2;
    return dense.qualifier();
}
inline std::string sparse_name(const InstructionForm& dense) {
    return sparse_instruction(dense) + "." + sparse_qualifier(dense);
}

/// What the machine code of sm_90a calls it: `HMMA.SP`; fp8 in mma.sp is emulated, `F2FP HMMA.SP FADD`.
inline std::string sparse_sass(const InstructionForm& dense) {
    std::string text = dense.sass();
    return text.insert(text.find("MMA") + 3, ".SP");
}

/// Ways to choose: two of four products, of four bytes one of two.
MACHEPS_HD constexpr int sparse_patterns(PtxType a) { return bytes_of(a) == 4 ? 2 : 6; }

/// The metadata of pattern number `number` modulo sparse_patterns: the same four bits everywhere, so that it does not
/// matter which thread's word serves which row. Pattern sparse_patterns - 1 - number takes the other half.
MACHEPS_HD constexpr std::uint32_t sparse_metadata(PtxType a, std::uint64_t number) {
    const auto count = static_cast<std::uint64_t>(sparse_patterns(a));
    // 2-bit places, lower one first: (0,1) (0,2) (0,3) (1,2) (1,3) (2,3). tf32 counts in halves: (0,1) or (2,3).
    const std::uint32_t bits = count == 2 ? 0xe4u : 0xed9c84u;
    return (bits >> 4 * (number % count) & 15u) * 0x11111111u;
}

/// Which of all products is number `i` of those that a holds.
MACHEPS_HD constexpr int chosen_product(PtxType a, std::uint32_t metadata, int i) {
    if (bytes_of(a) == 4) return 2 * i + static_cast<int>(metadata >> 4 * (i % 8) >> 1 & 1u);
    return i / 2 * 4 + static_cast<int>(metadata >> (4 * (i / 2 % 8) + 2 * (i % 2)) & 3u);
}

}  // namespace macheps::evidence
