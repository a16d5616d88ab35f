// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/simd.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace macheps {

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

std::vector<Simd> available_simd() {
    std::vector<Simd> levels{Simd::scalar};
    // Highway asks the processor and the operating system for everything its targets compile to (FMA and F16C
    // included).
    const std::int64_t targets = hwy::SupportedTargets();
    if ((targets & HWY_AVX2) != 0) levels.push_back(Simd::avx2);
    if ((targets & HWY_AVX2) != 0 && (targets & HWY_AVX3) != 0) levels.push_back(Simd::avx512);
    return levels;
}

Simd chosen_simd() {
    const std::vector<Simd> levels = available_simd();
    const char* variable = std::getenv("MACHEPS_SIMD");
    if (variable == nullptr || *variable == '\0') return levels.back();
    const std::string wanted = variable;
    for (const Simd level : {Simd::scalar, Simd::avx2, Simd::avx512}) {
        if (wanted != simd_name(level)) continue;
        if (std::find(levels.begin(), levels.end(), level) != levels.end()) return level;
        throw Error({.what = fmt::format("this CPU has no {}", wanted),
                     .where = "MACHEPS_SIMD",
                     .fix = fmt::format("unset it, or use {}", simd_name(levels.back())),
                     .exit = Exit::usage});
    }
    throw Error({.what = fmt::format("unknown instruction set '{}'", wanted),
                 .where = "MACHEPS_SIMD",
                 .fix = "one of scalar, avx2, avx512",
                 .exit = Exit::usage});
}

}  // namespace macheps
