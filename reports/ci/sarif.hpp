// SPDX-License-Identifier: Apache-2.0
// Findings as one document in SARIF 2.1.0 (OASIS), which code scanning reads. Host only.
#pragma once
#include "core/text/json.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace macheps::reports {

struct SarifResult {
    std::string rule;   ///< an id that never changes
    std::string level;  ///< error, warning or note
    std::string text;
    std::string file{};                                 ///< a path; empty if the finding belongs to no file
    std::uint32_t line = 0, column = 0;                 ///< from 1; line 0 means the whole file
    Json properties = Json::object();                   ///< left out if empty
    std::map<std::string, std::string> fingerprints{};  ///< identify the same finding in a later run
};

/// Returns the SARIF document. It lists every rule that a result names, sorted by id. The description of a rule is its
/// sentence in `rules`, if there is one. The caller has to replace invalid UTF-8 when it writes the JSON.
Json sarif_document(std::string_view program_version, std::span<const SarifResult> results,
                    const std::map<std::string, std::string>& rules = {});

}  // namespace macheps::reports
