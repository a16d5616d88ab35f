// SPDX-License-Identifier: Apache-2.0
// Findings of an importer about a config: one for each thing that a reader of the config should know.
#pragma once
#include "experiments/files/config/value.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// The kinds of finding, in the order in which they are printed.
enum class FindingCode : char {
    error = 'E',          ///< the framework refuses this config
    unknown = 'U',        ///< a key that the framework does not know
    warning = 'W',        ///< the framework warns, or the config does not do what it seems to say
    contradiction = 'C',  ///< two keys disagree, and the framework decides
    defaulted = 'D',      ///< a default decided something
    inert = 'I',          ///< a known key that decides no format, rounding or scale
    note = 'N',           ///< something derived that is worth knowing
};

enum class FindingSeverity : std::uint8_t { error, warning, note };

struct Finding {
    FindingCode code = FindingCode::note;
    /// Permanent id of a rule: `deepspeed/initial-scale-trap`. Suppressions and SARIF use it.
    std::string rule;
    files::ConfigPlace place;
    std::string key;                ///< dotted path of the key to change; empty if there is none
    std::vector<std::string> keys;  ///< every key that the condition reads, including `key`
    std::string message;            ///< what happens
    std::string instead;            ///< what to write instead; empty if nothing is wrong
    /// Whether the framework refuses an unknown key. The finding is an error only in this case.
    bool framework_refuses = false;
};

FindingSeverity severity(const Finding& finding);
/// Returns "error", "warning" or "note".
std::string_view to_string(FindingSeverity severity);

}  // namespace macheps::configs
