// SPDX-License-Identifier: Apache-2.0
// The verb `macheps policy advise`. policy.cpp has the list of the verbs of `macheps policy`.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

namespace macheps::cmd::policies {

extern const VerbRow advise_verb;

}  // namespace macheps::cmd::policies
