// SPDX-License-Identifier: Apache-2.0
// Fp32Values: what an fp32 model computes at its sites in one pass, kept until a policy's model with the same weights has
// computed its own from the same batch.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::training {

/// Watches the fp32 model. Kept are the results of every site, forward and backward; but for the gradients of
/// parameters, which GradientShadow compares whole.
class Fp32Values final : public Observer {
  public:
    explicit Fp32Values(Backend& backend) : backend_(backend) {}

    bool sampling() const override { return false; }
    void on_cast(const Slot&, const Cast&, const Tally&, const Decoding&, ConstView, ConstView) override {}
    bool capturing() const override { return true; }
    void on_value(const Slot& slot, ConstView values, float decode_scale) override;

    /// |factor v - v32| / |v32|, v being the policy's values at the same slot; infinite where one of v is not finite.
    /// Nothing where fp32's values were not kept, are all 0 or not all finite.
    std::optional<double> distance(const Slot& slot, ConstView values, float factor) const;

  private:
    Backend& backend_;
    std::map<std::string, Tensor, std::less<>> kept_;
};

/// Where a policy's values leave fp32's, in one step.
struct SiteDivergence {
    /// A distance of more than that is one: less than half of such values is what fp32 computes.
    static constexpr double far = 0.5;

    std::string first{};  ///< the first slot in the order of execution that is far; empty where none is
    std::string farthest{};
    double distance = 0;  ///< of the farthest one

    void see(const std::string& slot, double slot_distance);
};

}  // namespace macheps::training
