// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/optimizer/all_reduce.hpp"

#include "core/codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace macheps::training {

namespace {

/// The function that implements a row of policy::reduce_orders. `functions` and policy::reduce_orders have their rows
/// in the same order.
struct OrderFunction {
    std::string_view name;
    void (AllReduce::*sum)(std::span<const View>);
};
constexpr OrderFunction functions[] = {
    {"ring", &AllReduce::ring}, {"tree", &AllReduce::tree}, {"gather", &AllReduce::gather}, {"fp64", &AllReduce::fp64}};
static_assert(
    std::size(functions) == std::size(policy::reduce_orders) &&
        [] {
            for (std::size_t i = 0; i < std::size(functions); ++i) {
                if (functions[i].name != policy::reduce_orders[i].name) return false;
            }
            return true;
        }(),
    "an order has its function");

View slice(View vector, std::int64_t first, std::int64_t end) { return {vector.data + first, {end - first}}; }

/// Returns the value of torch's _get_gradient_predivide_factor.
double predivide_factor(std::int64_t ranks) {
    std::int64_t factor = 1;
    while (ranks % factor == 0 &&
           static_cast<double>(ranks) / static_cast<double>(factor) > static_cast<double>(factor))
        factor *= 2;
    return static_cast<double>(factor);
}

}  // namespace

RankFactors rank_factors(const policy::ReduceConfig& config, std::int64_t ranks) {
    const auto all = static_cast<double>(ranks);
    const double before = config.average->name == "before"  ? all
                          : config.average->name == "split" ? predivide_factor(ranks)
                                                            : config.predivide;
    return {.before = before, .after = all / before};
}

std::pair<std::int64_t, std::int64_t> ring_chunk(std::int64_t count, std::int64_t ranks, std::int64_t chunk) {
    const std::int64_t size = (count + ranks - 1) / ranks;
    return {std::min(count, chunk * size), std::min(count, (chunk + 1) * size)};
}

void AllReduce::to_wire(View x, Tally& tally) {
    if (wire_.is_identity() || x.count() == 0) return;
    Cast cast{.format = wire_.format,
              .round = wire_.round,
              .overflow = wire_.overflow,
              .key = key_,
              .random_bits = wire_.random_bits};
    cast.key.site ^= roundings_++ * 0x165667b1u;
    Tally one;
    backend_.cast(x, x, cast, counts ? &one : nullptr);
    if (counts) tally += one;
}

void AllReduce::divide(View x, double by) {
    if (by == 1 || x.count() == 0) return;
    int exponent = 0;
    if (!config_.divides || std::frexp(by, &exponent) == 0.5) {
        return backend_.scale(x, static_cast<float>(1.0 / by), x);
    }
    // The division is done on the host. Engines cannot divide a tensor by a number, because no model needs that.
    std::vector<float> values(static_cast<std::size_t>(x.count()));
    backend_.download(x, values);
    for (float& value : values) value = static_cast<float>(double{value} / by);
    backend_.upload(values, x);
}

void AllReduce::run(std::span<const View> parts) {
    const auto [before, after] = rank_factors(config_, static_cast<std::int64_t>(parts.size()));
    for (const View& part : parts) {
        to_wire(part, sent);
        if (before == 1) continue;
        divide(part, before);
        to_wire(part, sent);
    }
    const auto order = static_cast<std::size_t>(config_.order - std::begin(policy::reduce_orders));
    (this->*functions[order].sum)(parts);
    if (after == 1) return;
    divide(parts[0], after);
    if (config_.order->name != "gather" || config_.accumulates_in_wire) to_wire(parts[0], summed);
}

/// Adds the parts around a ring, in chunks. Each chunk starts at a different rank. The first hop copies the chunks.
/// Each later hop adds the part of one more rank to every element and rounds the sum.
void AllReduce::ring(std::span<const View> parts) {
    const auto ranks = static_cast<std::int64_t>(parts.size());
    const std::int64_t count = parts[0].count();
    Tensor memory = backend_.empty({std::max<std::int64_t>(count, 1)});
    const View sum{memory.data(), {count}};
    for (std::int64_t hop = 0; hop < ranks; ++hop) {
        for (std::int64_t chunk = 0; chunk < ranks; ++chunk) {
            const auto [first, end] = ring_chunk(count, ranks, chunk);
            if (first == end) continue;
            const std::int64_t from = (chunk + config_.start % ranks + hop) % ranks;
            const View part = slice(parts[static_cast<std::size_t>(from)], first, end), to = slice(sum, first, end);
            hop == 0 ? backend_.copy(part, to) : backend_.add(to, part, to);
        }
        if (hop > 0) to_wire(sum, summed);
    }
    if (count > 0) backend_.copy(sum, parts[0]);
}

/// Adds the parts in a binary tree. Leaf i is the part of rank i. If the number of ranks is not a power of two, some
/// nodes have only one child, and their value is the value of that child.
void AllReduce::tree(std::span<const View> parts) {
    const std::size_t ranks = parts.size();
    for (std::size_t half = 1; half < ranks; half *= 2) {
        for (std::size_t left = 0; left + half < ranks; left += 2 * half) {
            backend_.add(parts[left], parts[left + half], parts[left]);
            to_wire(parts[left], summed);
        }
    }
}

void AllReduce::gather(std::span<const View> parts) {
    Tensor zero = backend_.empty({std::max<std::int64_t>(parts[0].count(), 1)});
    const View sum{zero.data(), {parts[0].count()}};
    if (sum.count() == 0) return;
    backend_.fill(sum, 0.0f);
    for (const View& part : parts) {
        backend_.add(sum, part, sum);
        if (config_.accumulates_in_wire) to_wire(sum, summed);
    }
    backend_.copy(sum, parts[0]);
}

/// Adds the parts on the host, because no engine adds in fp64. The sum is rounded once, from fp64 to the wire format.
/// If the wire format rounds stochastically, this sum is rounded to nearest even instead.
void AllReduce::fp64(std::span<const View> parts) {
    const auto count = static_cast<std::size_t>(parts[0].count());
    std::vector<double> sums(count, 0.0);
    std::vector<float> values(count);
    for (const View& part : parts) {
        backend_.download(part, values);
        for (std::size_t i = 0; i < count; ++i) sums[i] += double{values[i]};
    }
    const Round mode = wire_.round == Round::stochastic ? Round::nearest_even : wire_.round;
    for (std::size_t i = 0; i < count; ++i) {
        const double x = sums[i] == sums[i] ? sums[i] : NAN;
        values[i] = static_cast<float>(decode64(wire_.format, encode64(wire_.format, x, mode, wire_.overflow)));
    }
    backend_.upload(values, parts[0]);
}

}  // namespace macheps::training
