// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/histories.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace macheps::training {

namespace {

AmaxHistory history_of(const policy::CastRule& rule) { return {*rule.scale_rule, rule.format, rule.delayed}; }

/// AmaxHistories::state() appends this number of values to the state of a history: the two counts of its Age.
constexpr std::size_t of_age = 2;

}  // namespace

AmaxHistories::AmaxHistories(const policy::ResolvedPolicy& policy) {
    for (const auto& [slot, rule] : policy.casts) {
        if (rule.has_history()) entry(slot, rule);
    }
}

AmaxHistories::Entry& AmaxHistories::entry(const std::string& slot, const policy::CastRule& rule) {
    const auto found = all_.find(slot);
    if (found != all_.end()) return found->second;
    return all_.emplace(slot, Entry{history_of(rule)}).first->second;
}

void AmaxHistories::update() {
    for (auto& [slot, entry] : all_) {
        const float scale = entry.history.scale();
        const float amax = entry.history.update();
        const bool is_frozen = amax == 0 || !std::isfinite(amax);  // no scale can be computed from this amax
        const bool is_kept = entry.history.scale() == scale;
        entry.age = {is_kept ? entry.age.steps + 1 : 0, is_kept && is_frozen ? entry.age.frozen + 1 : 0};
    }
}

std::vector<std::pair<std::string, std::vector<float>>> AmaxHistories::state() const {
    std::vector<std::pair<std::string, std::vector<float>>> states;
    for (const auto& [slot, entry] : all_) {
        std::vector<float> state = entry.history.state();
        // Counts above 2^24 are rounded to a float, which is precise enough for a report.
        state.insert(state.end(), {static_cast<float>(entry.age.steps), static_cast<float>(entry.age.frozen)});
        states.emplace_back(slot, std::move(state));
    }
    return states;
}

void AmaxHistories::load(const std::string& name, const std::vector<float>& state) {
    Entry& entry = all_.at(name);
    const std::size_t end = state.size() - of_age;
    entry.history.load(std::span(state).first(end));
    entry.age = {static_cast<std::int64_t>(state[end]), static_cast<std::int64_t>(state[end + 1])};
}

std::vector<std::pair<std::string, std::size_t>> AmaxHistories::layout(const policy::ResolvedPolicy& policy) {
    std::vector<std::pair<std::string, std::size_t>> sizes;
    for (const auto& [slot, rule] : policy.casts) {
        if (rule.has_history()) sizes.emplace_back(slot, AmaxHistory::state_size(rule.delayed) + of_age);
    }
    return sizes;
}

}  // namespace macheps::training
