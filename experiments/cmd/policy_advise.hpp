// SPDX-License-Identifier: Apache-2.0
// `macheps policy advise`, a verb of policy.cpp's list.
#pragma once
#include "experiments/cmd/cli.hpp"

namespace macheps {

extern const VerbRow policy_advise;

}  // namespace macheps
