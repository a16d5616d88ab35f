// SPDX-License-Identifier: Apache-2.0
// `macheps policy advise`, a verb of policy.cpp's list.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

namespace macheps::cmd::policies {

extern const VerbRow advise_verb;

}  // namespace macheps::cmd::policies
