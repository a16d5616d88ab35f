// SPDX-License-Identifier: Apache-2.0
// `macheps check make-inputs` and `macheps check power`, verbs below check.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

namespace macheps::cmd::checks {

extern const VerbRow make_inputs_verb;
extern const VerbRow power_verb;

}  // namespace macheps::cmd::checks
