// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/unit_recipe.hpp"

#include "experiments/train/manifest.hpp"
#include "reports/checksum.hpp"

namespace macheps {

std::uint64_t checksum_of_sources(std::span<const PolicySource> sources) {
    Checksum sum;
    for (const PolicySource& source : sources) {
        const std::string head = source.name + '\n' + std::to_string(source.text.size()) + '\n';
        sum.update(head);
        sum.update(source.text);
    }
    return sum.value();
}

Policy as_in_sweep(const Policy& policy, const std::filesystem::path& folder) {
    std::vector<PolicySource> sources = policy.sources;
    for (PolicySource& source : sources) {
        if (!source.is_file) continue;
        // What a file extends is named from where that file lies, so that all keep their places towards each other.
        const std::filesystem::path from = std::filesystem::path(source.name).lexically_proximate(folder);
        source.name = ("policies" / from).lexically_normal().string();
    }
    return parse_policy(sources);
}

std::string unit_id(const Experiment& experiment, const std::vector<ResolvedPolicy>& resolved,
                    const std::string& description) {
    return to_hex(recipe_checksum(manifest_text(experiment, resolved, description, "")));
}

std::string unit_id(const Experiment& experiment) {
    const SharedInputs inputs(experiment);
    return unit_id(experiment, inputs.policies, inputs.data->describe());
}

}  // namespace macheps
