// SPDX-License-Identifier: Apache-2.0
// wgmma, an instruction of one warpgroup (four warps). Both operands are in shared memory and addressed by descriptors;
// the sums are in registers. On sm_90a, the functions below run the instruction itself. On the host, they emulate it:
// they read shared memory through the descriptors and write the sums to the registers that the PTX ISA specifies.
// Source: PTX ISA 8.7, 9.7.15.5 (register fragments, matrix descriptor, strides of K-major operands without swizzle),
// 9.7.15.3 (the asynchronous proxy).
#pragma once
#include "emulation/gpu/matmul/mma.hpp"

// wgmma exists only in code that is compiled for sm_90a.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MACHEPS_HAS_WGMMA 1
#endif

namespace macheps::gpu {

/// Formats of a wgmma. A name gives the format of both operands, or, for 8-bit operands, the formats of a and b. The
/// accumulator is fp32, or fp16 if the name ends with acc16.
enum class WgmmaType : std::uint8_t { fp16, bf16, tf32, fp16_acc16, e4m3_e4m3, e4m3_e5m2, e5m2_e4m3, e5m2_e5m2 };

/// Each thread of a warpgroup holds N / 2 sums of an instruction m64nN. Returns the row and the column of the thread's
/// sum `i` (0 .. N / 2 - 1). If the sums are fp16, register r holds sums 2 r and 2 r + 1.
MACHEPS_HD constexpr FragmentPlace wgmma_sum_place(int thread, int i) {
    const FragmentPlace part = mma_c_place(thread % 32, i % 4);
    return {thread / 32 * 16 + part.row, i / 4 * 8 + part.column};
}

/// K-major operand in shared memory, without swizzle. It consists of core matrices of 8 rows x 16 bytes (128 bytes
/// each). `k_stride` is the number of bytes to the next core matrix along k, and `row_stride` the number of bytes to
/// the core matrix of the next 8 rows.
struct SharedOperand {
    std::uint32_t address = 0;  ///< address in shared memory, a multiple of 16
    std::uint32_t k_stride = 0, row_stride = 0;

    MACHEPS_HD constexpr std::uint64_t descriptor() const {
        const auto field = [](std::uint32_t bytes) { return static_cast<std::uint64_t>((bytes & 0x3ffffu) >> 4); };
        return field(address) | field(k_stride) << 16 | field(row_stride) << 32;
    }
    /// Returns the address at which the instruction finds byte `k` of row `row`.
    static constexpr std::uint32_t place(std::uint64_t descriptor, int row, int k) {
        const auto field = [&](int shift) { return static_cast<std::uint32_t>(descriptor >> shift & 0x3fffu) << 4; };
        return field(0) + static_cast<std::uint32_t>(k / 16) * field(16) +
               static_cast<std::uint32_t>(row / 8) * field(32) + static_cast<std::uint32_t>(row % 8 * 16 + k % 16);
    }
};

/// Converts a pointer to shared memory to the 32-bit address that instructions expect.
MACHEPS_KERNEL inline std::uint32_t shared_address(const Block& block, const void* pointer) {
#if defined(__CUDA_ARCH__)
    (void)block;
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
#else
    return static_cast<std::uint32_t>(static_cast<const std::byte*>(pointer) - block.shared());
#endif
}

/// Makes the data that this thread has written to shared memory visible to the matrix unit, from the end of the next
/// each() on.
MACHEPS_KERNEL inline void show_to_matrix_unit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}
/// Makes earlier writes to the registers of the sums visible to the wgmma instructions that follow (wgmma.fence).
MACHEPS_KERNEL inline void begin_wgmma() {
#if defined(MACHEPS_HAS_WGMMA)
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}
MACHEPS_KERNEL inline void end_wgmma_group() {
#if defined(MACHEPS_HAS_WGMMA)
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}
/// Waits until all groups of wgmma instructions except the last `left` are done. The sums of the finished groups may
/// then be read, and their operands may be overwritten.
template <int left>
MACHEPS_KERNEL void wait_wgmma() {
#if defined(MACHEPS_HAS_WGMMA)
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(left) : "memory");
#endif
}

