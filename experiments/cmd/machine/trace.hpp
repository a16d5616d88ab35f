// SPDX-License-Identifier: Apache-2.0
// The verb `macheps machine trace`.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

namespace macheps::cmd::machine {

extern const VerbRow trace_verb;

}  // namespace macheps::cmd::machine
