// SPDX-License-Identifier: Apache-2.0
// Findings as SARIF 2.1.0 (OASIS), which code scanning reads: one document for any number of them. Host only.
#pragma once
#include "core/text/json.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace macheps::reports {

struct SarifResult {
    std::string rule;   ///< an id that stays for ever
    std::string level;  ///< error, warning, note
    std::string text;
    std::string file{};                                 ///< a path; empty: the finding stands in no file
    std::uint32_t line = 0, column = 0;                 ///< from 1; line 0: of the whole file
    Json properties = Json::object();                   ///< left out where empty
    std::map<std::string, std::string> fingerprints{};  ///< what tells a finding again in a later run
};

/// The document. Its rules are those of the results, in the order of their ids, each with its sentence in `rules` where it
/// has one. Text that is no UTF-8 is for whoever writes the JSON to replace.
Json sarif_document(std::string_view program_version, std::span<const SarifResult> results,
                    const std::map<std::string, std::string>& rules = {});

}  // namespace macheps::reports
