// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/optimizer/ranks.hpp"

#include "experiments/policy/sites.hpp"

#include <algorithm>

namespace macheps::training {

namespace {

// Random stream for rounding reduced gradients. It differs from the streams for rounding accumulated, unscaled and
// clipped gradients.
constexpr std::uint32_t reduce_stream = 0x27d4eb2du;

Slot named_slot(const char* name) {
    Slot slot;
    slot.name = name;
    slot.id = site_id(name);
    return slot;
}

/// Returns the cast to the wire format. The default is the format of the gradient, with rounding to nearest even. The
/// gradient is already stored in that format, so its cast changes nothing and draws no random words.
policy::CastRule wire_of(const policy::ReduceConfig& config, const ParameterState& parameter) {
    if (config.wire) return *config.wire;
    const policy::CastRule& sum = parameter.sum_slot().rule;
    return {.format = sum.format, .overflow = sum.overflow};
}

}  // namespace

std::vector<ReduceBucket> reduce_buckets(const policy::Bucketing& bucketing, std::span<const GradientSize> gradients) {
    constexpr std::int64_t first_bytes = std::int64_t{1} << 20, later_bytes = 25 * first_bytes;
    const bool is_ddp = bucketing.name == "ddp", is_single = bucketing.name == "tensor";
    std::vector<ReduceBucket> buckets;
    const auto add = [&](std::size_t i) {
        const GradientSize& gradient = gradients[i];
        ReduceBucket* last = nullptr;
        std::int64_t of_format = 0;
        for (ReduceBucket& bucket : buckets) {
            if (bucket.wire == gradient.wire) last = &bucket, ++of_format;
        }
        const std::int64_t limit = of_format == 1 ? first_bytes : later_bytes;
        const auto is_full = [&] { return is_ddp && last->count * last->wire.format.container_bits() / 8 >= limit; };
        if (last == nullptr || is_single || is_full())
            last = &buckets.emplace_back(ReduceBucket{.wire = gradient.wire});
        last->parameters.push_back(i);
        last->count += gradient.count;
    };
    for (std::size_t i = 0; i < gradients.size(); ++i) add(is_ddp ? gradients.size() - 1 - i : i);
    return buckets;
}

Ranks::Ranks(Backend& backend, const policy::ResolvedPolicy& policy, Transformer& model, std::int64_t ranks,
             std::uint64_t seed)
    : backend_(backend),
      config_(policy.reduce),
      model_(model),
      ranks_(ranks),
      seed_(seed),
      sent_(named_slot(sent_slot)),
      summed_(named_slot(summed_slot)) {
    if (ranks_ == 1) return;
    std::vector<GradientSize> gradients;
    for (const auto& parameter : model.parameters())
        gradients.push_back({.wire = wire_of(config_, *parameter), .count = parameter->shape.count()});
    buckets_ = reduce_buckets(*config_.bucket, gradients);
    for (const ReduceBucket& bucket : buckets_) {
        parts_.emplace_back();
        for (std::int64_t rank = 0; rank < ranks_; ++rank) parts_.back().push_back(backend.empty({bucket.count}));
    }
}

void Ranks::keep(std::int64_t rank) {
    if (ranks_ == 1) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        float* to = parts_[b][static_cast<std::size_t>(rank)].data();
        for (const std::size_t p : buckets_[b].parameters) {
            const Tensor& grad = model_.parameters()[p]->grad;
            backend_.copy(grad, {to, grad.shape()});
            to += grad.count();
        }
    }
}

void Ranks::reduce(std::int64_t step, Observer* observer) {
    if (ranks_ == 1) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        const ReduceBucket& bucket = buckets_[b];
        AllReduce sum(
            backend_, config_, bucket.wire,
            {seed_, static_cast<std::uint32_t>(step), sent_.id ^ static_cast<std::uint32_t>(b) * 0x9e3779b9u});
        sum.counts = observer != nullptr;
        const std::vector<View> parts(parts_[b].begin(), parts_[b].end());
        sum.run(parts);
        const float* from = parts[0].data;
        for (const std::size_t p : bucket.parameters) {
            ParameterState& parameter = *model_.parameters()[p];
            backend_.copy({from, parameter.shape}, parameter.grad);
            from += parameter.shape.count();
            const policy::CastRule& rule = parameter.sum_slot().rule;
            if (rule.is_identity()) continue;
            backend_.cast(parameter.grad, parameter.grad,
                          {.format = rule.format,
                           .round = rule.round,
                           .overflow = rule.overflow,
                           .key = {seed_, static_cast<std::uint32_t>(step), parameter.sum_slot().id ^ reduce_stream},
                           .random_bits = rule.random_bits});
        }
        if (observer == nullptr || bucket.wire.is_identity()) continue;
        report(*observer, sent_, bucket.wire, sum.sent);
        report(*observer, summed_, bucket.wire, sum.summed);
    }
}

void Ranks::report(Observer& observer, const Slot& slot, const policy::CastRule& wire, const Tally& tally) const {
    if (tally.count == 0) return;
    const Cast cast{.format = wire.format, .round = wire.round, .overflow = wire.overflow};
    observer.on_cast(slot, cast, tally, {}, {}, {});
}

}  // namespace macheps::training
