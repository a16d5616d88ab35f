// SPDX-License-Identifier: Apache-2.0
// Tests simd.cpp in a build with MACHEPS_SIMD=native, whose kernels use only one set of vector instructions.
#include "core/error.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace native_test {

using namespace macheps;

TEST_CASE("an instruction set that a build leaves out is not available, and requesting it is an error",
          "[emulation][simd]") {
    const char* before = std::getenv("MACHEPS_SIMD");
    const std::string saved = before == nullptr ? "" : before;
    const std::vector<Simd> levels = available_simd();
    REQUIRE(levels.front() == Simd::scalar);
    CHECK(std::find(levels.begin(), levels.end(), Simd::avx512) == levels.end());
    for (const Simd level : levels) {
        setenv("MACHEPS_SIMD", std::string(simd_name(level)).c_str(), 1);
        CHECK(chosen_simd() == level);
    }

    setenv("MACHEPS_SIMD", "avx512", 1);
    std::optional<Error> refusal;
    try {
        chosen_simd();
    } catch (const Error& error) {
        refusal = error;
    }
    REQUIRE(refusal);
    CHECK(refusal->exit() == Exit::usage);
#if defined(__x86_64__)
    const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
#else
    const bool has_avx512 = false;
#endif
    CHECK(std::string(refusal->what())
              .find(has_avx512 ? "this program was built without avx512" : "this CPU does not support avx512") !=
          std::string::npos);
    saved.empty() ? unsetenv("MACHEPS_SIMD") : setenv("MACHEPS_SIMD", saved.c_str(), 1);
}

}  // namespace native_test
