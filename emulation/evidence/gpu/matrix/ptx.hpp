// SPDX-License-Identifier: Apache-2.0
// Each matrix instruction as inline assembly: mma.sync and wgmma.mma_async of PTX ISA 9.0. Registers hold one word each
// (layout.hpp). Device code only. If an architecture does not have an instruction, the primary template stops the
// kernel. The host checks this before it launches a kernel.
#pragma once
#include "emulation/evidence/gpu/matrix/forms.hpp"

#if !defined(__CUDA_ARCH__)
#define MACHEPS_PTX_ARCH 0
#else
#define MACHEPS_PTX_ARCH __CUDA_ARCH__
#endif

namespace macheps::evidence::ptx {

template <PtxType type>
struct WordOf {
    using Word = unsigned;
};
template <>
struct WordOf<PtxType::f64> {
    using Word = unsigned long long;
};

/// Computes d += a b.
template <int m, int k, PtxType a, PtxType b, PtxType d>
struct Mma {
    template <class D, class A, class B>
    __device__ static void run(D&, const A&, const B&) {
        __trap();
    }
};

/// Computes d = a b + d, or d = a b if `scale_d` is 0. Operands a and b are in shared memory. Each is located by a
/// matrix descriptor.
template <int n, int k, PtxType a, PtxType b, PtxType d>
struct Wgmma {
    template <int scale_a, int scale_b, int transpose_a, int transpose_b, class D>
    __device__ static void run(D&, unsigned long long, unsigned long long, int) {
        __trap();
    }
};
/// Same as Wgmma, but with a in registers.
template <int n, int k, PtxType a, PtxType b, PtxType d>
struct WgmmaRegisters {
    template <int scale_a, int scale_b, int transpose_b, class D>
    __device__ static void run(D&, const unsigned (&)[4], unsigned long long, int) {
        __trap();
    }
};

// clang-format off
#define MACHEPS_MMA_2_1_2_r(TEXT) \
    asm volatile(TEXT " {%0, %1}, {%2, %3}, {%4}, {%0, %1};" \
                 : "+r"(d[0]), "+r"(d[1]) \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define MACHEPS_MMA_2_1_4_r(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define MACHEPS_MMA_4_2_2_r(TEXT) \
    asm volatile(TEXT " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};" \
                 : "+r"(d[0]), "+r"(d[1]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MACHEPS_MMA_4_2_4_r(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MACHEPS_MMA_1_1_2_l(TEXT) \
    asm volatile(TEXT " {%0, %1}, {%2}, {%3}, {%0, %1};" \
                 : "+l"(d[0]), "+l"(d[1]) \
                 : "l"(a[0]), "l"(b[0]))
#define MACHEPS_MMA_2_1_4_l(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+l"(d[0]), "+l"(d[1]), "+l"(d[2]), "+l"(d[3]) \
                 : "l"(a[0]), "l"(a[1]), "l"(b[0]))
#define MACHEPS_MMA_4_2_4_l(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+l"(d[0]), "+l"(d[1]), "+l"(d[2]), "+l"(d[3]) \
                 : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(b[0]), "l"(b[1]))
#define MACHEPS_MMA_8_4_4_l(TEXT) \
    asm volatile(TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};" \
                 : "+l"(d[0]), "+l"(d[1]), "+l"(d[2]), "+l"(d[3]) \
                 : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(a[4]), "l"(a[5]), "l"(a[6]), "l"(a[7]), "l"(b[0]), "l"(b[1]), "l"(b[2]), "l"(b[3]))

#define MACHEPS_MMA(M, K, A, B, D, NA, NB, ND, W) \
    template <> \
    struct Mma<M, K, PtxType::A, PtxType::B, PtxType::D> { \
        using Word = WordOf<PtxType::D>::Word; \
        __device__ static void run(Word (&d)[ND], const Word (&a)[NA], const Word (&b)[NB]) { \
            MACHEPS_MMA_##NA##_##NB##_##ND##_##W( \
                "mma.sync.aligned.m" #M "n8k" #K ".row.col." #D "." #A "." #B "." #D); \
        } \
    };
#if MACHEPS_PTX_ARCH >= 800
MACHEPS_MMA(16, 16, f16, f16, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 16, f16, f16, f16, 4, 2, 2, r)
MACHEPS_MMA(16, 16, bf16, bf16, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 8, tf32, tf32, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 8, f16, f16, f32, 2, 1, 4, r)
MACHEPS_MMA(16, 8, f16, f16, f16, 2, 1, 2, r)
MACHEPS_MMA(16, 8, bf16, bf16, f32, 2, 1, 4, r)
MACHEPS_MMA(16, 4, tf32, tf32, f32, 2, 1, 4, r)
MACHEPS_MMA(8, 4, f64, f64, f64, 1, 1, 2, l)
#endif
#if MACHEPS_PTX_ARCH >= 890
MACHEPS_MMA(16, 32, e4m3, e4m3, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 32, e4m3, e5m2, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 32, e5m2, e4m3, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 32, e5m2, e5m2, f32, 4, 2, 4, r)
MACHEPS_MMA(16, 32, e4m3, e4m3, f16, 4, 2, 2, r)
MACHEPS_MMA(16, 32, e4m3, e5m2, f16, 4, 2, 2, r)
MACHEPS_MMA(16, 32, e5m2, e4m3, f16, 4, 2, 2, r)
MACHEPS_MMA(16, 32, e5m2, e5m2, f16, 4, 2, 2, r)
MACHEPS_MMA(16, 16, e4m3, e4m3, f32, 2, 1, 4, r)
MACHEPS_MMA(16, 16, e4m3, e5m2, f32, 2, 1, 4, r)
MACHEPS_MMA(16, 16, e5m2, e4m3, f32, 2, 1, 4, r)
MACHEPS_MMA(16, 16, e5m2, e5m2, f32, 2, 1, 4, r)
MACHEPS_MMA(16, 16, e4m3, e4m3, f16, 2, 1, 2, r)
MACHEPS_MMA(16, 16, e4m3, e5m2, f16, 2, 1, 2, r)
MACHEPS_MMA(16, 16, e5m2, e4m3, f16, 2, 1, 2, r)
MACHEPS_MMA(16, 16, e5m2, e5m2, f16, 2, 1, 2, r)
#endif
#if MACHEPS_PTX_ARCH >= 900
MACHEPS_MMA(16, 4, f64, f64, f64, 2, 1, 4, l)
MACHEPS_MMA(16, 8, f64, f64, f64, 4, 2, 4, l)
MACHEPS_MMA(16, 16, f64, f64, f64, 8, 4, 4, l)
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// MACHEPS_NAMES_n is the list of n registers as it appears in the assembly text. MACHEPS_REGISTERS_n is the list of the
// constraints that bind these registers to d[0] .. d[n - 1].
#define MACHEPS_NAMES_2 "{%0, %1}"
#define MACHEPS_REGISTERS_2 "+r"(d[0]), "+r"(d[1])
#define MACHEPS_NAMES_4 "{%0, %1, %2, %3}"
#define MACHEPS_REGISTERS_4 "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
#define MACHEPS_NAMES_8 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define MACHEPS_REGISTERS_8 "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
#define MACHEPS_NAMES_16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define MACHEPS_REGISTERS_16 \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), \
    "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15])
#define MACHEPS_NAMES_32 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define MACHEPS_REGISTERS_32 \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), \
    "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), \
    "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), \
    "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
#define MACHEPS_NAMES_64 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63}"
#define MACHEPS_REGISTERS_64 \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), \
    "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), \
    "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), \
    "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), \
    "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), \
    "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), \
    "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), \
    "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
