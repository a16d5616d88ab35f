// SPDX-License-Identifier: Apache-2.0
// Recorded traces against the models: the scalar definition and this CPU's vector engines. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"
#include "emulation/evidence/traces/trace.hpp"

namespace macheps::evidence {

/// One row for every class of the trace; kind `replay`. A row of the trace counts as one trial, and as a mismatch when
/// any engine gives other bits: its note has the first one, and the likely cause (diagnosis.hpp).
void replay(const Trace& trace, const ProbeSink& sink);

}  // namespace macheps::evidence
