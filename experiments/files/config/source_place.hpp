// SPDX-License-Identifier: Apache-2.0
// A place in a text file.
#pragma once
#include <cstdint>

namespace macheps::files {

struct SourcePlace {
    std::uint32_t line = 0, column = 0;
};

}  // namespace macheps::files