#define MACHEPS_NAMES_128 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
    "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, " \
    "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, " \
    "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"
#define MACHEPS_REGISTERS_128 \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), \
    "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), \
    "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), \
    "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), \
    "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), \
    "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), \
    "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), \
    "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63]), \
    "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]), "+r"(d[70]), "+r"(d[71]), \
    "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]), "+r"(d[77]), "+r"(d[78]), "+r"(d[79]), \
    "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]), "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]), \
    "+r"(d[88]), "+r"(d[89]), "+r"(d[90]), "+r"(d[91]), "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]), \
    "+r"(d[96]), "+r"(d[97]), "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]), "+r"(d[102]), \
    "+r"(d[103]), "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]), "+r"(d[108]), "+r"(d[109]), \
    "+r"(d[110]), "+r"(d[111]), "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]), "+r"(d[116]), \
    "+r"(d[117]), "+r"(d[118]), "+r"(d[119]), "+r"(d[120]), "+r"(d[121]), "+r"(d[122]), "+r"(d[123]), \
    "+r"(d[124]), "+r"(d[125]), "+r"(d[126]), "+r"(d[127])

// Operands of the assembly are numbered, beginning with the registers of d. P0, P1, ... are the numbers of the operands
// after these registers. Macros with the suffix _2 are for types of 2 bytes, whose operands can be transposed. RS means
// that a is in registers.
#define MACHEPS_WGMMA_TEXT(N, K, A, B, D) "wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." #D "." #A "." #B " "
#define MACHEPS_WGMMA(N, K, A, B, D, R, P0, P1, P2, P3, P4) \
    template <> \
    struct Wgmma<N, K, PtxType::A, PtxType::B, PtxType::D> { \
        template <int scale_a, int scale_b, int transpose_a, int transpose_b> \
        __device__ static void run(unsigned (&d)[R], unsigned long long a, unsigned long long b, int scale_d) { \
            static_assert(transpose_a == 0 && transpose_b == 0); \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2 ", 0;\n" \
                         MACHEPS_WGMMA_TEXT(N, K, A, B, D) MACHEPS_NAMES_##R ", %" #P0 ", %" #P1 ", p, %" #P3 ", %" #P4 ";\n}" \
                         : MACHEPS_REGISTERS_##R \
                         : "l"(a), "l"(b), "r"(scale_d), "n"(scale_a), "n"(scale_b)); \
        } \
    };
