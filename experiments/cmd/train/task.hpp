// SPDX-License-Identifier: Apache-2.0
// What `macheps train OPTIONS` would train, for verbs that train many such.
#pragma once
#include "experiments/training/run/experiment.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::train {

/// Reads the options as `train` does. The policies are the demo's where none are named. Called by one thread at a time.
/// Errors: throws Error, in the words of the options.
training::Experiment train_task(const std::vector<std::string>& options);

}  // namespace macheps::cmd::train
