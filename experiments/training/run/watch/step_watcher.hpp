// SPDX-License-Identifier: Apache-2.0
// StepWatcher: an observer that receives all values that the steps of a run compute.
#pragma once
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/data/data.hpp"

#include <cstdint>

namespace macheps::training {

/// An Observer that receives the values of every slot, and is notified of events between the casts. Observers form a
/// chain: each forwards everything to the next.
class StepWatcher : public Observer {
  public:
    /// `next` may be null.
    explicit StepWatcher(Observer* next) : next_(next) {}

    /// Called when a micro-batch is ready, before its forward pass.
    virtual void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) = 0;
    /// Called for each rank if there are several, after the rank's last backward pass and before the gradients of all
    /// ranks are reduced.
    virtual void on_rank(Transformer&, std::int64_t) {}
    /// Called after the last backward pass, before the optimiser reads the gradients.
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
    /// Receives the same arguments as Observer::on_value.
    virtual void take(const Slot& slot, ConstView values, float decode_scale) = 0;

    Observer* next_;
};

}  // namespace macheps::training
