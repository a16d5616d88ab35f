// SPDX-License-Identifier: Apache-2.0
// mma.sync, an instruction of one warp with its operands in the warp's registers. On a GPU, the functions below run the
// instruction itself. On the host, they emulate it and find the operands in the registers that the PTX ISA specifies.
// Layouts: PTX ISA 8.7, 9.7.14.5 (fragments of m16n8k16 for 16-bit types and of m16n8k8 for tf32, ldmatrix).
// Both shapes read eight 4-byte words along k. They have the same layout if positions along k are counted in words.
#pragma once
#include "emulation/gpu/device/copies.hpp"
#include "emulation/machine/step.hpp"

namespace macheps::gpu {

/// Formats of an mma.sync. A name gives the format of the operands. The accumulator is fp32, or fp16 if the name ends
/// with acc16.
enum class MmaType : std::uint8_t { fp16, bf16, tf32, fp16_acc16 };

struct FragmentPlace {
    int row, column;
};
/// Returns the row and the word along k that a lane holds in register `r` (0 .. 3) of A, which has 16 rows.
MACHEPS_HD constexpr FragmentPlace mma_a_place(int lane, int r) { return {lane / 4 + r % 2 * 8, lane % 4 + r / 2 * 4}; }
/// Returns the word along k and the column that a lane holds in register `r` (0, 1) of B, which has 8 columns.
MACHEPS_HD constexpr FragmentPlace mma_b_place(int lane, int r) { return {lane % 4 + r * 4, lane / 4}; }
/// Returns the row and the column of a lane's element `i` (0 .. 3) of C and D, which are 16 x 8. If the accumulator is
/// fp16, register r holds elements 2 r and 2 r + 1.
MACHEPS_HD constexpr FragmentPlace mma_c_place(int lane, int i) { return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2}; }

/// Returns the number of codes in a 4-byte word.
constexpr int terms_per_word(int code_bytes) { return 4 / code_bytes; }

/// Loads four 8 x 8 matrices of 16-bit elements (8 rows of 16 bytes each) by ldmatrix.x4. Register q of a lane becomes
/// word lane % 4 of row lane / 4 of matrix q. row(q, r) points to row r of matrix q.
template <class Row>
MACHEPS_KERNEL void load_matrices(std::uint32_t (&registers)[4], int lane, const Row& row) {
#if defined(__CUDA_ARCH__)
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row(lane / 8, lane % 8)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
#else
    for (int q = 0; q < 4; ++q) {
        std::memcpy(&registers[q], static_cast<const std::byte*>(row(q, lane / 4)) + lane % 4 * 4, 4);
    }
#endif
}

// --- the instruction

/// A lane's operands of `down` x `across` instructions that share rows of A and columns of B.
template <int down, int across>
struct MmaOperands {
    std::uint32_t a[down][4];
    std::uint32_t b[across][2];
};
template <int down, int across, int registers>
struct MmaSums {
    std::uint32_t c[down][across][registers];
};

/// Parameters that the host needs to emulate the instruction.
struct UnitModel {
    SumRule rule{};
    int k = 0;
    Format a{}, b{};
    int code_bytes = 2;
};

#if defined(__CUDA_ARCH__)
template <MmaType type>
__device__ inline void mma_instruction(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                       std::uint32_t (&c)[type == MmaType::fp16_acc16 ? 2 : 4]) {
    if constexpr (type == MmaType::fp16_acc16) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};\n"
            : "+r"(c[0]), "+r"(c[1])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        float d[4];
        for (int i = 0; i < 4; ++i) d[i] = __uint_as_float(c[i]);
#define MACHEPS_MMA(shape_and_types)                                            \
    asm volatile("mma.sync.aligned." shape_and_types                            \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, " \
                 "%2, %3};\n"                                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
        if constexpr (type == MmaType::fp16) MACHEPS_MMA("m16n8k16.row.col.f32.f16.f16");
        if constexpr (type == MmaType::bf16) MACHEPS_MMA("m16n8k16.row.col.f32.bf16.bf16");
        if constexpr (type == MmaType::tf32) MACHEPS_MMA("m16n8k8.row.col.f32.tf32.tf32");
