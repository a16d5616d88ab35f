// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/pose/draws.hpp"

#include "core/math64.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::check {

Draws::Draws(std::uint64_t seed, std::string_view recipe, std::string_view array)
    : key_{.seed = seed, .site = site_id(fmt::format("check.{}.{}", recipe, array))} {}

double Draws::uniform(std::int64_t i) const {
    const PhiloxBlock block = random_block(key_, static_cast<std::uint64_t>(i));
    const std::uint64_t bits = std::uint64_t{block.word[1]} << 32 | block.word[0];
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

double Draws::normal(std::int64_t i) const {  // Box-Muller transform
    const PhiloxBlock block = random_block(key_, static_cast<std::uint64_t>(i));
    const std::uint64_t first = std::uint64_t{block.word[1]} << 32 | block.word[0],
                        second = std::uint64_t{block.word[3]} << 32 | block.word[2];
    const double u = (static_cast<double>(first >> 12) + 0.5) * 0x1p-52,
                 v = static_cast<double>(second >> 11) * 0x1p-53;
    return std::sqrt(-2 * math::log(u)) * math::cos(0x1.921fb54442d18p+2 * v);
}

std::int64_t Draws::whole(std::int64_t i, std::int64_t least, std::int64_t greatest) const {
    return least + static_cast<std::int64_t>(std::floor(uniform(i) * static_cast<double>(greatest - least + 1)));
}

std::int64_t Draws::signed_whole(std::int64_t i, std::int64_t least, std::int64_t greatest) const {
    const std::int64_t choice = whole(i, 0, 2 * (greatest - least) + 1), size = least + choice / 2;
    return choice % 2 == 0 ? size : -size;
}

}  // namespace macheps::check
