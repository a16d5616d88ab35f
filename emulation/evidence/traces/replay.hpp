// SPDX-License-Identifier: Apache-2.0
// Replay of recorded traces against the models: the scalar definition and this CPU's vector engines. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"
#include "emulation/evidence/traces/trace.hpp"

namespace macheps::evidence {

/// Gives one row of the kind `replay` for each class of the trace. Each row of the trace is one trial. It is a mismatch
/// if any engine gives other bits; then the note contains the first such output and the likely cause (diagnosis.hpp).
void replay(const Trace& trace, const ProbeSink& sink);

}  // namespace macheps::evidence
