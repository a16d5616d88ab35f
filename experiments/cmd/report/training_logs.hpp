// SPDX-License-Identifier: Apache-2.0
// `macheps report` for logs that other programs wrote.
#pragma once
#include "core/error.hpp"
#include "experiments/configs/import.hpp"
#include "reports/training_logs/training_log.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace macheps::cmd::report {

/// Returns whether the report is about logs of other programs: files that are not CSV files of macheps.
/// Errors: throws Error (usage) if only some of the paths are such logs.
bool are_training_logs(const std::vector<std::filesystem::path>& paths);

/// Parses values of --column, such as `loss=train/loss`, into options.columns. Throws Error (usage).
void add_columns(const std::vector<std::string>& words, reports::TrainingLogOptions& options);

struct LogReport {
    std::vector<std::filesystem::path> files{};
    std::filesystem::path page{};
    reports::TrainingLogOptions options{};
    std::vector<std::string> config{};        ///< files and overrides of the config that the run had; may be empty
    configs::ImportOptions config_options{};  ///< also the versions of packages without a config
    bool json = false, csv = false;
};

/// Writes the page, and prints the findings.
void report_training_logs(const LogReport& report);

}  // namespace macheps::cmd::report
