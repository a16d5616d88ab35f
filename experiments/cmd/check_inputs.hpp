// SPDX-License-Identifier: Apache-2.0
// `macheps check make-inputs` and `macheps check power`, verbs below check.
#pragma once
#include "experiments/cmd/cli.hpp"

namespace macheps {

extern const VerbRow check_make_inputs;
extern const VerbRow check_power;

}  // namespace macheps
