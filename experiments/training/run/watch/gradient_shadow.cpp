// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/watch/gradient_shadow.hpp"

#include "core/math64.hpp"

#include <limits>

namespace macheps::training {

namespace {

/// Returns the cosine between the two gradients. Returns 0 if the policy's gradient is 0, because it then has no part
/// in the direction of the fp32 gradient.
double cosine_of(const ErrorSums& s) { return s.y2 > 0 ? s.xy / sqrt(s.x2 * s.y2) : 0; }

/// Makes `observer` the observer of the rounder during the lifetime of this object, and restores the previous observer
/// afterwards.
class Watched {
  public:
    Watched(Rounder& rounder, Observer& observer) : rounder_(rounder), before_(rounder.observer()) {
        rounder.observe(&observer);
    }
    ~Watched() { rounder_.observe(before_); }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

  private:
    Rounder& rounder_;
    Observer* before_;
};

}  // namespace

GradientShadow::GradientShadow(Backend& backend, const RunSetup& setup, Transformer& fp32_model, Step& trained)
    : StepWatcher(trained.observer()),
      backend_(backend),
      setup_(setup),
      fp32_(fp32_model),
      tokens_(backend.empty_tokens({setup.rank_batch(), setup.model.context})),
      targets_(backend.empty_tokens({setup.rank_batch(), setup.model.context})),
      unscale_(static_cast<float>(1 / trained.gradient_factor())),
      values_(backend) {
    for (std::size_t i = 0; i < fp32_.parameters().size(); ++i) {
        backend_.copy(trained.optimizer().best_value(i), fp32_.parameters()[i]->value);
    }
    fp32_.parameters_changed();
    fp32_.clear_gradients();
}

void GradientShadow::on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) {
    const StopScope scope(fp32_.rounder(), setup_.stop_now);
    backend_.upload(batch.tokens, tokens_);
    backend_.upload(batch.targets, targets_);
    const Watched watched(fp32_.rounder(), values_);
    fp32_.rounder().begin(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(micro_batch));
    fp32_.forward(tokens_, targets_);
    fp32_.backward(1 / static_cast<float>(setup_.options.micro_batches * setup_.options.ranks));
    fp32_.end_micro_batch();
}

void GradientShadow::take(const Slot& slot, ConstView values, float decode_scale) {
    const bool is_forward = slot.name.find(":forward.") != std::string::npos;
    // Unlike the fp32 gradients, the gradients of a rank have not been divided by the number of ranks yet.
    const float unscale = unscale_ / static_cast<float>(setup_.options.ranks);
    const auto distance = values_.distance(slot, values, is_forward ? decode_scale : decode_scale * unscale);
    if (distance) divergence_.observe(slot.name, *distance);
}

void GradientShadow::on_gradients(Transformer& model) {
    ErrorSums all;
    GradientFidelity found;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
        const ParameterState &own = *model.parameters()[i], &exact = *fp32_.parameters()[i];
        if (backend_.any_nonfinite(own.grad) || backend_.any_nonfinite(exact.grad)) return;
        const ErrorSums sums = backend_.compare(exact.grad, own.grad, unscale_);
        all.error2 += sums.error2, all.x2 += sums.x2, all.y2 += sums.y2, all.xy += sums.xy;
        const bool is_least = sums.x2 > 0 && (found.min_parameter.empty() || cosine_of(sums) < found.min_cosine);
        if (is_least) found.min_cosine = cosine_of(sums), found.min_parameter = own.name;
    }
    if (!(all.x2 > 0)) return;
    const double ten_over_ln10 = 4.342944819032518;
    found.cosine = cosine_of(all);
    found.proj = all.xy / all.x2;
    found.snr_db =
        all.error2 > 0 ? ten_over_ln10 * math::log(all.x2 / all.error2) : std::numeric_limits<double>::infinity();
    result_ = found;
}

}  // namespace macheps::training
