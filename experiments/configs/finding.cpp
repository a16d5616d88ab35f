// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/finding.hpp"

#include <algorithm>

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

std::vector<std::string> not_emulated_in(std::span<const Finding> findings) {
    std::vector<std::string> statements;
    for (const Finding& one : findings) {
        const bool is_new = std::find(statements.begin(), statements.end(), one.not_emulated) == statements.end();
        if (!one.not_emulated.empty() && is_new) statements.push_back(one.not_emulated);
    }
    return statements;
}

std::string_view to_string(FindingSeverity severity) {
    constexpr std::string_view names[] = {"error", "warning", "note"};
    return names[static_cast<int>(severity)];
}

Json finding_json(const Finding& finding) {
    return {{"code", std::string(1, static_cast<char>(finding.code))},
            {"severity", to_string(severity(finding))},
            {"file", finding.place.file},
            {"line", finding.place.line},
            {"column", finding.place.column},
            {"key", finding.key},
            {"keys", finding.keys},
            {"rule", finding.rule},
            {"fault", finding.fault},
            {"message", finding.message},
            {"instead", finding.instead},
            {"not_emulated", finding.not_emulated}};
}

}  // namespace macheps::configs
