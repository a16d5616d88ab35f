// SPDX-License-Identifier: Apache-2.0
// Reads the experiment that the options of `macheps train` describe. For verbs that train many experiments.
#pragma once
#include "experiments/training/run/experiment.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::train {

/// Reads the options as `train` does. If the options name no policies, uses the policies of the demo. Only one thread
/// at a time may call this function. Errors: throws Error. Its text names the options.
training::Experiment train_task(const std::vector<std::string>& options);

}  // namespace macheps::cmd::train
