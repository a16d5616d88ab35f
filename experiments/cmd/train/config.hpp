// SPDX-License-Identifier: Apache-2.0
// `macheps train --config`: frameworks' configs as the policies of a comparison.
#pragma once
#include "experiments/cmd/policy/import.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/run/options.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::train {

/// What the command line says of configs.
struct ConfigChoice {
    std::vector<std::string> configs;  ///< each a policy; `A+B` is one config of two files
    std::vector<std::string> take;     ///< what is taken beside the policy: lr
    policies::ImportChoice import;

    void add_options(Command& verb);
};

struct ConfigPolicies {
    std::vector<policy::Policy> policies;  ///< in the order of the command line
    std::string model;                     ///< the kind that one of the frameworks trains; empty where any may be meant
};

/// Imports every config and tells what was found. Throws Error, once all is told: check_failed where a framework refuses its config, usage for
/// a recipe that only the program knows.
ConfigPolicies load_configs(const ConfigChoice& choice, const Command& verb);

/// The baseline with what all of these configs say alike of learning rate, betas, decay, clipping and micro-batches, so that a gap to it is of precision alone;
/// tells what that is. The preset itself where they say nothing alike. Throws Error as load_policy does.
policy::Policy baseline_of(const std::vector<policy::Policy>& configs);

/// Throws Error (usage) where two policies bear one name.
void check_names(const std::vector<policy::Policy>& policies);

/// Tells of policies whose number of micro-batches does not divide the samples of a step, and what they train with instead.
void tell_micro_batches(const std::vector<policy::Policy>& policies, const training::TrainOptions& options);

/// Tells how many linears of the model each policy has in 8 bits or fewer, and why it leaves the others out; nothing of
/// policies that leave none out. Throws Error for a policy that does not fit the model.
void tell_left_out(const std::vector<policy::Policy>& policies, const training::ModelConfig& model);

}  // namespace macheps::cmd::train
