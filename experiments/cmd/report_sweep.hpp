// SPDX-License-Identifier: Apache-2.0
// `macheps report` of the folder of a sweep.
#pragma once
#include "core/error.hpp"
#include "reports/divergence.hpp"

#include <filesystem>

namespace macheps {

bool is_sweep(const std::filesystem::path& folder);

struct SweepReport {
    std::filesystem::path folder, page;  ///< the page; summary.csv stands beside it
    SummaryOptions options{};
    bool json = false, csv = false;
};

/// Writes summary.csv and the page, and prints the table.
Exit report_sweep(const SweepReport& report);

}  // namespace macheps
