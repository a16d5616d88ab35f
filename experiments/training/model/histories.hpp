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
    /// Creates a history for every slot of the policy that has one.
    explicit AmaxHistories(const policy::ResolvedPolicy& policy);

    bool empty() const { return all_.empty(); }
    /// Returns the history of a slot. Creates it if it does not exist yet.
    AmaxHistory& of(const std::string& slot, const policy::CastRule& rule) { return entry(slot, rule).history; }
    /// How long the scale of a slot has not changed.
    struct Age {
        std::int64_t steps = 0;   ///< updates since the last change, or since the beginning
        std::int64_t frozen = 0;  ///< the last of these that kept it because the amax was 0, Inf or NaN
    };
    Age age(const std::string& slot, const policy::CastRule& rule) { return entry(slot, rule).age; }
    /// Ends a micro-batch: adds the amaxes that its casts recorded on all ranks to the histories. Call it after the
    /// backward pass of the last rank. TransformerEngine updates the histories of the forward slots before the backward
    /// pass. This makes no difference, because forward slots cast nothing new during the backward pass.
    void update();

    /// Returns the name and state of each slot, sorted by name.
    std::vector<std::pair<std::string, std::vector<float>>> state() const;
    /// Restores the state of a slot, which the policy must have.
    void load(const std::string& name, const std::vector<float>& state);

    /// Returns the names and sizes of what state() returns for a policy.
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
