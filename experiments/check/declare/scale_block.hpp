// SPDX-License-Identifier: Apache-2.0
// Blocks of elements that share a scale, by their names in a declaration.
#pragma once
#include "core/format.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace macheps::check {

/// Elements that share a scale: `outer` rows of a or columns of b, and `k` terms of the sum.
struct ScaleBlock {
    std::int64_t outer = 1, k = 0;
    std::optional<Format> format{};  ///< format of the scale if the name implies it: e8m0fnu for mx32
};
/// Parses `1x128`, `128x128` or any other two numbers, `mx32` and `nvfp4`. Returns nothing for other text.
std::optional<ScaleBlock> scale_block(std::string_view text);

}  // namespace macheps::check
