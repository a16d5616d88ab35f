// SPDX-License-Identifier: Apache-2.0
// Rules of summation that describe kernels of CPU libraries. Each rule was identified by results on operands that
// cancel (`macheps verify --library`). On these operands, every other order in a small list of candidates gives
// different bits. The rules hold for one thread, row-major matrices, alpha = 1 and beta = 0.
#pragma once
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"

namespace macheps {

namespace library_rule {

/// Returns a division of k into blocks of `limit` terms. If fewer than 2 limit terms remain, they form one block, or
/// two halves if they are more than `limit`.
constexpr KBlocks halves(int limit, int multiple, bool greater = false) {
    return {.limit = limit, .split = KBlocks::Split::halve_last, .multiple = multiple, .greater_half = greater};
}

inline constexpr std::string_view own = "macheps verify --library, 60 random shapes";
inline constexpr std::string_view isa = "the CPU's instruction set and the version";

}  // namespace library_rule

inline constexpr NamedMatmulRule library_rules[] = {
    {.name = "blas.openblas-0.3.21.skylakex",
     .rule = {.machine = &fp32_chain, .blocks = library_rule::halves(320, 16)},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary =
         "OpenBLAS sgemm: blocks of 320; a rest of 321 to 639 terms is halved, and the first half is rounded up to a "
         "multiple of 16; fma",
     .versions = "0.3.21 (Debian 12), kernels SkylakeX and Cooperlake, on AMD Zen 5",
     .valid = "above 10^6 multiply-adds; only one thread if k and m are near 1000",
     .depends_on = "OPENBLAS_CORETYPE, OPENBLAS_NUM_THREADS, the version"},
    {.name = "blas.openblas.448",
     .rule = {.machine = &fp32_chain, .blocks = library_rule::halves(448, 16)},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary =
         "OpenBLAS sgemm: blocks of 448; a rest of 449 to 895 terms is halved, and the first half is rounded up to a "
         "multiple of 16; fma",
     .versions = "0.3.21 (Debian 12), kernels SkylakeX, on an Intel Xeon with AMX; 0.3.29 (numpy 2.2.6) on AMD Zen 5",
     .valid = "above 10^6 multiply-adds",
     .depends_on = "OPENBLAS_CORETYPE, OPENBLAS_NUM_THREADS, the version"},
    {.name = "blas.onednn",
     .rule = {.machine = &fp32_chain, .blocks = library_rule::halves(384, 1, true)},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "oneDNN dnnl_sgemm, and on Intel CPUs MKL and PyTorch: blocks of 384; a rest of 385 to 767 terms is "
                "halved, the larger half first; fma",
     .versions =
         "oneDNN 2.6.3 on an Intel Xeon with AMX and on AMD Zen 5, 3.2 on AMD Zen 5; MKL 2026.2 and PyTorch 2.9.1 "
         "(fp32) on that Intel Xeon",
     .valid = "m and n above 1; with two threads, k up to the share of one thread",
     .depends_on = "ONEDNN_MAX_CPU_ISA, OMP_NUM_THREADS, the version"},
    {.name = "blas.mkl",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 192, .split = KBlocks::Split::halve_all}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "MKL cblas_sgemm: blocks of 192, but two halves if k is at most 384 (the last term of an odd k is "
                "separate); fma",
     .versions = "2024.2, 2026.2 on AMD Zen 5",
     .valid = "m and n above 1",
     .depends_on = "the CPU's vendor, MKL_ENABLE_INSTRUCTIONS, MKL_CBWR, the version"},
    {.name = "blas.blis-0.9.generic",
     .rule = {.machine = find_machine("fp32.unfused"), .blocks = {.limit = 256}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "BLIS generic kernels: blocks of 256; products are rounded before they are added",
     .versions = "0.9.0 (Debian 12) on CPUs for which BLIS has no configuration",
     .valid = "all shapes that were tested",
     .depends_on = "BLIS_ARCH_TYPE, the CPU, the version"},
    {.name = "blas.blis-0.9.haswell",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 256}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "BLIS Haswell kernels, panels of rows: blocks of 256; fma",
     .versions = "0.9.0 (Debian 12), kernels Haswell, on an Intel Xeon with AMX",
     .valid = "n even, and m / 6 >= n / 16 in integer division; the last column of an odd n is summed in another order",
     .depends_on = "BLIS_ARCH_TYPE, the CPU, the version",
     .claims = [](std::int64_t m, std::int64_t n, std::int64_t) { return n % 2 == 0 && m / 6 >= n / 16; }},
    {.name = "blas.blis-0.9.haswell.wide",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 48}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "BLIS Haswell kernels, panels of columns: blocks of 48; fma",
     .versions = "0.9.0 (Debian 12), kernels Haswell, on an Intel Xeon with AMX",
     .valid = "n even and up to 200, and m / 6 < n / 16 in integer division",
     .depends_on = "BLIS_ARCH_TYPE, the CPU, the version",
     .claims = [](std::int64_t m, std::int64_t n, std::int64_t) { return n % 2 == 0 && n <= 200 && m / 6 < n / 16; }},
    {.name = "eigen.gemm",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 432, .split = KBlocks::Split::level, .multiple = 8}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "Eigen's product of two float matrices: blocks of up to 432, as equal as multiples of 8 allow; fma",
     .versions = "3.4.0 (Debian 12) for AVX2 and FMA, on CPUs with 48 KiB of first-level cache",
     .valid = "row-major, n mod 24 = 0 or 16; the remaining columns of other n are summed in two alternating chains",
     .depends_on =
         "the size of the first-level cache, the instruction set for which the caller is compiled, the version",
     .claims = [](std::int64_t, std::int64_t n, std::int64_t) { return n % 24 == 0 || n % 24 == 16; }},
    {.name = "eigen.gemm.32k",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 288, .split = KBlocks::Split::level, .multiple = 8}},
     .evidence = Evidence::inferred,
     .source = "Eigen/src/Core/products/GeneralBlockPanelKernel.h, evaluateProductBlockingSizesHeuristic",
     .summary = "Eigen's product if the first-level cache has 32 KiB: blocks of up to 288, as equal as multiples of 8 "
                "allow; fma",
     .versions = "3.4.0 for AVX2 and FMA",
     .valid = "not tested",
     .depends_on =
         "the size of the first-level cache, the instruction set for which the caller is compiled, the version",
     .claims = [](std::int64_t, std::int64_t n, std::int64_t) { return n % 24 == 0 || n % 24 == 16; }},
    {.name = "torch.cpu.fp32",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 192, .split = KBlocks::Split::halve_all}, .bias_first = true},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "PyTorch matmul and linear in fp32: MKL's blocks, each added to a sum that starts with the bias",
     .versions = "2.9.1 (MKL 2024.2) on AMD Zen 5",
     .valid = "m and n above 1",
     .depends_on = "the CPU's vendor, MKL_ENABLE_INSTRUCTIONS, MKL_CBWR, the version"},
    {.name = "torch.cpu.bf16",
     .rule = {.machine = find_machine("x86.vdpbf16ps"), .blocks = {.limit = 512, .wide_limit = 1024, .wide_k = 1024}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary =
         "PyTorch matmul and linear in bf16 (oneDNN brg_matmul:avx512_core_bf16): VDPBF16PS in blocks of 512, or "
         "of 1024 if k is above 1024; one rounding to bf16",
     .versions = "2.9.1 (oneDNN 3.7.1)",
     .valid = "m n k above 4096, on CPUs with avx512_bf16 and without AMX",
     .depends_on = "ONEDNN_MAX_CPU_ISA, the CPU's instruction set, the version"},
    {.name = "torch.cpu.bf16.amx",
     .rule = {.machine = find_machine("x86.amx.bf16")},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "PyTorch matmul in bf16 on CPUs with AMX: one chain of tdpbf16ps over all of k; one rounding to bf16",
     .versions = "2.9.1 (oneDNN 3.7.1) on an Intel Xeon with AMX",
     .valid =
         "k up to 2944; from k = 2990 on, the sum is split in two if m and n are too large for the kernel's buffers",
     .depends_on = "ONEDNN_MAX_CPU_ISA, the CPU's instruction set, the cache, the version",
     .claims = [](std::int64_t, std::int64_t, std::int64_t k) { return k <= 2944; }},
    {.name = "torch.cpu.bf16.small",
     .rule = {.machine = &fp32_chain, .lanes = 4},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "PyTorch matmul in bf16 with few products: four alternating fp32 chains of fma, added at the "
                "end; one rounding to bf16",
     .versions = "2.9.1",
     .valid = "m n k up to 4096",
     .depends_on = library_rule::isa},
    {.name = "torch.cpu.fp16.avx512_fp16",
     .rule = {.machine = &fp32_chain, .blocks = {.limit = 512, .wide_limit = 1024, .wide_k = 1024}},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary =
         "PyTorch matmul in fp16 on CPUs with AVX512-FP16: fma in fp32 in blocks of 512, or of 1024 if k is above "
         "1024; one rounding to fp16",
     .versions = "2.9.1 (oneDNN 3.7.1) on an Intel Xeon with AMX",
     .valid = "60 of 60 random shapes above 10^6 multiply-adds",
     .depends_on = "ONEDNN_MAX_CPU_ISA, the CPU's instruction set, the version"},
    {.name = "torch.cpu.fp16",
     .rule = {.machine = &fp32_chain, .lanes = 4},
     .evidence = Evidence::hardware,
     .source = library_rule::own,
     .summary = "PyTorch matmul in fp16: four alternating fp32 chains of fma, added at the end; one rounding to fp16",
     .versions = "2.9.1",
     .valid = "CPUs without AVX512-FP16",
     .depends_on = library_rule::isa},
};

}  // namespace macheps
