// SPDX-License-Identifier: Apache-2.0
// Fp32Values: the values that an fp32 model computes at its sites in one pass. They are kept until the policy's model,
// with the same weights, has computed its values from the same batch.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::training {

/// Watches the fp32 model and keeps the results of every site, forward and backward. It does not keep the gradients of
/// parameters, which GradientShadow compares as a whole.
class Fp32Values final : public Observer {
  public:
    explicit Fp32Values(Backend& backend) : backend_(backend) {}

    bool sampling() const override { return false; }
    void on_cast(const Slot&, const Cast&, const Tally&, const Decoding&, ConstView, ConstView) override {}
    bool capturing() const override { return true; }
    void on_value(const Slot& slot, ConstView values, float decode_scale) override;

    /// Returns the distance |factor v - v32| / |v32|, where v are the policy's values at `slot` (`values`), and v32 are
    /// fp32's values at the same slot. Returns infinity if v has a value that is not finite. Returns nothing if fp32's
    /// values were not kept, are all 0, or are not all finite.
    std::optional<double> distance(const Slot& slot, ConstView values, float factor) const;

  private:
    Backend& backend_;
    std::map<std::string, Tensor, std::less<>> kept_;
};

/// The slots where a policy's values diverge from fp32's, in one step.
struct SiteDivergence {
    /// Slots whose distance is above this limit diverge: the norm of the error is more than half the norm of the fp32
    /// values.
    static constexpr double far = 0.5;

    std::string first{};  ///< the first slot in the order of execution with a divergence; empty if none
    std::string farthest{};
    double distance = 0;  ///< distance of the slot `farthest`

    void observe(const std::string& slot, double slot_distance);
};

}  // namespace macheps::training
