// SPDX-License-Identifier: Apache-2.0
// The cause of a difference between a device and a model, as far as recorded rows show it. Host only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"

#include <string>

namespace macheps::evidence {

/// Returns the likely cause of the rows that differ from the model of this build, in words; empty if none does. A wrong model of
/// mutants.hpp or another machine that has every row is named. Otherwise the share of the rows and their classes separate layouts from fields
/// of the model.
std::string diagnose(const Trace& trace);

}  // namespace macheps::evidence
