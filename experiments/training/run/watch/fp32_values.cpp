// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/watch/fp32_values.hpp"

#include "core/math64.hpp"

#include <limits>

namespace macheps::training {

namespace {

bool is_compared(const Slot& slot) {
    return slot.name.ends_with(".out") && !slot.name.ends_with(":weight_grad.out") &&
           !slot.name.ends_with(":bias_grad.out");
}

}  // namespace

void Fp32Values::on_value(const Slot& slot, ConstView values, float) {
    if (is_compared(slot)) backend_.copy(values, sized(backend_, kept_[slot.name], values.shape));
}

std::optional<double> Fp32Values::distance(const Slot& slot, ConstView values, float factor) const {
    const auto kept = kept_.find(slot.name);
    if (kept == kept_.end() || !(kept->second.shape() == values.shape)) return {};
    if (backend_.any_nonfinite(kept->second)) return {};
    const ErrorSums sums = backend_.compare(kept->second, values, factor);
    if (!(sums.x2 > 0)) return {};
    if (backend_.any_nonfinite(values)) return std::numeric_limits<double>::infinity();
    return sqrt(sums.error2 / sums.x2);
}

void SiteDivergence::observe(const std::string& slot, double slot_distance) {
    if (first.empty() && slot_distance > far) first = slot;
    if (slot_distance > distance || farthest.empty()) {
        farthest = slot;
        distance = slot_distance;
    }
}

}  // namespace macheps::training
