// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/stochastic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace macheps::check {

namespace {

constexpr std::size_t parts = 16;

/// Statistics of a group of outputs. Truncation would cut off a similar fraction of a step of the format from the exact
/// result of each of them. `away` counts the outputs that were rounded away from zero. `least` and `greatest` bound the
/// expected value of `away`.
struct Count {
    double outputs = 0, away = 0, least = 0, greatest = 0, variance = 0;
};

/// Returns a limit that the difference between `away` and its expected value exceeds with at most the given probability
/// (Bernstein's inequality). `variance` is the variance of `away`.
double allowance(double variance, double probability) {
    const double log = math::log(2 / probability);
    return log / 3 + std::sqrt(log * log / 9 + 2 * variance * log);
}

}  // namespace

std::optional<Reason> judge_frequencies(const Limits& limits, NumberView got, double delta) {
    std::array<Count, parts + 1> counts{};  // the last one counts all outputs
    const double grain = Format::power_of_two(-limits.random_bits);
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double size = std::fabs(limits.exact[i]);
        if (!std::isfinite(got[i]) || !std::isfinite(size)) continue;
        const Neighbours around = neighbours(limits, size);
        if (around.below == around.above || !std::isfinite(around.above)) continue;
        const double gap = around.above - around.below, part = (size - around.below) / gap,
                     error = limits.before[i] / gap;
        // A kernel compares the fraction with its random bits, the last of which has the value `grain`. It therefore
        // cuts off or rounds the fraction to a multiple of `grain`.
        const double least = std::max(0.0, part - error - grain), greatest = std::min(1.0, part + error + grain);
        const bool is_away = std::fabs(got[i]) >= around.above;
        const auto bin = std::min(parts - 1, static_cast<std::size_t>(part * parts));
        for (Count* count : {&counts[bin], &counts[parts]}) {
            ++count->outputs;
            count->away += is_away ? 1 : 0;
            count->least += least;
            count->greatest += greatest;
            count->variance +=
                least <= 0.5 && greatest >= 0.5 ? 0.25 : std::max(least * (1 - least), greatest * (1 - greatest));
        }
    }
    for (std::size_t b = parts + 1; b-- > 0;) {
        const Count& count = counts[b];
        const double room = allowance(count.variance, delta / (parts + 1));
        const double off = std::max(count.least - count.away, count.away - count.greatest);
        if (count.outputs == 0 || off <= room) continue;
        const std::string which = b == parts
                                      ? "all outputs"
                                      : fmt::format("outputs whose cut-off part is {:g} to {:g} of a step",
                                                    static_cast<double>(b) / parts, static_cast<double>(b + 1) / parts);
        Reason reason{reason_code::frequency, "T2",
                      fmt::format("{} were rounded away from zero too {}", which,
                                  count.away > count.greatest ? "often" : "rarely")};
        reason.count = static_cast<std::int64_t>(count.outputs);
        reason.got = count.away;
        reason.want = (count.least + count.greatest) / 2;
        reason.bound = room;
        reason.ratio = off / room;
        return reason;
    }
    return {};
}

}  // namespace macheps::check
