// SPDX-License-Identifier: Apache-2.0
// Compares recorded traces with the models, computed by the scalar definition and by this CPU's vector engines. Host
// only.
#pragma once
#include "emulation/evidence/probe.hpp"
#include "emulation/evidence/traces/trace.hpp"

namespace macheps::evidence {

/// Passes one result of the kind `replay` to `sink` for each class of operands in the trace. Each row of the trace is
/// one trial. A trial is a mismatch if an engine gives other bits than the trace. The note of the result then contains
/// the first mismatch and the likely cause (diagnosis.hpp).
void replay(const Trace& trace, const ProbeSink& sink);

}  // namespace macheps::evidence
