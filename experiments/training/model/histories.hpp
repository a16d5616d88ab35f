// SPDX-License-Identifier: Apache-2.0
// The amax histories of a model: one for each slot whose scale rule has a history. They persist across steps and are
// saved in checkpoints.
#pragma once
#include "experiments/policy/policy.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace macheps::training {

class AmaxHistories {
  public:
    AmaxHistories() = default;
    /// Creates a history for every slot of the policy whose scale rule has a history.
    explicit AmaxHistories(const policy::ResolvedPolicy& policy);

    bool empty() const { return all_.empty(); }
    /// Returns the history of a slot. Creates it if it does not exist yet.
    AmaxHistory& of(const std::string& slot, const policy::CastRule& rule) { return entry(slot, rule).history; }
    /// Number of updates for which the scale of a slot has not changed.
    struct Age {
        std::int64_t steps = 0;   ///< updates since the last change, or since the beginning
        std::int64_t frozen = 0;  ///< latest updates in a row that kept the scale, with amax 0, Inf or NaN
    };
    Age age(const std::string& slot, const policy::CastRule& rule) { return entry(slot, rule).age; }
    /// Adds the amaxes of one micro-batch to the histories. The casts of all ranks have recorded these amaxes. Call it
    /// after the backward pass of the last rank. TransformerEngine updates the histories of the forward slots before
    /// the backward pass. The results are the same, because forward slots cast nothing new during the backward pass.
    void update();

    /// Returns the name of each slot and the state of its history, sorted by name.
    std::vector<std::pair<std::string, std::vector<float>>> state() const;
    /// Restores the state of the history of slot `name`. The policy must have this slot.
    void load(const std::string& name, const std::vector<float>& state);

    /// Returns the slot names that state() returns for a policy, and the number of values in each state.
    static std::vector<std::pair<std::string, std::size_t>> layout(const policy::ResolvedPolicy& policy);

  private:
    struct Entry {
        AmaxHistory history;
        Age age{};
    };
    Entry& entry(const std::string& slot, const policy::CastRule& rule);

    std::map<std::string, Entry, std::less<>> all_;
};

}  // namespace macheps::training
