// SPDX-License-Identifier: Apache-2.0
// Summarises many run directories one after the other. Only a summary and a curve for each setting and policy stay in
// memory, plus a few hundred bytes for each directory.
#pragma once
#include "reports/findings/sweep_summary.hpp"

#include <cstddef>
#include <filesystem>
#include <span>

namespace macheps::reports {

/// Maximum number of directories that are read into memory with all their steps, for a page with every curve. More
/// directories are summarised one by one.
inline constexpr std::size_t max_joined_folders = 200;

/// Summarises run directories by setting. Directories with the same model, data and training options are one setting.
/// Options that differ between settings are the axes. An option that another option determines is not an axis, and a
/// note names it. Two runs of the same policy, seed and setting count as one run if their losses agree. If the losses
/// differ, or if two policies have the same name and different texts, the later policy is shown as `policy@directory`.
/// The baseline of a run is the fp32 run with the same seed in the same directory. If that directory has no such run,
/// the first directory of the same setting that has one provides the baseline.
/// Errors: throws Error, Exit::bad_input, for a missing directory, a directory without training, and damaged rows.
SweepSummary gather_folders(std::span<const std::filesystem::path> folders, const SummaryOptions& options);

}  // namespace macheps::reports
