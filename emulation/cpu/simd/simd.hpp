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
/// variable names none of these or one that this CPU lacks.
Simd chosen_simd();

/// What a kernel file gives out: the one of its three tables that `level` runs on.
template <class Kernels>
constexpr const Kernels& choose(Simd level, const Kernels& scalar, const Kernels& avx2, const Kernels& avx512) {
    return level == Simd::avx512 ? avx512 : level == Simd::avx2 ? avx2 : scalar;
}

}  // namespace macheps
