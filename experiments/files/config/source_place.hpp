// SPDX-License-Identifier: Apache-2.0
// Where something stands in a file that a person wrote.
#pragma once
#include <cstdint>

namespace macheps::files {

struct SourcePlace {
    std::uint32_t line = 0, column = 0;
};

}  // namespace macheps::files
