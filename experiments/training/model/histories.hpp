// SPDX-License-Identifier: Apache-2.0
// The amax histories of a model: one for each slot whose scale rule has a history. They outlive the steps, and a checkpoint
// holds them.
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
    /// A history for every slot of the policy that has one, by name.
    explicit AmaxHistories(const policy::ResolvedPolicy& policy);

    bool empty() const { return all_.empty(); }
    /// The slot's; begun where there is none.
    AmaxHistory& of(const std::string& slot, const policy::CastRule& rule) { return entry(slot, rule).history; }
    /// How long a slot's scale has been what it is.
    struct Age {
        std::int64_t steps = 0;   ///< since it changed last, or since the beginning
        std::int64_t frozen = 0;  ///< of these, the last ones in a row that kept it because the amax was 0, Inf or NaN
    };
    Age age(const std::string& slot, const policy::CastRule& rule) { return entry(slot, rule).age; }
    /// A micro-batch has been forward and backward, on every rank: what its casts showed enters each history. Slots of the
    /// forward pass cast nothing during the backward pass, so that it makes no difference that Transformer Engine updates
    /// theirs in between.
    void update();

    /// Names and states, in the order of names.
    std::vector<std::pair<std::string, std::vector<float>>> state() const;
    /// Takes back the state of a slot that the policy has.
    void load(const std::string& name, const std::vector<float>& state);

    /// Names and sizes of what state() gives for a policy.
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
