// SPDX-License-Identifier: Apache-2.0
// Ranks: data-parallel training in one process. One model computes the gradients of each rank in turn. These gradients
// are kept and then reduced to one gradient, as [reduce] of the policy specifies. The number of ranks affects the
// arithmetic; the number of threads does not.
#pragma once
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/optimizer/all_reduce.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace macheps::training {

/// A vector that the ranks reduce together: the gradients of several parameters with the same wire format.
struct ReduceBucket {
    policy::CastRule wire{};
    std::vector<std::size_t> parameters{};  ///< their indices in the model, in the order of the vector
    std::int64_t count = 0;                 ///< number of elements
};

/// The properties of a gradient that decide its bucket.
struct GradientSize {
    policy::CastRule wire{};
    std::int64_t count = 0;
};

/// Divides the gradients into buckets of one wire format each. Returns the buckets in the order of their first member.
/// `tensor` makes a bucket for each gradient, and `model` makes a bucket for each format. `ddp` adds the gradients to
/// buckets from the last gradient to the first. A bucket is full once it has 25 MiB; the first bucket of each format is
/// full once it has 1 MiB. The next gradient of the format then begins a new bucket.
std::vector<ReduceBucket> reduce_buckets(const policy::Bucketing& bucketing, std::span<const GradientSize> gradients);

class Ranks {
  public:
    /// Names of the slots that count the roundings of the reduction: the parts that the ranks send, and the sums.
    static constexpr const char *sent_slot = "all_reduce:grad.wire", *summed_slot = "all_reduce:grad.out";

    Ranks(Backend& backend, const policy::ResolvedPolicy& policy, Transformer& model, std::int64_t ranks,
          std::uint64_t seed);

    std::int64_t count() const { return ranks_; }
    /// Returns the buckets in the order in which they are reduced. There are none if there is only one rank.
    std::span<const ReduceBucket> buckets() const { return buckets_; }
    /// Stores a copy of the model's current gradients as the gradients of `rank`.
    void keep(std::int64_t rank);
    /// Sets the gradients of the model to the mean over all ranks, in the format of the gradients. keep() must have
    /// been called for every rank. Reports the roundings to `observer`, which may be null.
    void reduce(std::int64_t step, Observer* observer);

  private:
    void report(Observer& observer, const Slot& slot, const policy::CastRule& wire, const Tally& tally) const;

    Backend& backend_;
    const policy::ReduceConfig& config_;
    Transformer& model_;
    std::int64_t ranks_;
    std::uint64_t seed_;
    std::vector<ReduceBucket> buckets_;
    std::vector<std::vector<Tensor>> parts_;  ///< copies of the gradients, by bucket and then by rank
    Slot sent_, summed_;
};

}  // namespace macheps::training
