// SPDX-License-Identifier: Apache-2.0
// Operands of numerical experiments: distributions, drawn so that a longer k continues a shorter one.
#pragma once
#include "core/rng.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Distribution : std::uint8_t {
    normal,     ///< mean 0, deviation 1
    uniform,    ///< in [-1, 1)
    positive,   ///< uniform in [0, 1): every sum grows, and truncation shows
    lognormal,  ///< of either sign, e^(2 z) with z normal: heavy tails
    equal,      ///< all 1: the accumulator's stall
    outliers,   ///< normal, one in 128 multiplied by 64
};

struct NamedDistribution {
    std::string_view name;
    Distribution distribution;
};
inline constexpr NamedDistribution all_distributions[] = {
    {"normal", Distribution::normal},       {"uniform", Distribution::uniform}, {"positive", Distribution::positive},
    {"lognormal", Distribution::lognormal}, {"equal", Distribution::equal},     {"outliers", Distribution::outliers}};

std::string_view to_string(Distribution distribution);
std::optional<Distribution> find_distribution(std::string_view name);

/// Which operand: its outer index counts rows of a, columns of b.
enum class Operand : std::uint8_t { a, b };

/// Element (outer, p) of an operand, whatever the shape: scale times the draw, rounded to fp32.
float drawn_element(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p,
                    double scale);

/// The same before it is rounded to fp32.
double drawn_wide_element(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer,
                          std::int64_t p, double scale);

/// a [m,k] or b [k,n], row-major; `outer` is m or n.
std::vector<float> drawn_operand(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer,
                                 std::int64_t k, double scale);

}  // namespace macheps::study
