// SPDX-License-Identifier: Apache-2.0
// StepWatcher: follows the steps of a run from within, number by number.
#pragma once
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/data/data.hpp"

#include <cstdint>

namespace macheps::training {

/// An Observer who takes the values of every slot, and who is told of what lies between the casts too. Observers form a
/// chain: what reaches this one goes on to the next.
class StepWatcher : public Observer {
  public:
    /// `next` may be null.
    explicit StepWatcher(Observer* next) : next_(next) {}

    /// A micro-batch lies ready, and its forward pass comes next.
    virtual void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) = 0;
    /// The last backward pass of one of several ranks is over, and its gradients have not met those of the others yet.
    virtual void on_rank(Transformer&, std::int64_t) {}
    /// The last backward pass is over, and the optimiser has not seen the gradients yet.
    virtual void on_gradients(Transformer& model) = 0;

    Observer* next() const { return next_; }
    bool sampling() const final { return next_ != nullptr && next_->sampling(); }
    void on_cast(const Slot& slot, const Cast& cast, const Tally& tally, const Decoding& decoding, ConstView x,
                 ConstView y) final {
        if (next_ != nullptr) next_->on_cast(slot, cast, tally, decoding, x, y);
    }
    bool capturing() const final { return true; }
    void on_value(const Slot& slot, ConstView values, float decode_scale) final {
        if (next_ != nullptr && next_->capturing()) next_->on_value(slot, values, decode_scale);
        take(slot, values, decode_scale);
    }

  private:
    /// As Observer::on_value.
    virtual void take(const Slot& slot, ConstView values, float decode_scale) = 0;

    Observer* next_;
};

}  // namespace macheps::training
