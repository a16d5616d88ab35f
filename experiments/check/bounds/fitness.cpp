// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/fitness.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

double bits_of(double relative) {
    return relative > 0 ? -math::log(relative) / math::log(2.0) : std::numeric_limits<double>::infinity();
}

}  // namespace

Fitness fitness_of(const Problem& problem, const Limits& limits) {
    Fitness fitness{.min_bits = std::numeric_limits<double>::infinity()};
    std::vector<double> relative;
    double lost = 0, counted = 0;
    const double normal = Format::power_of_two(std::max(limits.format.emin(), fp32.emin()));
    // The median of up to 2^20 equally spaced outputs is close enough to the median of all outputs.
    const std::size_t step = limits.exact.size() / (std::size_t{1} << 20) + 1;
    for (std::size_t i = 0; i < limits.exact.size(); ++i) {
        const double size = std::fabs(limits.exact[i]);
        if (!std::isfinite(size) || size == 0) continue;  // zeros, such as outputs of relu, have no relative error
        ++counted;
        if (i % step == 0) relative.push_back(limits.before[i] / size);
        lost += limits.before[i] > size && size + limits.before[i] >= normal ? 1 : 0;
    }
    if (!relative.empty()) {
        const auto middle = relative.begin() + static_cast<std::ptrdiff_t>(relative.size() / 2);
        std::nth_element(relative.begin(), middle, relative.end());
        fitness.bits = bits_of(*middle);
        fitness.lost_share = lost / counted;
    }
    fitness.counted = counted;
    if (!problem.products) return fitness;
    std::vector<ProductSum> sums;
    double worst = 0;
    for (std::int64_t row = 0; row < problem.rows; ++row) {
        problem.products->row(row, 0, sums);
        for (std::int64_t j = 0; j < problem.columns; ++j) {
            const std::int64_t i = row * problem.columns + j;
            const double certain = sums[static_cast<std::size_t>(j)].certain;
            if (certain == 0 || certain / problem.products->magnitudes(i) <= worst) continue;
            worst = certain / problem.products->magnitudes(i);
            fitness.worst = i;
        }
    }
    fitness.min_bits = bits_of(worst);
    return fitness;
}

}  // namespace macheps::check
