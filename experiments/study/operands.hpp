// SPDX-License-Identifier: Apache-2.0
// Random operands for numerical experiments, and their distributions. If k is increased, the earlier elements of an
// operand do not change.
#pragma once
#include "core/rng.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Distribution : std::uint8_t {
    normal,     ///< mean 0, standard deviation 1
    uniform,    ///< in [-1, 1)
    positive,   ///< uniform in [0, 1): every sum grows, so truncation errors add up
    lognormal,  ///< +-e^(2 z) with z normal and a random sign: heavy tails
    equal,      ///< all 1: shows where an accumulator stalls
    outliers,   ///< normal, with one element in 128 multiplied by 64
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

/// An operand of a product. Its outer index counts the rows of a or the columns of b.
enum class Operand : std::uint8_t { a, b };

/// Returns element (outer, p) of an operand: `scale` times the drawn number, rounded to fp32. The element does not
/// depend on the shape of the operand.
float drawn_element(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p,
                    double scale);

/// Returns the same element, but not rounded to fp32.
double drawn_wide_element(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer,
                          std::int64_t p, double scale);

/// Draws the matrix a with shape [m,k] or the matrix b with shape [k,n], in row-major order. `outer` is m or n.
std::vector<float> drawn_operand(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer,
                                 std::int64_t k, double scale);

}  // namespace macheps::study
