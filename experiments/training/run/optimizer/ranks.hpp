// SPDX-License-Identifier: Apache-2.0
// Ranks: data-parallel training in one process. The same model computes the gradients of one rank after the other. They
// are kept, and then reduced to one gradient as [reduce] of the policy says. The number of ranks changes the
// arithmetic; the number of threads does not.
#pragma once
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/optimizer/all_reduce.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace macheps::training {

/// A vector that is reduced as one: the gradients of several parameters, all with one wire format.
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

/// Returns the buckets, each with gradients of one format, in the order of their first member. `tensor` makes a bucket
/// for each gradient, and `model` one for each format. `ddp` goes through the gradients backwards. For each format, it
/// closes the first bucket once it has 1 MiB, and later ones once they have 25 MiB.
std::vector<ReduceBucket> reduce_buckets(const policy::Bucketing& bucketing, std::span<const GradientSize> gradients);

class Ranks {
  public:
    /// Slots that count the roundings of the reduction: what each rank sends, and the sums.
    static constexpr const char *sent_slot = "all_reduce:grad.wire", *summed_slot = "all_reduce:grad.out";

    Ranks(Backend& backend, const policy::ResolvedPolicy& policy, Transformer& model, std::int64_t ranks,
          std::uint64_t seed);

    std::int64_t count() const { return ranks_; }
    /// Returns the vectors that are reduced, in their order; none if there is only one rank.
    std::span<const ReduceBucket> buckets() const { return buckets_; }
    /// Keeps the current gradients of the model as those of `rank`.
    void keep(std::int64_t rank);
    /// Sets the gradients of the model to the mean of all ranks, in their format. All ranks must have been kept.
    /// Notifies `observer`, which may be null.
    void reduce(std::int64_t step, Observer* observer);

  private:
    void eprint(Observer& observer, const Slot& slot, const policy::CastRule& wire, const Tally& tally) const;

    Backend& backend_;
    const policy::ReduceConfig& config_;
    Transformer& model_;
    std::int64_t ranks_;
    std::uint64_t seed_;
    std::vector<ReduceBucket> buckets_;
    std::vector<std::vector<Tensor>> parts_;  ///< by bucket, then rank
    Slot sent_, summed_;
};

}  // namespace macheps::training
