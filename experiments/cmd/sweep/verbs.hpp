// SPDX-License-Identifier: Apache-2.0
// The verbs of `macheps sweep`. Each has its own file.
#pragma once
#include "experiments/cmd/command.hpp"

namespace macheps::cmd::sweep {

extern const VerbRow plan_verb;
extern const VerbRow run_verb;
extern const VerbRow status_verb;
extern const VerbRow submit_verb;

}  // namespace macheps::cmd::sweep
