// SPDX-License-Identifier: Apache-2.0
// Counts the failed runs of a policy by their reasons, and describes them in words.
#pragma once
#include "reports/rows/run_failures.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// Runs that failed for the same reason. `step` is the earliest step at which one of them failed; it is absent if the
/// reason concerns the end of the run.
struct FailedRuns {
    const RunFailure* reason = nullptr;
    std::int64_t runs = 1;
    std::optional<std::int64_t> step{};

    bool operator==(const FailedRuns&) const = default;
};

/// Adds runs to a list that has one entry for each reason.
void add_failed_runs(std::vector<FailedRuns>& list, const FailedRuns& runs);

/// Writes and reads the column `failures` of summary.csv: "loss_not_finite:2:41;ended_above_start:1". Entries with an
/// unknown reason are left out.
std::string failures_text(std::span<const FailedRuns> list);
std::vector<FailedRuns> failures_in(std::string_view text);

/// Describes failed runs: "the loss became NaN or infinite, first at step 41 (2 runs); the loss ended above that of the
/// first step (1 run)". If all runs have the same reason, their number is left out.
std::string failures_words(std::span<const FailedRuns> list);

}  // namespace macheps::reports
