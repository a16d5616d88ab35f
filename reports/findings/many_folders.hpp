// SPDX-License-Identifier: Apache-2.0
// Many run directories summed up one after the other: what stays in memory is a summary and a curve for each setting and
// policy, and some hundred bytes for each directory.
#pragma once
#include "reports/findings/sweep_summary.hpp"

#include <cstddef>
#include <filesystem>
#include <span>

namespace macheps::reports {

/// So many directories are joined with all their rows in memory, for a page with every curve; more are summed up one by one.
inline constexpr std::size_t most_joined_folders = 200;

/// Directories of one model, data and training options are one setting; what differs between settings are the axes, but for
/// those that follow from another one, which a note names. The same policy, seed and setting in two directories is one run
/// when its losses agree; otherwise, and where policies of one name have other texts, the later one stands as
/// `policy@directory`. A run's baseline is the fp32 run of its seed in its own directory, else in the first of its setting
/// that has one.
/// Errors: throws Error, Exit::bad_input, for what is missing, is no run directory, or has damaged rows.
SweepSummary gather_folders(std::span<const std::filesystem::path> folders, const SummaryOptions& options);

}  // namespace macheps::reports
