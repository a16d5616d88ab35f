// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/manifest_facts.hpp"

#include "core/text/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace macheps::reports {

namespace {

/// Returns the value of `key` in an object, or nothing if it is absent or has another type. Manifests may have been
/// written by any program.
template <class Value>
std::optional<Value> value_at(const Json& object, const char* key) {
    if (!object.is_object() || !object.contains(key)) return std::nullopt;
    try {
        return object[key].get<Value>();
    } catch (const JsonError&) {
        return std::nullopt;
    }
}

}  // namespace

ManifestFacts manifest_facts(const RunFolder& folder) { return manifest_facts(Json::parse_or_null(folder.manifest)); }

ManifestFacts manifest_facts(const Json& manifest) {
    const Json model = value_at<Json>(manifest, "model").value_or(Json()),
               train = value_at<Json>(manifest, "train").value_or(Json());
    ManifestFacts facts{
        .parameters = value_at<std::int64_t>(model, "parameters"),
        .seeds = value_at<std::vector<std::int64_t>>(manifest, "seeds").value_or(std::vector<std::int64_t>{}),
        .token_weight = value_at<double>(train, "token_weight")};
    const auto layers = value_at<std::int64_t>(model, "layers"), width = value_at<std::int64_t>(model, "width");
    const Json beside = value_at<Json>(manifest, "beside_precision").value_or(Json());
    if (beside.is_object()) {
        for (const auto& [policy, words] : beside.items()) {
            if (words.is_string()) facts.beside_precision[policy] = words.string();
        }
    }
    if (const Json* policies = manifest.find("policies"); policies != nullptr && policies->is_object()) {
        for (const auto& [name, policy] : policies->items()) {
            const Json* config = policy.find("config");
            if (config == nullptr) continue;
            if (auto said = value_at<std::vector<std::string>>(*config, "not_emulated"); said && !said->empty())
                facts.not_emulated[name] = std::move(*said);
        }
    }
    if (const Json* machines = manifest.find("machines"); machines != nullptr && machines->is_object()) {
        for (const auto& [name, policy] : machines->items()) {
            const Json* matmuls = policy.find("matmuls");
            if (matmuls == nullptr || !matmuls->is_object()) continue;
            for (const auto& [machine, count] : matmuls->items()) facts.machines[name].push_back(machine);
        }
    }
    if (layers && width) facts.model = fmt::format("{} layer{} x {}", *layers, *layers == 1 ? "" : "s", *width);
    return facts;
}

std::string power_words(double x) {
    int exponent = 0;
    const bool is_power = std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
    return is_power && (x < 0.25 || x > 4) ? fmt::format("2^{}", exponent - 1) : fmt::format("{:.9g}", x);
}

std::string setup_words(std::span<const ManifestFacts> folders) {
    if (folders.empty() || folders.front().seeds.empty() || !folders.front().token_weight) return {};
    const ManifestFacts& first = folders.front();
    const bool is_one = std::all_of(folders.begin(), folders.end(), [&](const ManifestFacts& other) {
        return other.seeds == first.seeds && other.token_weight == first.token_weight;
    });
    if (!is_one) return {};
    const double weight = *first.token_weight;
    std::string seeds = fmt::format("seed{} {}", first.seeds.size() == 1 ? "" : "s", fmt::join(first.seeds, ", "));
    if (weight == 1) return seeds + "; the loss of every token has weight 1 (--seeds, --token-weight)";
    const std::string batch =
        weight > 0 && weight < 1
            ? fmt::format(", which makes the gradients as small as those of a batch {:g} times as large", 1 / weight)
            : "";
    return fmt::format("{}; the loss of every token is weighted by {} in the backward pass{} (--seeds, --token-weight)",
                       seeds, power_words(weight), batch);
}

}  // namespace macheps::reports
