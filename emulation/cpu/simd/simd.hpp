// SPDX-License-Identifier: Apache-2.0
// The instruction set on which the CPU engine runs.
#pragma once
#include <string_view>
#include <type_traits>
#include <vector>

/// 1 if the kernels for AVX2 and AVX-512 are compiled.
#if defined(__x86_64__) && !defined(MACHEPS_NO_VECTORS)
#define MACHEPS_HAS_VECTORS 1
#else
#define MACHEPS_HAS_VECTORS 0
#endif

namespace macheps {

enum class Simd { scalar, avx2, avx512 };

std::string_view simd_name(Simd level);
/// Returns the instruction sets that this CPU can run and this program was built for, scalar first.
const std::vector<Simd>& available_simd();
/// Returns the best available instruction set, or the one that the environment variable MACHEPS_SIMD=scalar|avx2|avx512
/// selects. Throws Error (usage) if MACHEPS_SIMD has any other value or selects an instruction set that is not
/// available, or if MACHEPS_SIMD_EXTENSIONS is set to anything but `none`.
Simd chosen_simd();

/// Extensions of AVX-512 that a few kernels use. Only some processors with AVX-512 have them.
enum class Extension { avx512_bf16, avx512_fp16 };
/// Returns true if this CPU has the extension, Simd::avx512 is available, and the environment variable
/// MACHEPS_SIMD_EXTENSIONS is not `none`. With `none`, a processor with the extensions runs the same kernels as a
/// processor without them.
bool has_extension(Extension extension);

/// Returns the function for `level`. Only through choose() may ordinary code call code that is compiled for a SIMD
/// target. The macro MACHEPS_CHOOSE_TARGET (targets.hpp) calls it where the kernels are compiled. The arguments are functions rather than the results of calls, so that no code of a target runs before the
/// choice.
template <class Result, class... Args>
auto choose(Simd level, std::type_identity_t<Result (*)(Args...)> scalar,
            std::type_identity_t<Result (*)(Args...)> avx2, Result (*avx512)(Args...)) {
    auto chosen = level == Simd::avx512 ? avx512 : level == Simd::avx2 ? avx2 : scalar;
    // Hides the choice from the optimiser, which could otherwise inline a target's code into the caller.
    asm("" : "+r"(chosen));
    return chosen;
}

}  // namespace macheps
