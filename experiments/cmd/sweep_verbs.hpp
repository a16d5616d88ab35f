// SPDX-License-Identifier: Apache-2.0
// The verbs of `macheps sweep`, a file each.
#pragma once
#include "experiments/cmd/command.hpp"

namespace macheps {

extern const VerbRow sweep_plan;
extern const VerbRow sweep_run;
extern const VerbRow sweep_status;
extern const VerbRow sweep_submit;

}  // namespace macheps