/// Sums of one thread: fp32 numbers, or pairs of fp16 codes.
template <WgmmaType type, int n>
struct WgmmaSums {
    static constexpr bool half = type == WgmmaType::fp16_acc16;
    float d[n / 2];
};
template <int n>
struct WgmmaSums<WgmmaType::fp16_acc16, n> {
    static constexpr bool half = true;
    std::uint32_t d[n / 4];
};

template <WgmmaType type, int n>
MACHEPS_HD float wgmma_sum(const WgmmaSums<type, n>& sums, int i) {
    if constexpr (WgmmaSums<type, n>::half) {
        constexpr Format half = fp16;  // a copy: device code may not take the address of fp16 itself
        return decode(half, sums.d[i / 2] >> (i % 2 * 16) & 0xffffu);
    } else {
        return sums.d[i];
    }
}

#if defined(MACHEPS_HAS_WGMMA)
#define MACHEPS_SUMS_8(c, i) \
    c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define MACHEPS_SUMS_16(c, i) MACHEPS_SUMS_8(c, i), MACHEPS_SUMS_8(c, i + 8)
#define MACHEPS_SUMS_32(c, i) MACHEPS_SUMS_16(c, i), MACHEPS_SUMS_16(c, i + 16)
#define MACHEPS_SUMS_64(c, i) MACHEPS_SUMS_32(c, i), MACHEPS_SUMS_32(c, i + 32)
#define MACHEPS_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MACHEPS_NAMES_32                                                                         \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MACHEPS_NAMES_64                                                                         \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, " \
    "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
    "%56, %57, %58, %59, %60, %61, %62, %63"
#define MACHEPS_WGMMA(form, names, sums, a, b, tail)                                                             \
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.mma_async.sync.aligned." form " {" names "}, " a \
                 ", " b ", p, 1, 1" tail ";\n}\n"                                                                \
                 : sums                                                                                          \
                 : "l"(a_descriptor), "l"(b_descriptor))
#define MACHEPS_WGMMA_F32(types, k, tail)                                                                         \
    if constexpr (n == 64) {                                                                                      \
        MACHEPS_WGMMA("m64n64" k ".f32." types, MACHEPS_NAMES_32, MACHEPS_SUMS_32("+f", 0), "%32", "%33", tail);  \
    } else {                                                                                                      \
        MACHEPS_WGMMA("m64n128" k ".f32." types, MACHEPS_NAMES_64, MACHEPS_SUMS_64("+f", 0), "%64", "%65", tail); \
    }

/// Computes d += a b for 64 x n sums.
template <WgmmaType type, int n>
__device__ inline void wgmma_instruction(std::uint64_t a_descriptor, std::uint64_t b_descriptor,
                                         WgmmaSums<type, n>& sums) {
    static_assert(n == 64 || n == 128);
    auto& d = sums.d;
    if constexpr (type == WgmmaType::fp16) {
        MACHEPS_WGMMA_F32("f16.f16", "k16", ", 0, 0")
    } else if constexpr (type == WgmmaType::bf16) {
        MACHEPS_WGMMA_F32("bf16.bf16", "k16", ", 0, 0")
    } else if constexpr (type == WgmmaType::tf32) {
        MACHEPS_WGMMA_F32("tf32.tf32", "k8", "")
    } else if constexpr (type == WgmmaType::e4m3_e4m3) {
        MACHEPS_WGMMA_F32("e4m3.e4m3", "k32", "")
    } else if constexpr (type == WgmmaType::e4m3_e5m2) {
        MACHEPS_WGMMA_F32("e4m3.e5m2", "k32", "")
    } else if constexpr (type == WgmmaType::e5m2_e4m3) {
        MACHEPS_WGMMA_F32("e5m2.e4m3", "k32", "")
    } else if constexpr (type == WgmmaType::e5m2_e5m2) {
        MACHEPS_WGMMA_F32("e5m2.e5m2", "k32", "")
    } else if constexpr (n == 64) {
        MACHEPS_WGMMA("m64n64k16.f16.f16.f16", MACHEPS_NAMES_16, MACHEPS_SUMS_16("+r", 0), "%16", "%17", ", 0, 0");
    } else {
        MACHEPS_WGMMA("m64n128k16.f16.f16.f16", MACHEPS_NAMES_32, MACHEPS_SUMS_32("+r", 0), "%32", "%33", ", 0, 0");
    }
}
#undef MACHEPS_SUMS_8
#undef MACHEPS_SUMS_16
#undef MACHEPS_SUMS_32
#undef MACHEPS_SUMS_64
#undef MACHEPS_NAMES_16
#undef MACHEPS_NAMES_32
#undef MACHEPS_NAMES_64
#undef MACHEPS_WGMMA
#undef MACHEPS_WGMMA_F32
#endif

