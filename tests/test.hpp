// SPDX-License-Identifier: Apache-2.0
// Includes Catch2 v2 or v3. SKIP_TEST prints the line by which ctest recognises a skipped test, and returns.
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

/// Returns the folder of shared test vectors and data. It is MACHEPS_SHARED if this variable is set, and otherwise
/// `../shared` next to the source tree. Returns an empty path if neither exists.
inline std::filesystem::path shared_folder() {
    if (const char* named = std::getenv("MACHEPS_SHARED")) return named;
    const std::filesystem::path beside = std::filesystem::path(MACHEPS_SOURCE_DIR).parent_path() / "shared";
    return std::filesystem::exists(beside) ? beside : std::filesystem::path{};
}

}  // namespace macheps::test
