// SPDX-License-Identifier: Apache-2.0
// Which instruction set the CPU engine runs on.
#pragma once
#include <string_view>
#include <vector>

namespace macheps {

enum class Simd { scalar, avx2, avx512 };

std::string_view simd_name(Simd level);
/// What this CPU can run, scalar first.
const std::vector<Simd>& available_simd();
/// The best one, or what the environment variable MACHEPS_SIMD=scalar|avx2|avx512 forces; throws Error (usage) when the
/// variable names none of these or one that this CPU lacks, or when MACHEPS_SIMD_EXTENSIONS is set to anything but `none`.
Simd chosen_simd();

/// Instructions beside those of Simd::avx512 that some of its processors have, and that a few kernels use.
enum class Extension { avx512_bf16, avx512_fp16 };
/// True where this CPU can run them and the environment variable MACHEPS_SIMD_EXTENSIONS=none does not leave them unused:
/// a processor that has them can run the kernels of one that has not.
bool has_extension(Extension extension);

/// What a kernel file gives out: the one of its three tables that `level` runs on.
template <class Kernels>
constexpr const Kernels& choose(Simd level, const Kernels& scalar, const Kernels& avx2, const Kernels& avx512) {
    return level == Simd::avx512 ? avx512 : level == Simd::avx2 ? avx2 : scalar;
}

}  // namespace macheps
