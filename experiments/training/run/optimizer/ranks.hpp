// SPDX-License-Identifier: Apache-2.0
// Ranks: data parallel training in one process. Each rank's gradients are made one after the other by the same model, kept,
// and reduced to one as [reduce] of the policy says. What ranks change is arithmetic; threads change nothing.
#pragma once
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/optimizer/all_reduce.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace macheps::training {

/// A vector that is reduced as one: parameters side by side, all of one wire format.
struct ReduceBucket {
    policy::CastRule wire{};
    std::vector<std::size_t> parameters{};  ///< their places in the model, in the order of the vector
    std::int64_t count = 0;                 ///< of elements
};

/// A gradient as bucketing sees it.
struct GradientSize {
    policy::CastRule wire{};
    std::int64_t count = 0;
};

/// Gradients of one format, in the order of their first member: `tensor` has a bucket for each, `model` one for each
/// format, `ddp` goes through them backwards and closes a bucket once it has 1 MiB, later ones once they have 25 MiB.
std::vector<ReduceBucket> reduce_buckets(const policy::Bucketing& bucketing, std::span<const GradientSize> gradients);

class Ranks {
  public:
    /// Where the reduction's roundings are counted: what each rank sends, and the sums.
    static constexpr const char *sent_slot = "all_reduce:grad.wire", *summed_slot = "all_reduce:grad.out";

    Ranks(Backend& backend, const policy::ResolvedPolicy& policy, Transformer& model, std::int64_t ranks,
          std::uint64_t seed);

    std::int64_t count() const { return ranks_; }
    /// What is reduced as one, in that order; nothing where there is one rank.
    std::span<const ReduceBucket> buckets() const { return buckets_; }
    /// The gradients of the model are those of `rank`.
    void keep(std::int64_t rank);
    /// All ranks are kept: their mean becomes the gradient of the model, in its format. Tells `observer`, which may be null.
    void reduce(std::int64_t step, Observer* observer);

  private:
    void tell(Observer& observer, const Slot& slot, const policy::CastRule& wire, const Tally& tally) const;

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
