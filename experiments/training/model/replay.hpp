// SPDX-License-Identifier: Apache-2.0
// Replay: a part of a forward pass done again, for the backward pass, with the bits that it had.
//
// A stochastic cast is told apart by its slot, its batch and how often the slot was met before. Done again from what was
// met when the part began, it has the key that it had then and so the same words: one rounding, computed twice. Whoever
// observes was told of it the first time.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <optional>
#include <utility>

namespace macheps::training {

/// Wants what another observer wants, and keeps it to itself: values that are read in full are made in full again.
class SilentObserver final : public Observer {
  public:
    explicit SilentObserver(const Observer& like) : like_(like) {}
    bool sampling() const override { return like_.sampling(); }
    bool capturing() const override { return like_.capturing(); }
    void on_cast(const Slot&, const Cast&, const Tally&, const Decoding&, ConstView, ConstView) override {}

  private:
    const Observer& like_;
};

/// While it is there, the rounder goes on from `met`, and nobody is told. At its end all is as it was.
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