/// Computes sums(thread) += a b in every warpgroup of the block. a(w) and b(w) are the operands of warpgroup w. a(w)
/// has 64 rows and b(w) has n rows, of 32 bytes each. sums(thread) is a WgmmaSums<type, n>&.
template <WgmmaType type, int n, class A, class B, class Sums>
MACHEPS_KERNEL void multiply_add(const Block& block, const UnitModel& model, const A& a, const B& b, const Sums& sums) {
#if defined(MACHEPS_HAS_WGMMA)
    (void)model;
    // The shuffle shows the compiler that all lanes of a warp have the same value, so it can keep descriptors in
    // uniform registers.
    const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
    wgmma_instruction<type, n>(a(warpgroup).descriptor(), b(warpgroup).descriptor(), sums(0));
    (void)block;
#elif defined(__CUDA_ARCH__)
    (void)block, (void)model, (void)a, (void)b, (void)sums;
    __trap();  // this code is for a GPU without wgmma and must not run
#elif !defined(__CUDACC__)
    constexpr bool half = WgmmaSums<type, n>::half;
    const auto read = [&](const SharedOperand& operand, int row, const Format& format, Factor* factors) {
        const std::uint64_t descriptor = operand.descriptor();
        for (int t = 0; t < 32 / model.code_bytes; ++t) {
            std::uint32_t code = 0;
            for (int byte = 0; byte < model.code_bytes; ++byte) {
                const std::uint32_t at = SharedOperand::place(descriptor, row, t * model.code_bytes + byte);
                code |= static_cast<std::uint32_t>(block.shared()[at]) << (8 * byte);
            }
            factors[t] = factor_of_code(format, code);
        }
    };
    for (int warpgroup = 0; warpgroup < block.threads() / 128; ++warpgroup) {
        std::vector<std::array<Factor, 32> > rows(64), columns(n);
        for (int row = 0; row < 64; ++row) read(a(warpgroup), row, model.a, rows[static_cast<std::size_t>(row)].data());
        for (int column = 0; column < n; ++column) {
            read(b(warpgroup), column, model.b, columns[static_cast<std::size_t>(column)].data());
        }
        for (int thread = 0; thread < 128; ++thread) {
            auto& d = sums(warpgroup * 128 + thread).d;
            for (int i = 0; i < n / 2; ++i) {
                const FragmentPlace at = wgmma_sum_place(thread, i);
                const Factor* const x = rows[static_cast<std::size_t>(at.row)].data();
                const Factor* const y = columns[static_cast<std::size_t>(at.column)].data();
                const auto sum = [&](std::uint64_t c) { return matrix_instruction(model.rule, model.k, x, y, c); };
                if constexpr (half) {
                    detail::set_sum(d, i, true, sum(detail::sum_of(d, i, true)));
                } else {
                    d[i] = bit_cast<float>(static_cast<std::uint32_t>(sum(bit_cast<std::uint32_t>(d[i]))));
                }
            }
        }
    }
#endif
}

}  // namespace macheps::gpu
