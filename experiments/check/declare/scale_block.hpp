// SPDX-License-Identifier: Apache-2.0
// Names of the blocks of elements that share a scale, as declarations spell them.
#pragma once
#include "core/format.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace macheps::check {

/// A block of elements that share a scale. It has `k` terms of the sum in each of `outer` rows of a or columns of b.
struct ScaleBlock {
    std::int64_t outer = 1, k = 0;
    std::optional<Format> format{};  ///< format of the scale if the name implies it: e8m0fnu for mx32
};
/// Parses two sizes such as `1x128` or `128x128`, or the name of a granularity such as `mx32` or `nvfp4`. Returns
/// nothing for other text.
std::optional<ScaleBlock> scale_block(std::string_view text);

}  // namespace macheps::check
