// SPDX-License-Identifier: Apache-2.0
// The verb `macheps policy history`.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

namespace macheps::cmd::policies {

extern const VerbRow history_verb;

}  // namespace macheps::cmd::policies
