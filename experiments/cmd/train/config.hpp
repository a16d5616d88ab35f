// SPDX-License-Identifier: Apache-2.0
// `macheps train --config`: frameworks' configs as the policies of a comparison.
#pragma once
#include "experiments/cmd/policy/import.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/options.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::train {

/// Options that read the configs of training frameworks.
struct ConfigChoice {
    std::vector<std::string> configs;  ///< each a policy; `A+B` is one config of two files
    std::vector<std::string> take;     ///< settings of the config that the training also uses; only `lr` is possible
    policies::ImportChoice import;

    /// Adds --config.
    void add_config(Command& verb);
    /// Adds the options that change how configs are read.
    void add_options(Command& verb);
};

struct ConfigPolicies {
    std::vector<policy::Policy> policies;  ///< in the order of the command line
    std::string model;                     ///< from the first framework that trains only one kind of model; else empty
};

/// Imports every config and reports its findings. Throws Error only after all findings are reported: with check_failed
/// if a framework refuses its config, and with usage if only the user's program knows the fp8 recipe of a config.
ConfigPolicies load_configs(const ConfigChoice& choice, const Command& verb);

/// Returns the preset of the baseline with all settings that these configs have in common: learning rate, betas, decay,
/// clipping and micro-batches. A gap between a config and the baseline is then caused by precision alone. Reports the
/// common settings. If there are none, returns the preset itself. Throws Error as load_policy does.
policy::Policy baseline_of(const std::vector<policy::Policy>& configs);

/// Throws Error (usage) if two policies have the same name.
void check_names(const std::vector<policy::Policy>& policies);

/// Reports policies whose number of micro-batches does not divide the samples of a step, and the number that is used
/// instead.
void tell_micro_batches(const std::vector<policy::Policy>& policies, const training::TrainOptions& options);

/// Reports how many linears of the model each policy has in 8 bits or fewer, and why it leaves out the remaining
/// linears. Policies that leave out no linears are not reported. Throws Error for a policy that does not fit the model.
void tell_left_out(const std::vector<policy::Policy>& policies, const training::ModelConfig& model);

}  // namespace macheps::cmd::train