#define MACHEPS_WGMMA_2(N, K, A, B, D, R, P0, P1, P2, P3, P4, P5, P6) \
    template <> \
    struct Wgmma<N, K, PtxType::A, PtxType::B, PtxType::D> { \
        template <int scale_a, int scale_b, int transpose_a, int transpose_b> \
        __device__ static void run(unsigned (&d)[R], unsigned long long a, unsigned long long b, int scale_d) { \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2 ", 0;\n" \
                         MACHEPS_WGMMA_TEXT(N, K, A, B, D) MACHEPS_NAMES_##R \
                         ", %" #P0 ", %" #P1 ", p, %" #P3 ", %" #P4 ", %" #P5 ", %" #P6 ";\n}" \
                         : MACHEPS_REGISTERS_##R \
                         : "l"(a), "l"(b), "r"(scale_d), "n"(scale_a), "n"(scale_b), "n"(transpose_a), \
                           "n"(transpose_b)); \
        } \
    };
#define MACHEPS_WGMMA_RS(N, K, A, B, D, R, P0, P1, P2, P3, P4, P5, P6, P7) \
    template <> \
    struct WgmmaRegisters<N, K, PtxType::A, PtxType::B, PtxType::D> { \
        template <int scale_a, int scale_b, int transpose_b> \
        __device__ static void run(unsigned (&d)[R], const unsigned (&a)[4], unsigned long long b, int scale_d) { \
            static_assert(transpose_b == 0); \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P5 ", 0;\n" \
                         MACHEPS_WGMMA_TEXT(N, K, A, B, D) MACHEPS_NAMES_##R \
                         ", {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", p, %" #P6 ", %" #P7 ";\n}" \
                         : MACHEPS_REGISTERS_##R \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(scale_a), \
                           "n"(scale_b)); \
        } \
    };
#define MACHEPS_WGMMA_RS_2(N, K, A, B, D, R, P0, P1, P2, P3, P4, P5, P6, P7, P8) \
    template <> \
    struct WgmmaRegisters<N, K, PtxType::A, PtxType::B, PtxType::D> { \
        template <int scale_a, int scale_b, int transpose_b> \
        __device__ static void run(unsigned (&d)[R], const unsigned (&a)[4], unsigned long long b, int scale_d) { \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P5 ", 0;\n" \
                         MACHEPS_WGMMA_TEXT(N, K, A, B, D) MACHEPS_NAMES_##R \
                         ", {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", p, %" #P6 ", %" #P7 ", %" #P8 ";\n}" \
                         : MACHEPS_REGISTERS_##R \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(scale_a), \
                           "n"(scale_b), "n"(transpose_b)); \
        } \
    };
MACHEPS_WGMMA_2(8, 16, f16, f16, f32, 4, 4, 5, 6, 7, 8, 9, 10)
MACHEPS_WGMMA_2(8, 16, f16, f16, f16, 2, 2, 3, 4, 5, 6, 7, 8)
MACHEPS_WGMMA_2(8, 16, bf16, bf16, f32, 4, 4, 5, 6, 7, 8, 9, 10)
MACHEPS_WGMMA(8, 8, tf32, tf32, f32, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(8, 32, e4m3, e4m3, f32, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(8, 32, e4m3, e5m2, f32, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(8, 32, e5m2, e4m3, f32, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(8, 32, e5m2, e5m2, f32, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(8, 32, e4m3, e4m3, f16, 2, 2, 3, 4, 5, 6)
MACHEPS_WGMMA(8, 32, e4m3, e5m2, f16, 2, 2, 3, 4, 5, 6)
MACHEPS_WGMMA(8, 32, e5m2, e4m3, f16, 2, 2, 3, 4, 5, 6)
MACHEPS_WGMMA(8, 32, e5m2, e5m2, f16, 2, 2, 3, 4, 5, 6)
MACHEPS_WGMMA_2(16, 16, f16, f16, f32, 8, 8, 9, 10, 11, 12, 13, 14)
MACHEPS_WGMMA_2(16, 16, f16, f16, f16, 4, 4, 5, 6, 7, 8, 9, 10)
MACHEPS_WGMMA_2(16, 16, bf16, bf16, f32, 8, 8, 9, 10, 11, 12, 13, 14)
MACHEPS_WGMMA(16, 8, tf32, tf32, f32, 8, 8, 9, 10, 11, 12)
MACHEPS_WGMMA(16, 32, e4m3, e4m3, f32, 8, 8, 9, 10, 11, 12)
MACHEPS_WGMMA(16, 32, e4m3, e5m2, f32, 8, 8, 9, 10, 11, 12)
MACHEPS_WGMMA(16, 32, e5m2, e4m3, f32, 8, 8, 9, 10, 11, 12)
MACHEPS_WGMMA(16, 32, e5m2, e5m2, f32, 8, 8, 9, 10, 11, 12)
MACHEPS_WGMMA(16, 32, e4m3, e4m3, f16, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(16, 32, e4m3, e5m2, f16, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(16, 32, e5m2, e4m3, f16, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA(16, 32, e5m2, e5m2, f16, 4, 4, 5, 6, 7, 8)
MACHEPS_WGMMA_2(64, 16, f16, f16, f32, 32, 32, 33, 34, 35, 36, 37, 38)
MACHEPS_WGMMA_2(64, 16, f16, f16, f16, 16, 16, 17, 18, 19, 20, 21, 22)
MACHEPS_WGMMA_2(64, 16, bf16, bf16, f32, 32, 32, 33, 34, 35, 36, 37, 38)
MACHEPS_WGMMA(64, 8, tf32, tf32, f32, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(64, 32, e4m3, e4m3, f32, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(64, 32, e4m3, e5m2, f32, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(64, 32, e5m2, e4m3, f32, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(64, 32, e5m2, e5m2, f32, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(64, 32, e4m3, e4m3, f16, 16, 16, 17, 18, 19, 20)
MACHEPS_WGMMA(64, 32, e4m3, e5m2, f16, 16, 16, 17, 18, 19, 20)
MACHEPS_WGMMA(64, 32, e5m2, e4m3, f16, 16, 16, 17, 18, 19, 20)
MACHEPS_WGMMA(64, 32, e5m2, e5m2, f16, 16, 16, 17, 18, 19, 20)
MACHEPS_WGMMA_2(128, 16, f16, f16, f32, 64, 64, 65, 66, 67, 68, 69, 70)
MACHEPS_WGMMA_2(128, 16, f16, f16, f16, 32, 32, 33, 34, 35, 36, 37, 38)
MACHEPS_WGMMA_2(128, 16, bf16, bf16, f32, 64, 64, 65, 66, 67, 68, 69, 70)
MACHEPS_WGMMA(128, 8, tf32, tf32, f32, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(128, 32, e4m3, e4m3, f32, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(128, 32, e4m3, e5m2, f32, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(128, 32, e5m2, e4m3, f32, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(128, 32, e5m2, e5m2, f32, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(128, 32, e4m3, e4m3, f16, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(128, 32, e4m3, e5m2, f16, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(128, 32, e5m2, e4m3, f16, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA(128, 32, e5m2, e5m2, f16, 32, 32, 33, 34, 35, 36)
MACHEPS_WGMMA_2(256, 16, f16, f16, f32, 128, 128, 129, 130, 131, 132, 133, 134)
MACHEPS_WGMMA_2(256, 16, f16, f16, f16, 64, 64, 65, 66, 67, 68, 69, 70)
MACHEPS_WGMMA_2(256, 16, bf16, bf16, f32, 128, 128, 129, 130, 131, 132, 133, 134)
MACHEPS_WGMMA(256, 8, tf32, tf32, f32, 128, 128, 129, 130, 131, 132)
MACHEPS_WGMMA(256, 32, e4m3, e4m3, f32, 128, 128, 129, 130, 131, 132)
MACHEPS_WGMMA(256, 32, e4m3, e5m2, f32, 128, 128, 129, 130, 131, 132)
MACHEPS_WGMMA(256, 32, e5m2, e4m3, f32, 128, 128, 129, 130, 131, 132)
MACHEPS_WGMMA(256, 32, e5m2, e5m2, f32, 128, 128, 129, 130, 131, 132)
MACHEPS_WGMMA(256, 32, e4m3, e4m3, f16, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(256, 32, e4m3, e5m2, f16, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(256, 32, e5m2, e4m3, f16, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA(256, 32, e5m2, e5m2, f16, 64, 64, 65, 66, 67, 68)
MACHEPS_WGMMA_RS_2(8, 16, f16, f16, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12)
MACHEPS_WGMMA_RS_2(8, 16, f16, f16, f16, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10)
MACHEPS_WGMMA_RS_2(8, 16, bf16, bf16, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12)
MACHEPS_WGMMA_RS(8, 8, tf32, tf32, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11)
MACHEPS_WGMMA_RS(8, 32, e4m3, e4m3, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11)
MACHEPS_WGMMA_RS(8, 32, e4m3, e5m2, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11)
MACHEPS_WGMMA_RS(8, 32, e5m2, e4m3, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11)
MACHEPS_WGMMA_RS(8, 32, e5m2, e5m2, f32, 4, 4, 5, 6, 7, 8, 9, 10, 11)
MACHEPS_WGMMA_RS(8, 32, e4m3, e4m3, f16, 2, 2, 3, 4, 5, 6, 7, 8, 9)
MACHEPS_WGMMA_RS(8, 32, e4m3, e5m2, f16, 2, 2, 3, 4, 5, 6, 7, 8, 9)
MACHEPS_WGMMA_RS(8, 32, e5m2, e4m3, f16, 2, 2, 3, 4, 5, 6, 7, 8, 9)
MACHEPS_WGMMA_RS(8, 32, e5m2, e5m2, f16, 2, 2, 3, 4, 5, 6, 7, 8, 9)

/// Makes the threads' writes to shared memory visible to wgmma. Call it before the barrier that precedes wgmma.
__device__ inline void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// begin_group() and end_group() enclose the instructions of a commit group.
__device__ inline void begin_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_group() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#else
__device__ inline void fence_shared() {}
__device__ inline void begin_group() {}
__device__ inline void end_group() {}
#endif
// clang-format on

}  // namespace macheps::evidence::ptx
