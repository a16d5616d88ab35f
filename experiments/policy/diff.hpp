// SPDX-License-Identifier: Apache-2.0
// Differences between two policies that are applied to the same model.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <vector>

namespace macheps::policy {

/// One difference between two resolved policies. Policies do not differ if only their names, their descriptions or the
/// order of their rules differ.
struct Difference {
    std::string what;  ///< `cast`, `machine`, `loss_scaler`, `reduce`, `optimizer`, `clip`, `accumulation`, `left_out`
    std::string site;  ///< a site or parameter; `block.*.mlp.up` if all blocks differ alike; empty for a setting
    std::string slot;  ///< `forward.a`; for a setting, its name: `growth_interval`
    std::string a, b;  ///< the two values as `policy explain` prints them; `-` if there is none, such as no master

    bool operator==(const Difference&) const = default;
};

/// Returns the differences in settings first, then those in sites and parameters in the order of the model. Equal
/// differences in several blocks are one entry. Its site begins with `block.*.` if all blocks differ in this way, or
/// with `block.{0,3}.` if only some blocks do.
std::vector<Difference> differences(const ResolvedPolicy& a, const ResolvedPolicy& b);

/// Returns the settings of a loss scaler as pairs (name, value), the kind first.
std::vector<std::pair<std::string, std::string>> settings_of(const LossScalerConfig& config);

/// Returns a table for people. Settings come first, then one line for each site and change. The line lists all slots
/// that change in this way.
std::string difference_table(const std::vector<Difference>& list, const std::string& name_a, const std::string& name_b);

}  // namespace macheps::policy
