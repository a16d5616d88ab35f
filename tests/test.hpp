// SPDX-License-Identifier: Apache-2.0
// Catch2 v2 or v3 behind one include. SKIP_TEST prints the line that ctest knows as a skip, and leaves the test.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#define SKIP_TEST(reason)                                          \
    do {                                                           \
        std::cout << "MACHEPS-SKIPPED: " << (reason) << std::endl; \
        SUCCEED("skipped");                                        \
        return;                                                    \
    } while (false)

namespace macheps::test {

/// The folder of shared vectors and data, or an empty path: MACHEPS_SHARED, else `../shared` beside the source tree.
inline std::filesystem::path shared_folder() {
    if (const char* named = std::getenv("MACHEPS_SHARED")) return named;
    const std::filesystem::path beside = std::filesystem::path(MACHEPS_SOURCE_DIR).parent_path() / "shared";
    return std::filesystem::exists(beside) ? beside : std::filesystem::path{};
}

}  // namespace macheps::test
