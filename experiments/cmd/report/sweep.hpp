// SPDX-License-Identifier: Apache-2.0
// `macheps report` for the folder of a sweep, or for too many run directories to join in memory.
#pragma once
#include "core/error.hpp"
#include "experiments/cmd/report/paper.hpp"
#include "reports/findings/divergence.hpp"

#include <filesystem>
#include <vector>

namespace macheps::cmd::report {

/// Returns whether the folders are the folder of a sweep.
bool is_sweep(const std::vector<std::filesystem::path>& folders);

/// Returns whether the report is a table of settings x policies and not of runs. It is such a table for the folder of a
/// sweep and for more than max_joined_folders run directories.
bool is_study(const std::vector<std::filesystem::path>& folders);

struct StudyReport {
    std::vector<std::filesystem::path> folders{};
    std::filesystem::path page{};  ///< summary.csv is written next to it
    reports::SummaryOptions options{};
    PaperOptions paper{};
    std::filesystem::path charts{};  ///< empty, or for --paper
    bool json = false, csv = false;
    bool diagnose = false;  ///< only for a sweep
};

/// Writes summary.csv, the page and the files for a paper, and prints the table.
Exit report_study(const StudyReport& report);

}  // namespace macheps::cmd::report
