// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/finding_json.hpp"

namespace macheps::configs {

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
