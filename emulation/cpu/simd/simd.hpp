// SPDX-License-Identifier: Apache-2.0
// Which instruction set the CPU engine runs on.
#pragma once
#include <string_view>
#include <type_traits>
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

/// Returns the one of three functions that `level` can run. This is the only way from ordinary code into code that is compiled
/// for a target: it takes functions, not their results, so nothing of a target runs before the choice. `scalar` may be null
/// where no caller passes Simd::scalar.
template <class Result, class... Args>
auto choose(Simd level, std::type_identity_t<Result (*)(Args...)> scalar,
            std::type_identity_t<Result (*)(Args...)> avx2, Result (*avx512)(Args...)) {
    auto chosen = level == Simd::avx512 ? avx512 : level == Simd::avx2 ? avx2 : scalar;
    // Hides the choice from the optimiser, which could otherwise inline a target's code into the caller.
    asm("" : "+r"(chosen));
    return chosen;
}

}  // namespace macheps
