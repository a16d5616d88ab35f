// SPDX-License-Identifier: Apache-2.0
// What configs say of the step itself: the optimiser's kind and constants, micro-batches, and what becomes of the learning rate in
// steps that are skipped. Every framework has its own names for the same few numbers: a row each.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

/// Sets the fields `optimizer` and `micro_batches`, once the framework has set its own. A key that they read is inert no longer, and those
/// that stay the harness's (rates and their schedules, steps, sizes, models) are told as inert.
void set_step_fields(ImportContext& context);

}  // namespace macheps::configs
