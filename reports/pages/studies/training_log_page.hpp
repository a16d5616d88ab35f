// SPDX-License-Identifier: Apache-2.0
// The page about logs that other programs wrote.
#pragma once
#include "reports/training_logs/log_diagnosis.hpp"

#include <string>
#include <vector>

namespace macheps::reports {

/// Returns a self-contained page with the findings and curves of each log. `verdicts` belong to the logs in the same
/// order.
std::string training_logs_page(const std::vector<TrainingLog>& logs, const std::vector<LogVerdicts>& verdicts);

}  // namespace macheps::reports
