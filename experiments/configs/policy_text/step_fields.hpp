// SPDX-License-Identifier: Apache-2.0
// Settings of an optimiser step in configs: the optimiser's kind and constants, micro-batches, and the learning rate in
// skipped steps. Each framework has different names for the same few numbers, and each name is a row.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

/// Sets the fields `optimizer` and `micro_batches`, after the framework has set its own fields. Keys that are used here
/// are no longer reported as inert. Keys whose settings the training run itself chooses (learning rates and schedules,
/// steps, sizes, models) are reported as inert.
void set_step_fields(ImportContext& context);

}  // namespace macheps::configs
