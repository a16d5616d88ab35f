// SPDX-License-Identifier: Apache-2.0
// Selects the rows of a trace from a device's results. A trace has few rows, but some of them refute each wrong model.
// Host only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"

namespace macheps::evidence {

/// Numbers of rows to choose for a trace: rows that refute each wrong model, and rows of each class.
struct TraceSize {
    int against_each = 32;  ///< fewer are chosen if not enough rows refute the wrong model
    int of_each_class = 40;
};

/// Makes a trace of a selection of the candidates' rows. Takes up to 64 rows that disagree with the model, then a
/// sample of each class, then rows that refute each wrong model of mutants.hpp until there are enough. The same
/// candidates always give the same rows. The members gpu, driver, toolkit, microcode and date stay empty. Errors:
/// throws Error if the candidates' instruction is unknown.
Trace make_trace(const Candidates& candidates, const TraceSize& size = {});

/// Counts the rows that refute each wrong model of mutants.hpp, with the models of this build. The counts in a trace's
/// header come from the build that recorded it. Errors: the same as those of make_trace().
std::vector<std::pair<std::string, int>> count_refuted(const TraceForm& form, const std::vector<TraceRow>& rows);

/// Checks that at least two rows refute each wrong model. Results that do not distinguish the model from wrong models
/// are not evidence. Errors: throws Error (check_failed) that names a wrong model refuted by fewer than two rows.
void require_evidence(const Trace& trace);

}  // namespace macheps::evidence
