// SPDX-License-Identifier: Apache-2.0
// Reads, checks and prints the settings of a loss scaler. The keys of its kind define which settings it has.
#include "experiments/policy/scaler/scaler.hpp"

#include "core/error.hpp"
#include "core/text/float_chars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace macheps::policy {

namespace {

std::size_t index_of(const ScalerKind& kind, std::string_view key) {
    const auto row =
        std::find_if(kind.keys.begin(), kind.keys.end(), [&](const auto& each) { return each.name == key; });
    if (row != kind.keys.end()) return static_cast<std::size_t>(row - kind.keys.begin());
    throw Error({.what = fmt::format("the loss scaler '{}' has no '{}'", kind.name, key), .where = "loss_scaler"});
}

/// Upper bound (exclusive) of each part of a version such as 0.16.5. With this bound, one number can hold all parts.
constexpr std::int64_t version_step = 1000;

/// Parses a number. Returns nothing if the text contains anything else.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number value{};
    const auto [end, error] = number_from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return {};
    return value;
}

std::optional<double> value_in(ScalerValue type, std::string_view text) {
    switch (type) {
        case ScalerValue::flag:
            if (text != "true" && text != "false") return {};
            return text == "true" ? 1 : 0;
        case ScalerValue::version:
            return version_number(text);
        case ScalerValue::count: {
            const auto count = number_in<std::int64_t>(text);
            return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
        }
        case ScalerValue::fp32:
        case ScalerValue::number:
            break;
    }
    return number_in<double>(text);
}

std::string_view wanted(const ScalerKey& key) {
    switch (key.type) {
        case ScalerValue::flag:
            return "true or false";
        case ScalerValue::version:
            return "a version such as 0.16.5";
        default:
            return key.wanted.empty() ? "a number" : key.wanted;
    }
}

}  // namespace

LossScalerConfig::LossScalerConfig(const ScalerKind& of_kind,
                                   std::initializer_list<std::pair<std::string_view, double>> given)
    : kind(&of_kind) {
    for (const ScalerKey& key : kind->keys) settings.push_back(key.initial);
    for (const auto& [key, value] : given) set(key, value);
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
        case ScalerValue::version: {
            const auto number = static_cast<std::int64_t>(*value);
            return fmt::format("{}.{}.{}", number / version_step / version_step, number / version_step % version_step,
                               number % version_step);
        }
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

std::string to_toml(const LossScalerConfig& config) {
    std::string text = fmt::format("[loss_scaler]\nkind = \"{}\"\n", config.kind->name);
    for (const ScalerKey& key : config.kind->keys) {
        const std::optional<double> value = config.find(key.name);
        if (!value) continue;
        const bool is_text = key.type == ScalerValue::version;
        text += fmt::format("{} = {}{}{}\n", key.name, is_text ? "\"" : "", to_string(key, value), is_text ? "\"" : "");
    }
    return text;
}

std::optional<double> version_number(std::string_view text) {
    std::int64_t number = 0;
    for (int part = 0; part < 3; ++part) {
        const std::size_t dot = std::min(text.find('.'), text.size());
        const auto value =
            part > 0 && text.empty() ? std::optional<std::int64_t>(0) : number_in<std::int64_t>(text.substr(0, dot));
        if (!value || *value < 0 || *value >= version_step) return {};
        number = number * version_step + *value;
        const bool ends_in_dot = dot + 1 == text.size();
        if (ends_in_dot) return {};
        text.remove_prefix(std::min(dot + 1, text.size()));
    }
    if (!text.empty()) return {};
    return static_cast<double>(number);
}

double parse_setting(const ScalerKey& key, std::string_view text) {
    const std::optional<double> value = value_in(key.type, text);
    if (!value)
        throw Error({.what = fmt::format("'{}' is {}", key.name, text), .fix = fmt::format("give {}", wanted(key))});
    check_setting(key, *value);
    return *value;
}

void check_setting(const ScalerKey& key, double value) {
    if (key.is_good == nullptr || key.is_good(value)) return;
    const std::string number = key.type == ScalerValue::count ? fmt::format("{:.0f}", value) : fmt::to_string(value);
    throw Error({.what = fmt::format("'{}' is {}", key.name, number), .fix = fmt::format("give {}", key.wanted)});
}

std::unique_ptr<LossScaler> make_loss_scaler(const LossScalerConfig& config) { return config.kind->make(config); }

}  // namespace macheps::policy
