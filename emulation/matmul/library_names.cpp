// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/library_names.hpp"

#include "emulation/matmul/rules.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace macheps {

namespace {

#if defined(__x86_64__)
bool has_cpuid_bit(unsigned part, bool in_edx, int bit) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, part, &a, &b, &c, &d) != 0 && ((in_edx ? d : a) >> bit & 1) != 0;
}
bool has_wide_vectors() { return __builtin_cpu_supports("avx512bw") != 0; }
bool is_intel() { return __builtin_cpu_is("intel") != 0; }
bool is_amd() { return __builtin_cpu_is("amd") != 0; }
bool has_tiles_of_bf16() { return has_wide_vectors() && has_cpuid_bit(0, true, 22); }
bool has_pairs_of_bf16() { return has_wide_vectors() && has_cpuid_bit(1, false, 5); }
bool has_fp16() { return has_wide_vectors() && has_cpuid_bit(0, true, 23); }
bool has_fma() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }
int intel_model() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 ? static_cast<int>((a >> 4 & 15) | (a >> 12 & 0xf0)) : 0;
}
#else
int intel_model() { return 0; }
bool has_wide_vectors() { return false; }
bool is_intel() { return false; }
bool is_amd() { return false; }
bool has_tiles_of_bf16() { return false; }
bool has_pairs_of_bf16() { return false; }
bool has_fp16() { return false; }
bool has_fma() { return false; }
#endif

bool is_wide_intel() { return is_intel() && has_wide_vectors(); }
bool is_wide_amd() { return is_amd() && has_wide_vectors(); }
/// Returns whether OpenBLAS 0.3.21 uses its Cooperlake kernels. It does so on AMD CPUs with AVX512-BF16, and on Cooper
/// Lake and Sapphire Rapids, which it recognises by their model number. On other CPUs with AVX-512 it uses its SkylakeX
/// kernels, whose blocks are longer.
bool has_cooperlake_kernels() {
    return has_pairs_of_bf16() && (is_amd() || (is_intel() && (intel_model() == 85 || intel_model() == 143)));
}

constexpr LibraryName names[] = {
    {"openblas.sgemm",
     {{{"blas.openblas-0.3.21.skylakex", has_cooperlake_kernels}, {"blas.openblas.448", is_wide_intel}}}},
    {"onednn.sgemm", {{{"blas.onednn", has_wide_vectors}}}},
    {"mkl.sgemm", {{{"blas.onednn", is_wide_intel}, {"blas.mkl", is_wide_amd}}}},
    {"blis.sgemm", {{{"blas.blis-0.9.haswell", is_wide_intel}, {"blas.blis-0.9.generic", is_wide_amd}}}},
    {"torch.matmul.fp32", {{{"blas.onednn", is_wide_intel}, {"torch.cpu.fp32", is_wide_amd}}}},
    {"torch.matmul.bf16", {{{"torch.cpu.bf16.amx", has_tiles_of_bf16}, {"torch.cpu.bf16", has_pairs_of_bf16}}}},
    {"torch.matmul.fp16", {{{"torch.cpu.fp16.avx512_fp16", has_fp16}, {"torch.cpu.fp16", has_fma}}}},
};

}  // namespace

std::span<const LibraryName> library_names() { return names; }

const NamedMatmulRule* library_rule_here(std::string_view name) {
    for (const LibraryName& each : names) {
        if (each.name != name) continue;
        for (const LibraryName::Variant& variant : each.variants) {
            if (variant.is_here != nullptr && variant.is_here()) return find_matmul_rule(variant.rule);
        }
    }
    return nullptr;
}

}  // namespace macheps
