// SPDX-License-Identifier: Apache-2.0
// Findings of an importer about a config. Each finding reports one fact, such as an error, an ignored key or a default
// that was used.
#pragma once
#include "core/text/json.hpp"
#include "experiments/files/config/value.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// The kinds of finding, in the order in which they are printed.
enum class FindingCode : char {
    error = 'E',          ///< the framework refuses this config, or macheps cannot emulate it
    unknown = 'U',        ///< a key that the framework does not know
    warning = 'W',        ///< the framework warns, or the config has a different effect than it seems to have
    contradiction = 'C',  ///< two keys disagree, and the framework decides
    defaulted = 'D',      ///< a default value was used
    inert = 'I',          ///< a known key that affects no format, rounding or scale
    note = 'N',           ///< other information about the config
};

enum class FindingSeverity : std::uint8_t { error, warning, note };

struct Finding {
    FindingCode code = FindingCode::note;
    /// Permanent id of the rule that reports this finding: `deepspeed/initial-scale-trap`. Suppressions and SARIF use
    /// the id.
    std::string rule;
    files::ConfigPlace place;
    std::string key;                ///< dotted path of the key to change; empty if there is none
    std::vector<std::string> keys;  ///< every key that the finding's condition reads; includes `key`
    std::string message;            ///< what happens
    std::string instead;            ///< what to write instead; empty if nothing is wrong
    /// Used only if `code` is `unknown`. If the framework refuses a config with this key, the severity of the finding
    /// is error, otherwise warning.
    bool framework_refuses = false;
    /// Id of the row of the history of faults (history/history.hpp) that this finding reports; empty for other findings.
    std::string fault;
    /// What macheps does not emulate, as a short statement for the verdict of `train`: "LoRA is not emulated: the whole
    /// model is trained". Empty if the finding reports no such thing.
    std::string not_emulated;
};

FindingSeverity severity(const Finding& finding);
/// Returns the statements `not_emulated` of the findings, each once, in the order of the findings.
std::vector<std::string> not_emulated_in(std::span<const Finding> findings);
/// Returns a finding as JSON, in the form that the help of `policy import` describes.
Json finding_json(const Finding& finding);
/// Returns "error", "warning" or "note".
std::string_view to_string(FindingSeverity severity);

}  // namespace macheps::configs
