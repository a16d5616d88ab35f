// SPDX-License-Identifier: Apache-2.0
// Differences between two policies that are applied to the same model.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <vector>

namespace macheps::policy {

/// One difference in the resolved policies. The order of rules, names and texts do not count.
struct Difference {
    std::string what;  ///< `cast`, `machine`, `loss_scaler`, `reduce`, `optimizer`, `clip`, `accumulation`, `left_out`
    std::string site;  ///< a site or parameter; blocks that differ alike as `block.*.mlp.up`; empty for a setting
    std::string slot;  ///< `forward.a`; for a setting, its name: `growth_interval`
    std::string a, b;  ///< as `policy explain` spells them; `-` if there is none, for example no master copy

    bool operator==(const Difference&) const = default;
};

/// Returns the settings first, then sites and parameters in the order of the model. Equal differences in several blocks
/// are one entry: `block.*.` if every block differs in this way, `block.{0,3}.` if only some do.
std::vector<Difference> differences(const ResolvedPolicy& a, const ResolvedPolicy& b);

/// Returns the settings of a loss scaler as pairs (name, value), the kind first.
std::vector<std::pair<std::string, std::string>> settings_of(const LossScalerConfig& config);

/// Returns a table for people: settings first, then one line for each site and change, with its slots joined.
std::string difference_table(const std::vector<Difference>& list, const std::string& name_a, const std::string& name_b);

}  // namespace macheps::policy