#undef MACHEPS_MMA
        for (int i = 0; i < 4; ++i) c[i] = __float_as_uint(d[i]);
    }
}
#endif

#if !defined(__CUDACC__)
namespace detail {

/// Returns code number `term` of a word that consists of codes of `bytes` bytes.
inline std::uint64_t code_in(std::uint32_t word, int term, int bytes) {
    return bytes == 4 ? word : word >> (8 * bytes * term) & ((1u << (8 * bytes)) - 1);
}
/// Returns accumulator element `i`, which is a 16-bit half of a register or a whole register.
inline std::uint64_t sum_of(const std::uint32_t* c, int i, bool half) {
    return half ? c[i / 2] >> (i % 2 * 16) & 0xffffu : c[i];
}
inline void set_sum(std::uint32_t* c, int i, bool half, std::uint64_t bits) {
    if (!half) {
        c[i] = static_cast<std::uint32_t>(bits);
    } else {
        c[i / 2] = (c[i / 2] & (0xffffu << ((1 - i % 2) * 16))) | static_cast<std::uint32_t>(bits << (i % 2 * 16));
    }
}

}  // namespace detail
#endif

/// Computes c += a b in every warp of the block, with `down` x `across` instructions. Each lane holds its part of the
/// operands and sums of all these instructions.
template <MmaType type, int down, int across, int registers>
MACHEPS_KERNEL void multiply_add(const Block& block, const UnitModel& model,
                                 const PerThread<MmaOperands<down, across>>& operands,
                                 PerThread<MmaSums<down, across, registers>>& sums) {
    static_assert(registers == (type == MmaType::fp16_acc16 ? 2 : 4));
#if defined(__CUDA_ARCH__)
    MACHEPS_UNROLL
    for (int i = 0; i < down; ++i) {
        MACHEPS_UNROLL
        for (int j = 0; j < across; ++j) mma_instruction<type>(operands[0].a[i], operands[0].b[j], sums[0].c[i][j]);
    }
#elif !defined(__CUDACC__)
    constexpr bool half = type == MmaType::fp16_acc16;
    const int per_word = terms_per_word(model.code_bytes);
    for (int warp = 0; warp < block.threads() / warp_lanes; ++warp) {
        const int first = warp * warp_lanes;
        for (int i = 0; i < down; ++i) {
            Factor a[16][32];
            for (int lane = 0; lane < warp_lanes; ++lane) {
                for (int r = 0; r < 4; ++r) {
                    const auto [row, word] = mma_a_place(lane, r);
                    for (int t = 0; t < per_word; ++t) {
                        a[row][word * per_word + t] = factor_of_code(
                            model.a, detail::code_in(operands[first + lane].a[i][r], t, model.code_bytes));
                    }
                }
            }
            for (int j = 0; j < across; ++j) {
                Factor b[8][32];
                for (int lane = 0; lane < warp_lanes; ++lane) {
                    for (int r = 0; r < 2; ++r) {
                        const auto [word, column] = mma_b_place(lane, r);
                        for (int t = 0; t < per_word; ++t) {
                            b[column][word * per_word + t] = factor_of_code(
                                model.b, detail::code_in(operands[first + lane].b[j][r], t, model.code_bytes));
                        }
                    }
                }
                for (int lane = 0; lane < warp_lanes; ++lane) {
                    for (int e = 0; e < 4; ++e) {
                        const auto [row, column] = mma_c_place(lane, e);
                        std::uint32_t* const c = sums[first + lane].c[i][j];
                        detail::set_sum(
                            c, e, half,
                            matrix_instruction(model.rule, model.k, a[row], b[column], detail::sum_of(c, e, half)));
                    }
                }
            }
        }
    }
#endif
}

/// Returns element `i` of an accumulator fragment as a number.
template <int registers>
MACHEPS_HD float sum_value(const std::uint32_t (&c)[registers], int i) {
    if constexpr (registers == 4) {
        return bit_cast<float>(c[i]);
    } else {
        constexpr Format half = fp16;  // a copy: device code may not take the address of fp16 itself
        return decode(half, c[i / 2] >> (i % 2 * 16) & 0xffffu);
    }
}

}  // namespace macheps::gpu
