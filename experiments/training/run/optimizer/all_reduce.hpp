// SPDX-License-Identifier: Apache-2.0
// One vector of each rank to their mean, as [reduce] of a policy says: docs/ranks.md is the definition. Nothing here
// depends on threads: every element has its order of additions and its roundings.
#pragma once
#include "core/tally.hpp"
#include "emulation/backend.hpp"
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace macheps::training {

/// What parts are divided by before they are sent, and sums after: their product is the number of ranks.
struct RankFactors {
    double before = 1, after = 1;
};
RankFactors rank_factors(const policy::ReduceConfig& config, std::int64_t ranks);

/// Elements [first, end) of the chunk `chunk` of a ring over `count` elements; empty where there are more ranks than
/// elements.
std::pair<std::int64_t, std::int64_t> ring_chunk(std::int64_t count, std::int64_t ranks, std::int64_t chunk);

class AllReduce {
  public:
    /// `wire` is the format that is sent, without a scale. Random words of a stochastic one are those of streams
    /// (key.seed, key.step, key.site ^ n c), n = 0, 1, ... for one rounding of a whole vector after the other.
    AllReduce(Backend& backend, const policy::ReduceConfig& config, policy::CastRule wire, RngKey key)
        : backend_(backend), config_(config), wire_(wire), key_(key) {}

    /// The mean of `parts`, one vector for each rank, into parts[0]; the others hold anything then.
    void run(std::span<const View> parts);

    /// What rounding to the wire did to the parts, and to the sums. Counted where `counts` is true.
    bool counts = false;
    Tally sent{}, summed{};

    // --- the orders: parts[0] becomes the sum
    void ring(std::span<const View> parts);
    void tree(std::span<const View> parts);
    void gather(std::span<const View> parts);
    void fp64(std::span<const View> parts);

  private:
    void to_wire(View x, Tally& tally);
    /// x / by, or x * (1 / by) with the reciprocal rounded to fp32.
    void divide(View x, double by);

    Backend& backend_;
    const policy::ReduceConfig& config_;
    policy::CastRule wire_;
    RngKey key_;
    std::uint32_t roundings_ = 0;
};

}  // namespace macheps::training
