// SPDX-License-Identifier: Apache-2.0
// Reduces one vector from each rank to their mean, as [reduce] of a policy specifies. docs/ranks.md has the definition.
// The number of threads does not matter: the additions and roundings of each element have a fixed order.
#pragma once
#include "core/tally.hpp"
#include "emulation/backend.hpp"
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace macheps::training {

/// Divisors for the mean. `before` divides the part of each rank before it is sent, and `after` divides the sum. Their
/// product is the number of ranks.
struct RankFactors {
    double before = 1, after = 1;
};
RankFactors rank_factors(const policy::ReduceConfig& config, std::int64_t ranks);

/// Returns the range [first, end) of the elements in chunk number `chunk` of a ring over `count` elements. The last
/// chunks may be short or empty.
std::pair<std::int64_t, std::int64_t> ring_chunk(std::int64_t count, std::int64_t ranks, std::int64_t chunk);

class AllReduce {
  public:
    /// `wire` is the cast to the format in which vectors are sent. It has no scale. If it rounds stochastically,
    /// rounding number n = 0, 1, ... of a vector draws from the random stream (key.seed, key.step, key.site ^ n c),
    /// where c is a constant.
    AllReduce(Backend& backend, const policy::ReduceConfig& config, policy::CastRule wire, RngKey key)
        : backend_(backend), config_(config), wire_(wire), key_(key) {}

    /// Writes the mean of `parts`, one vector for each rank, to parts[0]. The other parts are then unspecified.
    void run(std::span<const View> parts);

    /// If `counts` is set, `sent` and `summed` count the effects of rounding the parts and the sums to the wire format.
    bool counts = false;
    Tally sent{}, summed{};

    // --- the orders of summation; each writes the sum to parts[0]
    void ring(std::span<const View> parts);
    void tree(std::span<const View> parts);
    void gather(std::span<const View> parts);
    void fp64(std::span<const View> parts);

  private:
    void to_wire(View x, Tally& tally);
    /// Divides x by `by` in place. If ReduceConfig::divides is not set, multiplies x by the reciprocal of `by`, rounded
    /// to fp32, instead.
    void divide(View x, double by);

    Backend& backend_;
    const policy::ReduceConfig& config_;
    policy::CastRule wire_;
    RngKey key_;
    std::uint32_t roundings_ = 0;
};

}  // namespace macheps::training
