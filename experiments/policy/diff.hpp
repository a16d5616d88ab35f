// SPDX-License-Identifier: Apache-2.0
// What two policies do differently to one model.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <vector>

namespace macheps::policy {

/// One thing that differs. The order of rules, names and texts do not count: what they resolve to does.
struct Difference {
    std::string what;  ///< `cast`, `machine`, `loss_scaler`, `reduce`, `optimizer`, `clip`, `accumulation`, `left_out`
    std::string site;  ///< a site, a parameter, or equal blocks as `block.*.mlp.up`; empty for a setting
    std::string slot;  ///< `forward.a`; of a setting its name, `growth_interval`
    std::string a, b;  ///< as `policy explain` spells them; `-`: there is none, as of a master copy

    bool operator==(const Difference&) const = default;
};

/// In the order: settings, then sites and parameters in the order of the model. A site of several blocks stands once,
/// as `block.*.` where every block differs in the same way, as `block.{0,3}.` where some do.
std::vector<Difference> differences(const ResolvedPolicy& a, const ResolvedPolicy& b);

/// What a policy says of its loss scaler, setting by setting: (name, value), the kind first.
std::vector<std::pair<std::string, std::string>> settings_of(const LossScalerConfig& config);

/// Lines that people read: settings first, then one line per site and change, its slots joined.
std::string difference_table(const std::vector<Difference>& list, const std::string& name_a, const std::string& name_b);

}  // namespace macheps::policy
