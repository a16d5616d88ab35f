// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/simd.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

namespace macheps {

namespace {

// The functions below check for the instructions that Highway's targets for AVX2 and AVX-512 use.
// hwy::SupportedTargets() gives the same result, but Highway's library measures the processor's clock when it is
// loaded. This would add four milliseconds to the start of every program.
#if defined(__x86_64__)
bool has_avx2() {
    unsigned a = 0, b = 0, basic = 0, extended = 0, d = 0;
    // F16C and LZCNT are read from CPUID, because Clang's __builtin_cpu_supports does not know them. For AVX2,
    // __builtin_cpu_supports also checks the support of the operating system.
    if (__get_cpuid(1, &a, &b, &basic, &d) == 0 || (basic & bit_F16C) == 0) return false;
    if (__get_cpuid(0x80000001, &a, &b, &extended, &d) == 0 || (extended & bit_LZCNT) == 0) return false;
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
           __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512cd") != 0;
}

/// Returns true if the processor has AVX512-BF16. AVX512-BF16 and AVX512-FP16 use the registers of AVX-512, so
/// has_avx512() has already checked the support of the operating system.
bool has_bf16() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
}

bool has_fp16() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23 & 1) != 0;
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_bf16() { return false; }
bool has_fp16() { return false; }
#endif

constexpr const char* extensions_variable = "MACHEPS_SIMD_EXTENSIONS";

/// Returns the value of MACHEPS_SIMD_EXTENSIONS, or an empty string if the variable is not set.
std::string wanted_extensions() {
    const char* variable = std::getenv(extensions_variable);
    return variable == nullptr ? "" : variable;
}

/// Extensions of AVX-512 that this program may use.
struct Extensions {
    Extensions() {
        const std::vector<Simd>& levels = available_simd();
        if (wanted_extensions() == "none" || std::find(levels.begin(), levels.end(), Simd::avx512) == levels.end())
            return;
        bf16 = has_bf16();
        fp16 = has_fp16();
    }
    bool bf16 = false, fp16 = false;
};

}  // namespace

std::string_view simd_name(Simd level) {
    switch (level) {
        case Simd::avx2:
            return "avx2";
        case Simd::avx512:
            return "avx512";
        default:
            return "scalar";
    }
}

const std::vector<Simd>& available_simd() {
    // Computed only once, because every engine calls this function and CPUID takes tens of microseconds in a virtual
    // machine.
    static const std::vector<Simd> levels = [] {
        std::vector<Simd> found{Simd::scalar};
#if MACHEPS_HAS_VECTORS && !defined(MACHEPS_ONLY_AVX512)
        if (has_avx2()) found.push_back(Simd::avx2);
#endif
#if MACHEPS_HAS_VECTORS && !defined(MACHEPS_ONLY_AVX2)
        if (has_avx512()) found.push_back(Simd::avx512);
#endif
        return found;
    }();
    return levels;
}

bool has_extension(Extension extension) {
    static const Extensions found;
    return extension == Extension::avx512_bf16 ? found.bf16 : found.fp16;
}

Simd chosen_simd() {
    const std::vector<Simd>& levels = available_simd();
    if (const std::string wanted = wanted_extensions(); !wanted.empty() && wanted != "none") {
        throw Error({.what = fmt::format("unknown value '{}'", wanted),
                     .where = extensions_variable,
                     .fix = "unset it to use all extensions of this CPU, or set it to none",
                     .exit = Exit::usage});
    }
    const char* variable = std::getenv("MACHEPS_SIMD");
    if (variable == nullptr || *variable == '\0') return levels.back();
    const std::string wanted = variable;
    for (const Simd level : {Simd::scalar, Simd::avx2, Simd::avx512}) {
        if (wanted != simd_name(level)) continue;
        if (std::find(levels.begin(), levels.end(), level) != levels.end()) return level;
        const bool is_left_out = (level == Simd::avx2 && has_avx2()) || (level == Simd::avx512 && has_avx512());
        if (is_left_out) {
            throw Error({.what = fmt::format("this program was built without {}", wanted),
                         .where = "MACHEPS_SIMD",
                         .fix = fmt::format("unset it, use {}, or build with -DMACHEPS_SIMD=all, as scripts/test does",
                                            simd_name(levels.back())),
                         .exit = Exit::usage});
        }
        throw Error({.what = fmt::format("this CPU does not support {}", wanted),
                     .where = "MACHEPS_SIMD",
                     .fix = fmt::format("unset it, or use {}", simd_name(levels.back())),
                     .exit = Exit::usage});
    }
    throw Error({.what = fmt::format("unknown instruction set '{}'", wanted),
                 .where = "MACHEPS_SIMD",
                 .fix = "use scalar, avx2 or avx512",
                 .exit = Exit::usage});
}

}  // namespace macheps
