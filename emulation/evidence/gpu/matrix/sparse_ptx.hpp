// SPDX-License-Identifier: Apache-2.0
// Each sparse matrix instruction as inline assembly: mma.sp and wgmma.mma_async.sp of PTX ISA 9.0. The template
// arguments are those of the corresponding dense instruction (sparse_forms.hpp), so k is half of the k in the assembly
// text. Device code only.
#pragma once
#include "emulation/evidence/gpu/matrix/ptx.hpp"

namespace macheps::evidence::ptx {

/// Computes d += a b over the products that `metadata` chooses.
template <int m, int k, PtxType a, PtxType b, PtxType d>
struct SparseMma {
    template <class D, class A, class B>
    __device__ static void run(D&, const A&, const B&, unsigned) {
        __trap();
    }
};
/// Same as SparseMma, but a and b are in shared memory, at the places that two descriptors give.
template <int k, PtxType a, PtxType b, PtxType d>
struct SparseWgmma {
    template <class D>
    __device__ static void run(D&, unsigned long long, unsigned long long, unsigned) {
        __trap();
    }
};

// clang-format off
#define MACHEPS_SPARSE_MMA_2_2_2(TEXT) \
    asm volatile(TEXT " {%0, %1}, {%2, %3}, {%4, %5}, {%0, %1}, %6, 0x0;" \
                 : "+r"(d[0]), "+r"(d[1]) \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(metadata))
#define MACHEPS_SPARSE_MMA_2_2_4(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %8, 0x0;" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(metadata))
#define MACHEPS_SPARSE_MMA_4_4_2(TEXT) \
    asm volatile(TEXT " {%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%0, %1}, %10, 0x0;" \
                 : "+r"(d[0]), "+r"(d[1]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata))
#define MACHEPS_SPARSE_MMA_4_4_4(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata))

// K: k of the dense instruction. TWICE: k of the sparse instruction.
#define MACHEPS_SPARSE_MMA(K, TWICE, A, B, D, NA, NB, ND) \
    template <> \
    struct SparseMma<16, K, PtxType::A, PtxType::B, PtxType::D> { \
        static_assert(TWICE == 2 * K); \
        __device__ static void run(unsigned (&d)[ND], const unsigned (&a)[NA], const unsigned (&b)[NB], unsigned metadata) { \
            MACHEPS_SPARSE_MMA_##NA##_##NB##_##ND( \
                "mma.sp::ordered_metadata.sync.aligned.m16n8k" #TWICE ".row.col." #D "." #A "." #B "." #D); \
        } \
    };
#if MACHEPS_PTX_ARCH >= 800
MACHEPS_SPARSE_MMA(16, 32, f16, f16, f32, 4, 4, 4)
MACHEPS_SPARSE_MMA(16, 32, f16, f16, f16, 4, 4, 2)
MACHEPS_SPARSE_MMA(16, 32, bf16, bf16, f32, 4, 4, 4)
MACHEPS_SPARSE_MMA(8, 16, tf32, tf32, f32, 4, 4, 4)
MACHEPS_SPARSE_MMA(8, 16, f16, f16, f32, 2, 2, 4)
MACHEPS_SPARSE_MMA(8, 16, f16, f16, f16, 2, 2, 2)
MACHEPS_SPARSE_MMA(8, 16, bf16, bf16, f32, 2, 2, 4)
MACHEPS_SPARSE_MMA(4, 8, tf32, tf32, f32, 2, 2, 4)
#endif
#if MACHEPS_PTX_ARCH >= 890
MACHEPS_SPARSE_MMA(32, 64, e4m3, e4m3, f32, 4, 4, 4)
MACHEPS_SPARSE_MMA(32, 64, e4m3, e5m2, f32, 4, 4, 4)
MACHEPS_SPARSE_MMA(32, 64, e5m2, e4m3, f32, 4, 4, 4)
MACHEPS_SPARSE_MMA(32, 64, e5m2, e5m2, f32, 4, 4, 4)
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// The end of the assembly text, with the operands that follow the metadata: the sparsity selector, scale-d and the
// signs of a and b. Types of 2 bytes (k = 32) also have two operands for the transposition of a and b.
#define MACHEPS_SPARSE_WGMMA_TAIL_16 ", 0, 1, 1, 1;"
#define MACHEPS_SPARSE_WGMMA_TAIL_32 ", 0, 1, 1, 1, 0, 0;"
#define MACHEPS_SPARSE_WGMMA_TAIL_64 ", 0, 1, 1, 1;"
#define MACHEPS_SPARSE_WGMMA_4(TEXT, TAIL) \
    asm volatile(TEXT " {%0, %1, %2, %3}, %4, %5, %6" TAIL \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(a), "l"(b), "r"(metadata))
#define MACHEPS_SPARSE_WGMMA_2(TEXT, TAIL) \
    asm volatile(TEXT " {%0, %1}, %2, %3, %4" TAIL : "+r"(d[0]), "+r"(d[1]) : "l"(a), "l"(b), "r"(metadata))
#define MACHEPS_SPARSE_WGMMA(K, TWICE, A, B, D, ND) \
    template <> \
    struct SparseWgmma<K, PtxType::A, PtxType::B, PtxType::D> { \
        static_assert(TWICE == 2 * K); \
        __device__ static void run(unsigned (&d)[ND], unsigned long long a, unsigned long long b, unsigned metadata) { \
            MACHEPS_SPARSE_WGMMA_##ND("wgmma.mma_async.sp.sync.aligned.m64n8k" #TWICE "." #D "." #A "." #B, \
                                      MACHEPS_SPARSE_WGMMA_TAIL_##TWICE); \
        } \
    };
MACHEPS_SPARSE_WGMMA(16, 32, f16, f16, f32, 4)
MACHEPS_SPARSE_WGMMA(16, 32, f16, f16, f16, 2)
MACHEPS_SPARSE_WGMMA(16, 32, bf16, bf16, f32, 4)
MACHEPS_SPARSE_WGMMA(8, 16, tf32, tf32, f32, 4)
MACHEPS_SPARSE_WGMMA(32, 64, e4m3, e4m3, f32, 4)
MACHEPS_SPARSE_WGMMA(32, 64, e4m3, e5m2, f32, 4)
MACHEPS_SPARSE_WGMMA(32, 64, e5m2, e4m3, f32, 4)
MACHEPS_SPARSE_WGMMA(32, 64, e5m2, e5m2, f32, 4)
MACHEPS_SPARSE_WGMMA(32, 64, e4m3, e4m3, f16, 2)
MACHEPS_SPARSE_WGMMA(32, 64, e4m3, e5m2, f16, 2)
MACHEPS_SPARSE_WGMMA(32, 64, e5m2, e4m3, f16, 2)
MACHEPS_SPARSE_WGMMA(32, 64, e5m2, e5m2, f16, 2)
#endif
// clang-format on

}  // namespace macheps::evidence::ptx
