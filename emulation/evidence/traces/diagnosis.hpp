// SPDX-License-Identifier: Apache-2.0
// Finds the likely cause of a difference between a device and a model. It uses only recorded rows. Host only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"

#include <string>

namespace macheps::evidence {

/// Describes the likely cause if rows of the trace differ from the model of this build. Returns an empty string if no
/// row differs. If a wrong model of mutants.hpp or another machine reproduces every row, the text names it. Otherwise
/// the number of differing rows and their classes show whether a layout or a field of the model is the likely cause.
std::string diagnose(const Trace& trace);

}  // namespace macheps::evidence
