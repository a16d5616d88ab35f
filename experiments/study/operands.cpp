// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/operands.hpp"

#include "core/math64.hpp"

#include <cmath>

namespace macheps::study {

std::string_view to_string(Distribution distribution) {
    for (const NamedDistribution& row : all_distributions) {
        if (row.distribution == distribution) return row.name;
    }
    return {};
}

std::optional<Distribution> find_distribution(std::string_view name) {
    for (const NamedDistribution& row : all_distributions) {
        if (row.name == name) return row.distribution;
    }
    return std::nullopt;
}

double drawn_wide_element(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer,
                          std::int64_t p, double scale) {
    if (distribution == Distribution::equal) return scale;
    const RngKey key{.seed = seed, .site = site_id(operand == Operand::a ? "gemm.a" : "gemm.b")};
    const PhiloxBlock random =
        random_block(key, static_cast<std::uint64_t>(outer) << 32 | static_cast<std::uint64_t>(p));
    const std::uint64_t first = std::uint64_t{random.word[1]} << 32 | random.word[0];
    const std::uint64_t second = std::uint64_t{random.word[3]} << 32 | random.word[2];
    // The upper 53 bits of a word make a number in [0, 1). Some distributions use the 11 low bits to select a sign or
    // an outlier.
    const double u = static_cast<double>(first >> 11) * 0x1p-53, v = static_cast<double>(second >> 11) * 0x1p-53;
    const auto normal = [u, v] {  // Box-Muller transform
        return std::sqrt(-2 * math::log(u + 0x1p-53)) * math::cos(0x1.921fb54442d18p+2 * v);
    };
    double x = 0;
    switch (distribution) {
        case Distribution::normal:
            x = normal();
            break;
        case Distribution::uniform:
            x = 2 * u - 1;
            break;
        case Distribution::positive:
            x = u;
            break;
        case Distribution::lognormal:
            x = math::exp(2 * normal());
            if ((second & 1) != 0) x = -x;
            break;
        case Distribution::outliers:
            x = normal() * ((second & 127) == 0 ? 64 : 1);
            break;
        case Distribution::equal:
            break;
    }
    return scale * x;
}

float drawn_element(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p,
                    double scale) {
    return static_cast<float>(drawn_wide_element(distribution, operand, seed, outer, p, scale));
}

std::vector<float> drawn_operand(Distribution distribution, Operand operand, std::uint64_t seed, std::int64_t outer,
                                 std::int64_t k, double scale) {
    std::vector<float> x(static_cast<std::size_t>(outer * k));
    for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t p = 0; p < k; ++p) {
            x[operand == Operand::a ? o * k + p : p * outer + o] =
                drawn_element(distribution, operand, seed, o, p, scale);
        }
    }
    return x;
}

}  // namespace macheps::study
