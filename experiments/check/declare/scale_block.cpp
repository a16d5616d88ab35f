// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/declare/scale_block.hpp"

#include "emulation/scaling/rules.hpp"

#include <charconv>

namespace macheps::check {

namespace {

std::int64_t number(std::string_view text) {
    std::int64_t x = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
    return error == std::errc{} && end == text.data() + text.size() && x > 0 && x <= (1 << 20) ? x : 0;
}

}  // namespace

std::optional<ScaleBlock> scale_block(std::string_view text) {
    if (const Granularity* row = find_granularity(text); row != nullptr && row->k > 0) {
        ScaleBlock block{.outer = row->outer, .k = row->k};
        if (row->kind != ScaleKind::fp32) block.format = scale_format(row->kind);
        return block;
    }
    const std::size_t x = text.find('x');
    if (x == std::string_view::npos) return {};
    const ScaleBlock block{.outer = number(text.substr(0, x)), .k = number(text.substr(x + 1))};
    if (block.outer == 0 || block.k == 0) return {};
    return block;
}

}  // namespace macheps::check
