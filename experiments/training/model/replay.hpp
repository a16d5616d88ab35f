// SPDX-License-Identifier: Apache-2.0
// Replay: repeats a part of a forward pass during the backward pass and gets the same bits.
//
// The key of a stochastic cast depends on its slot, its batch and the number of earlier casts of that slot in the
// batch. A replay restores the counts from the time when the part first began. Each cast therefore gets the same key
// and draws the same random words as the first time. Observers are not notified again.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <optional>
#include <utility>

namespace macheps::training {

/// An observer that requests the same values as the observer `like` and ignores them. The replay therefore computes
/// every value that the first pass computed, also those that only an observer needs.
class SilentObserver final : public Observer {
  public:
    explicit SilentObserver(const Observer& like) : like_(like) {}
    bool sampling() const override { return like_.sampling(); }
    bool capturing() const override { return like_.capturing(); }
    void on_cast(const Slot&, const Cast&, const Tally&, const Decoding&, ConstView, ConstView) override {}

  private:
    const Observer& like_;
};

/// While a Replay exists, the rounder continues from the counts `met`, and observers are not notified. The destructor
/// restores the rounder.
class Replay {
  public:
    Replay(Rounder& rounder, Rounder::Met met)
        : rounder_(rounder), met_(std::exchange(rounder.met_, std::move(met))), observer_(rounder.observer()) {
        if (observer_ != nullptr) rounder_.observe(&silent_.emplace(*observer_));
    }
    ~Replay() {
        rounder_.observe(observer_);
        rounder_.met_ = std::move(met_);
    }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

  private:
    Rounder& rounder_;
    Rounder::Met met_;
    Observer* observer_;
    std::optional<SilentObserver> silent_;
};

}  // namespace macheps::training
