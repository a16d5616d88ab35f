// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/store/unit_recipe.hpp"

#include "experiments/training/run/directory/manifest.hpp"
#include "reports/rows/checksum.hpp"

#include <stdexcept>
#include <string_view>

namespace macheps::training {

std::uint64_t checksum_of_sources(std::span<const policy::PolicySource> sources) {
    reports::Checksum sum;
    for (const policy::PolicySource& source : sources) {
        const std::string head = source.name + '\n' + std::to_string(source.text.size()) + '\n';
        sum.update(head);
        sum.update(source.text);
    }
    return sum.value();
}

policy::Policy as_in_sweep(const policy::Policy& policy, const std::filesystem::path& folder) {
    std::vector<policy::PolicySource> sources = policy.sources;
    for (policy::PolicySource& source : sources) {
        if (!source.is_file) continue;
        // A policy file may extend other files, which it names relative to its own folder. All files therefore keep
        // their positions relative to each other.
        const std::filesystem::path from = std::filesystem::path(source.name).lexically_proximate(folder);
        source.name = ("policies" / from).lexically_normal().string();
    }
    return policy::parse_policy(sources);
}

std::filesystem::path file_of_source(const std::string& name, const std::filesystem::path& folder) {
    return (folder / std::filesystem::path(name).lexically_relative("policies")).lexically_normal();
}

std::string unit_id(const Experiment& experiment) {
    const SharedInputs inputs(experiment);
    return reports::to_hex(recipe_checksum(manifest_text(experiment, inputs.policies, inputs.data->describe(), "")));
}

UnitIds::UnitIds(Experiment experiment, const std::vector<policy::ResolvedPolicy>& resolved,
                 const std::string& description) {
    experiment.seeds = {0};
    const std::string recipe = recipe_text(manifest_text(experiment, resolved, description, ""));
    // The text that is searched for contains quotes. In JSON, quotes inside strings are escaped, so the search finds
    // the member `seeds` and never a part of a string.
    constexpr std::string_view before = ",\"seeds\":[", seeds = "0", after = "],\"policies\":";
    const std::size_t at = recipe.find(std::string(before) + std::string(seeds) + std::string(after));
    if (at == recipe.npos) throw std::logic_error("a recipe has no seeds before its policies");
    head_ = recipe.substr(0, at + before.size());
    tail_ = recipe.substr(at + before.size() + seeds.size());
}

std::string UnitIds::of_seed(std::int64_t seed) const {
    reports::Checksum sum;
    sum.update(head_);
    sum.update(std::to_string(seed));
    sum.update(tail_);
    return reports::to_hex(sum.value());
}

}  // namespace macheps::training
