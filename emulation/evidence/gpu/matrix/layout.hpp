// SPDX-License-Identifier: Apache-2.0
// Layouts of the operands of matrix instructions:
// - registers: (thread, register) -> (row, column)
// - shared memory of wgmma: (row, k) -> offset, and the matrix descriptor
// Source: the figures of each shape in PTX ISA 9.0. A register holds one word: 32 bits, or one fp64 number. The layouts
// of a and b count in words instead of elements, and are therefore the same for all types.
#pragma once
#include "emulation/evidence/gpu/matrix/forms.hpp"

namespace macheps::evidence {

/// Place of a word of an operand: its row of a (or column of b), and its index among the words along k.
struct WordPlace {
    int row, word;
};

/// Returns the place of a thread's register `r` in operand a. `thread` is the number of the thread in its warp (mma) or
/// its warpgroup (wgmma with a in registers). Within the 16 rows of a warp, registers alternate between rows g and g +
/// 8, where g = lane / 4. Shapes with m = 8 have only row g.
MACHEPS_HD constexpr WordPlace a_place(int m, int thread, int r) {
    const int lane = thread % 32, group = lane / 4, word = lane % 4;
    if (m == 8) return {group, word + 4 * r};
    return {thread / 32 * 16 + group + 8 * (r % 2), word + 4 * (r / 2)};
}

MACHEPS_HD constexpr WordPlace b_place(int lane, int r) { return {lane / 4, lane % 4 + 4 * r}; }

/// Place of an element of c and d.
struct OutputPlace {
    int row, column;
};

/// Returns the place of accumulator `i` of a thread. With fp16 results, register r holds accumulators 2 r and 2 r + 1.
MACHEPS_HD constexpr OutputPlace output_place(int thread, int i) {
    const int lane = thread % 32, pair = i / 2;
    return {thread / 32 * 16 + lane / 4 + 8 * (pair % 2), 8 * (pair / 2) + lane % 4 * 2 + i % 2};
}

// Shared memory of wgmma without swizzling consists of core matrices of 128 bytes: 8 lines of 16 bytes. If the operand
// is K-major, a line holds 16 bytes of one row of a (or column of b). If it is MN-major, a line holds 8 elements of 2
// bytes that are consecutive along m or n, and the lines are consecutive along k. Core matrices are ordered along m or
// n first, then along k.
inline constexpr int core_bytes = 128, line_bytes = 16;

/// Returns the number of bytes from one core matrix to the next along k, for an operand of `rows` rows.
MACHEPS_HD constexpr int k_stride(int rows) { return rows / 8 * core_bytes; }

/// Returns the offset of element (row, k) in bytes. The operand has `rows` rows, which is m for a and n for b.
MACHEPS_HD constexpr int shared_offset(int rows, int row, int k, int element_bytes, bool transposed) {
    if (transposed) return k / 8 * k_stride(rows) + row / 8 * core_bytes + k % 8 * line_bytes + row % 8 * element_bytes;
    const int byte = k * element_bytes;
    return byte / line_bytes * k_stride(rows) + row / 8 * core_bytes + row % 8 * line_bytes + byte % line_bytes;
}

/// Returns the matrix descriptor without swizzling. It contains the start address, the "leading" offset (along k) and
/// the "stride" offset (along m or n), all in units of 16 bytes.
MACHEPS_HD constexpr std::uint64_t shared_descriptor(std::uint32_t address, int rows) {
    return static_cast<std::uint64_t>(address >> 4 & 0x3fffu) |
           static_cast<std::uint64_t>(k_stride(rows) >> 4 & 0x3fff) << 16 |
           static_cast<std::uint64_t>(core_bytes >> 4 & 0x3fff) << 32;
}

}  // namespace macheps::evidence
