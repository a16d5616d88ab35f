// SPDX-License-Identifier: Apache-2.0
// Delayed scaling: a tensor is cast with a scale that is computed from the largest magnitudes of earlier tensors. Host
// only.
// Source: NVIDIA/TransformerEngine common/recipe/delayed_scaling.cu, pytorch/quantization.py.
#pragma once
#include "emulation/scaling/rules.hpp"

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace macheps {

/// Which amax of the history determines the next scale: the largest or the most recent one.
enum class AmaxChoice : std::uint8_t { max, most_recent };

struct AmaxChoiceName {
    std::string_view name;
    AmaxChoice value;
    std::string_view summary;
};
inline constexpr AmaxChoiceName amax_choices[] = {
    {"max", AmaxChoice::max, "the largest amax of the history"},
    {"most_recent", AmaxChoice::most_recent, "the last amax"},
};

/// Options of a scale rule that computes its scale from a history of amaxes.
struct DelayedScaling {
    int length = 1024;  ///< number of amaxes in the history, 1 to `longest`
    int margin = 0;     ///< headroom: the encode scale is multiplied by 2^-margin; 0 to `widest`
    AmaxChoice choice = AmaxChoice::max;

    static constexpr int longest = 1 << 16, widest = 64;
    constexpr bool operator==(const DelayedScaling&) const = default;
};

/// History of the largest magnitudes of the tensors that are cast at one point of a program, in successive steps.
///
///     AmaxHistory history(rule, e4m3fn, {.length = 16});
///     for each step:  cast by history.scale();  history.observe(amax of the tensor);  history.update();
class AmaxHistory {
  public:
    AmaxHistory(const ScaleRule& rule, const Format& element, const DelayedScaling& how)
        : rule_(&rule), max_(decode(element, element.max_finite_code() << element.padding)), how_(how) {}

    /// Returns the encode scale: the current tensor is multiplied by it before the cast. Codes are multiplied by
    /// decode_scale().
    float scale() const { return scale_; }
    float decode_scale() const { return 1.0f / scale_; }

    /// Records the largest magnitude of a tensor of this step. NaN is ignored, which is what fmaxf does. But if the
    /// rule has enters_all, NaN counts as larger than any number, which is what torch.amax does.
    void observe(float amax) { seen_ = larger(amax, seen_); }
    /// Returns the largest magnitude recorded since the last update.
    float seen() const { return seen_; }

    /// Ends the step: adds the recorded amax to the history and computes the next scale. A step with only zeros changes
    /// nothing, unless the rule has enters_all. Returns the amax that determined the scale, or 0 if there was none.
    float update() {
        if (seen_ == 0 && !rule_->enters_all) return 0;
        amaxes_.push_back(seen_);
        if (amaxes_.size() > static_cast<std::size_t>(how_.length)) amaxes_.pop_front();
        float amax = seen_;
        if (how_.choice == AmaxChoice::max) {
            for (const float each : amaxes_) amax = larger(each, amax);
        }
        scale_ = rule_->next(amax, max_, how_.margin, scale_);
        seen_ = 0;
        return amax;
    }

    /// Returns the state for a checkpoint between two updates: the scale, the recorded amax, then `length` amaxes from
    /// the oldest to the newest. If the history has fewer amaxes, zeros come before the oldest.
    std::vector<float> state() const {
        std::vector<float> all{scale_, seen_};
        all.resize(state_size(how_) - amaxes_.size(), 0.0f);
        all.insert(all.end(), amaxes_.begin(), amaxes_.end());
        return all;
    }
    static std::size_t state_size(const DelayedScaling& how) { return 2 + static_cast<std::size_t>(how.length); }
    /// Restores what state() returned for a history of the same length.
    void load(std::span<const float> state) {
        scale_ = state[0];
        seen_ = state[1];
        amaxes_.clear();
        for (const float amax : state.subspan(2)) {
            // Leading zeros may be padding. If the rule has enters_all, they become amaxes of 0, which does not change
            // any scale.
            if (amax != 0 || rule_->enters_all) amaxes_.push_back(amax);
        }
    }

  private:
    float larger(float a, float b) const {
        if (rule_->enters_all && (a != a || b != b)) return std::numeric_limits<float>::quiet_NaN();
        return a > b ? a : b;
    }

    const ScaleRule* rule_;
    float max_;
    DelayedScaling how_;
    float scale_ = 1, seen_ = 0;
    std::deque<float> amaxes_;  ///< oldest first
};

}  // namespace macheps
