// SPDX-License-Identifier: Apache-2.0
// Selection of the rows of a trace from a device's results: few rows, including some that refute each wrong model. Host
// only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"

namespace macheps::evidence {

/// Number of rows to choose against each wrong model and from each class.
struct TraceSize {
    int against_each = 32;  ///< if the candidates have as many
    int of_each_class = 40;
};

/// Chooses rows: first up to 64 that disagree with the model, then a sample of each class, then rows against each wrong
/// model of mutants.hpp until it has enough. The same candidates give the same rows. gpu, driver, toolkit, microcode
/// and date are left empty. Errors: throws Error if the candidates' instruction is unknown.
Trace make_trace(const Candidates& candidates, const TraceSize& size = {});

/// Counts the rows that refute each wrong model of mutants.hpp, with the models of this build. The counts in a trace's
/// header come from the build that recorded it. Errors: as make_trace.
std::vector<std::pair<std::string, int>> count_refuted(const TraceForm& form, const std::vector<TraceRow>& rows);

/// Checks that every wrong model is refuted. Results that do not distinguish the model from wrong ones are not
/// evidence. Errors: throws Error (check_failed) that names a wrong model if fewer than two rows refute it.
void require_evidence(const Trace& trace);

}  // namespace macheps::evidence
