// SPDX-License-Identifier: Apache-2.0
// Where something stands in a file that a person wrote, and what is said to a person who misspelt a name there.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

struct SourcePlace {
    std::uint32_t line = 0, column = 0;
};

/// "did you mean 'x'? one of x, y, z", or without the question when no name is near.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace macheps
