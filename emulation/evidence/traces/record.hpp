// SPDX-License-Identifier: Apache-2.0
// From what a device gave to a trace: few rows, and among them some against every wrong model. Host only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"

namespace macheps::evidence {

/// Rows against each wrong model, and of each class besides.
struct TraceSize {
    int against_each = 32;  ///< at least 16 are asked for
    int of_each_class = 40;
};

/// Chooses rows: those that disagree with the model first, then some against every wrong model of mutants.hpp, then a
/// sample of every class. The same rows for the same candidates. gpu, driver, toolkit and date are left empty.
/// Errors: throws Error when the candidates' instruction is unknown.
Trace make_trace(const Candidates& candidates, const TraceSize& size = {});

/// Counts the rows that refute each wrong model of mutants.hpp, with the models of this build. The counts in a trace's
/// header come from the build that recorded it. Errors: as make_trace.
std::vector<std::pair<std::string, int>> count_refuted(const TraceForm& form, const std::vector<TraceRow>& rows);

/// Results that do not tell the model from wrong ones are no evidence.
/// Errors: throws Error (check_failed) that names a wrong model which fewer than two rows refute.
void require_evidence(const Trace& trace);

}  // namespace macheps::evidence
