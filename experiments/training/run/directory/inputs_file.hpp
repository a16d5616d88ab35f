// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file from which another framework can train the same model on the same batches.
//
//   seed0:block.0.mlp.up.weight    F32: the initial weight, before any policy rounds it
//   seed0:samples                  I32 [steps x micro-batches, batch, context + 1]: the first `context` tokens of a
//                                  sample are the inputs, the last `context` tokens are the targets
//
// Metadata: manifest (the text of manifest.json), created_by, git.
#pragma once
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/experiment_runs.hpp"

#include <string>

namespace macheps::training {

/// Writes experiment.inputs_file. `manifest` is the text of manifest.json. Throws Error if the file cannot be written.
void write_inputs(Backend& backend, const Experiment& experiment, const SharedInputs& inputs,
                  const std::string& manifest);

}  // namespace macheps::training
