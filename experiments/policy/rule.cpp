// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::policy {

bool Policy::Rule::is_low() const {
    return std::any_of(casts.begin(), casts.end(), [](const SlotCast& each) {
        return each.cast.format.bits <= 8 && (each.slot.ends_with(".a") || each.slot.ends_with(".b"));
    });
}

std::string Policy::Rule::origin() const {
    return fmt::format("{}{}, rule {}", from_preset ? "preset " : "", source, number);
}

std::string Policy::Rule::where(files::SourcePlace place) const {
    return fmt::format("{}{}:{}:{} (rule {})", from_preset ? "preset " : "", source, place.line, place.column, number);
}

bool Policy::Rule::MatmulSetting::changes_rule() const {
    return std::any_of(keys.begin(), keys.end(), [](const KeyValue& each) { return each.key->changes_rule(); });
}

void Policy::Rule::MatmulSetting::apply_to(MatmulChoice& choice) const {
    if (std::any_of(keys.begin(), keys.end(), [](const KeyValue& each) { return each.key->resets_rule(); })) {
        choice.rule = {.machine = choice.rule.machine};
        choice.named = nullptr;
    }
    std::vector<KeyValue> in_turn = keys;
    std::stable_sort(in_turn.begin(), in_turn.end(),
                     [](const KeyValue& x, const KeyValue& y) { return x.key->turn < y.key->turn; });
    for (const KeyValue& each : in_turn) each.key->apply(each.value, choice);
}

}  // namespace macheps::policy
