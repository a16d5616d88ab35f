// SPDX-License-Identifier: Apache-2.0
// The instruction set on which the CPU engine runs.
#pragma once
#include <string_view>
#include <type_traits>
#include <vector>

namespace macheps {

enum class Simd { scalar, avx2, avx512 };

std::string_view simd_name(Simd level);
/// Returns the instruction sets that this CPU can run and this program was built for, scalar first.
const std::vector<Simd>& available_simd();
/// Returns the best one, or the one that the environment variable MACHEPS_SIMD=scalar|avx2|avx512 selects. Throws Error
/// (usage) if the variable names none of these or one that is not available, or if MACHEPS_SIMD_EXTENSIONS is set to
/// anything but `none`.
Simd chosen_simd();

/// Extensions of Simd::avx512 that some of its processors have and that a few kernels use.
enum class Extension { avx512_bf16, avx512_fp16 };
/// Returns true if this CPU has the extension, Simd::avx512 is available, and the environment variable
/// MACHEPS_SIMD_EXTENSIONS is not `none`. With `none`, a processor that has the extensions runs the kernels of one that
/// does not.
bool has_extension(Extension extension);

/// Returns the one of three functions that `level` can run. This is the only way from ordinary code into code that is
/// compiled for a target. It takes functions, not their results, so nothing of a target runs before the choice.
/// `scalar` may be null if no caller passes Simd::scalar.
template <class Result, class... Args>
auto choose(Simd level, std::type_identity_t<Result (*)(Args...)> scalar,
            std::type_identity_t<Result (*)(Args...)> avx2, Result (*avx512)(Args...)) {
    auto chosen = level == Simd::avx512 ? avx512 : level == Simd::avx2 ? avx2 : scalar;
    // Hides the choice from the optimiser, which could otherwise inline a target's code into the caller.
    asm("" : "+r"(chosen));
    return chosen;
}

}  // namespace macheps
