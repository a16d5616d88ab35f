// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/finding.hpp"

namespace macheps::configs {

FindingSeverity severity(const Finding& finding) {
    switch (finding.code) {
        case FindingCode::error:
            return FindingSeverity::error;
        case FindingCode::unknown:
            return finding.framework_refuses ? FindingSeverity::error : FindingSeverity::warning;
        case FindingCode::warning:
        case FindingCode::contradiction:
            return FindingSeverity::warning;
        case FindingCode::defaulted:
        case FindingCode::inert:
        case FindingCode::note:
            break;
    }
    return FindingSeverity::note;
}

std::string_view to_string(FindingSeverity severity) {
    constexpr std::string_view names[] = {"error", "warning", "note"};
    return names[static_cast<int>(severity)];
}

}  // namespace macheps::configs
