// SPDX-License-Identifier: Apache-2.0
// A scaler's settings, by the keys of its kind.
#include "experiments/scaler/scaler.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps {

namespace {

std::size_t index_of(const ScalerKind& kind, std::string_view key) {
    const auto row =
        std::find_if(kind.keys.begin(), kind.keys.end(), [&](const auto& each) { return each.name == key; });
    if (row != kind.keys.end()) return static_cast<std::size_t>(row - kind.keys.begin());
    throw Error({.what = fmt::format("the loss scaler '{}' has no '{}'", kind.name, key), .where = "loss_scaler"});
}

}  // namespace

LossScalerConfig::LossScalerConfig(const ScalerKind& of_kind,
                                   std::initializer_list<std::pair<std::string_view, double>> said)
    : kind(&of_kind) {
    for (const ScalerKey& key : kind->keys) settings.push_back(key.initial);
    for (const auto& [key, value] : said) set(key, value);
}

std::optional<double> LossScalerConfig::find(std::string_view key) const { return settings[index_of(*kind, key)]; }

void LossScalerConfig::set(std::string_view key, std::optional<double> value) {
    const std::size_t i = index_of(*kind, key);
    if (value && kind->keys[i].type == ScalerValue::fp32) value = double{static_cast<float>(*value)};
    settings[i] = value;
}

std::string to_string(const ScalerKey& key, std::optional<double> value) {
    if (!value) return "none";
    switch (key.type) {
        case ScalerValue::fp32:
            return fmt::to_string(static_cast<float>(*value));
        case ScalerValue::count:
            return fmt::to_string(static_cast<std::int64_t>(*value));
        case ScalerValue::flag:
            return *value != 0 ? "true" : "false";
        case ScalerValue::number:
            break;
    }
    return fmt::to_string(*value);
}

std::string to_string(const LossScalerConfig& config) {
    std::string text(config.kind->line);
    for (const ScalerKey& key : config.kind->keys) {
        const std::string word = fmt::format("{{{}}}", key.name);
        const std::string value = to_string(key, config.find(key.name));
        for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size())) {
            text.replace(at, word.size(), value);
        }
    }
    return text;
}

std::unique_ptr<LossScaler> make_loss_scaler(const LossScalerConfig& config) { return config.kind->make(config); }

}  // namespace macheps
