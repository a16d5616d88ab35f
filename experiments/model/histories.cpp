// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/histories.hpp"

namespace macheps {

namespace {

AmaxHistory history_of(const CastRule& rule) { return {*rule.scale_rule, rule.format, rule.delayed}; }

}  // namespace

AmaxHistories::AmaxHistories(const ResolvedPolicy& policy) {
    for (const auto& [slot, rule] : policy.casts) {
        if (rule.has_history()) all_.emplace(slot, history_of(rule));
    }
}

AmaxHistory& AmaxHistories::of(const std::string& slot, const CastRule& rule) {
    return all_.try_emplace(slot, history_of(rule)).first->second;
}

void AmaxHistories::update() {
    for (auto& [slot, history] : all_) history.update();
}

std::vector<std::pair<std::string, std::vector<float>>> AmaxHistories::state() const {
    std::vector<std::pair<std::string, std::vector<float>>> states;
    for (const auto& [slot, history] : all_) states.emplace_back(slot, history.state());
    return states;
}

void AmaxHistories::load(const std::string& name, const std::vector<float>& state) { all_.at(name).load(state); }

std::vector<std::pair<std::string, std::size_t>> AmaxHistories::layout(const ResolvedPolicy& policy) {
    std::vector<std::pair<std::string, std::size_t>> sizes;
    for (const auto& [slot, rule] : policy.casts) {
        if (rule.has_history()) sizes.emplace_back(slot, AmaxHistory::state_size(rule.delayed));
    }
    return sizes;
}

}  // namespace macheps
