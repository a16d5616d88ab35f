// SPDX-License-Identifier: Apache-2.0
// What an importer has to say about a config: one finding for each thing that a reader of it should know.
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
    /// A rule's id that stays for ever: `deepspeed/initial-scale-trap`. Suppressions and SARIF name it.
    std::string rule;
    files::ConfigPlace place;
    std::string key;                ///< the dotted path of the key to change; empty where there is none
    std::vector<std::string> keys;  ///< every key that the condition reads, `key` among them
    std::string message;            ///< what happens
    std::string instead;            ///< what to write instead; empty where nothing is wrong
    /// An unknown key is an error only where the framework itself refuses it.
    bool framework_refuses = false;
};

FindingSeverity severity(const Finding& finding);
/// "error", "warning", "note".
std::string_view to_string(FindingSeverity severity);

}  // namespace macheps::configs
