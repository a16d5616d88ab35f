// SPDX-License-Identifier: Apache-2.0
// Blocks of elements with a scale of their own, by their names in a declaration.
#pragma once
#include "core/format.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace macheps::check {

/// Elements that share a scale: `outer` rows of a or columns of b, and `k` terms of the sum.
struct ScaleBlock {
    std::int64_t outer = 1, k = 0;
    std::optional<Format> format{};  ///< that the name implies: mx32 has e8m0fnu
};
/// `1x128`, `128x128` or any two numbers, `mx32`, `nvfp4`; nothing for other words.
std::optional<ScaleBlock> scale_block(std::string_view text);

}  // namespace macheps::check
