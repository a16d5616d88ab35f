// SPDX-License-Identifier: Apache-2.0
// Reads the settings of the optimiser step from a config: kind and constants of the optimiser, micro-batches, and
// whether the learning rate advances in skipped steps. Each framework has different names for these settings. The table
// in step_fields.cpp has a row for each name.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

/// Sets the fields `optimizer` and `micro_batches`. Call this function after the framework has set its fields. Keys
/// that are used here are no longer reported as inert. For `macheps train`, keys of settings that the run chooses
/// itself (learning rates and schedules, steps, sizes, models) are reported as inert.
void set_step_fields(ImportContext& context);

/// Returns the path of the key that sets Adam's eps, or an empty text if the config does not set it.
std::string eps_key(const ImportContext& context);

}  // namespace macheps::configs
