// SPDX-License-Identifier: Apache-2.0
// Reads the experiment of `macheps train OPTIONS`, for verbs that train many of them.
#pragma once
#include "experiments/training/run/experiment.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::train {

/// Reads the options as `train` does. If no policies are named, they are those of the demo. Only one thread at a time
/// may call it. Errors: throws Error that names the options.
training::Experiment train_task(const std::vector<std::string>& options);

}  // namespace macheps::cmd::train
