// SPDX-License-Identifier: Apache-2.0
// Possible causes of the problems of a training, the most likely first.
#pragma once
#include "experiments/cmd/diagnose/evidence.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::causes {

/// A possible cause.
struct Suspect {
    std::string text;  ///< the cause, in words
    /// How certain it is that this is the cause, not that it is present. A cause that only a config shows is `possible`.
    reports::Certainty certainty = reports::Certainty::possible;
    std::string evidence{};                    ///< where the files show it; empty if no file decides it
    std::vector<configs::Check> checks;        ///< what shows whether this is the cause, at most three
    std::vector<configs::Setting> settings{};  ///< settings of the config that end it
    std::string instead{};                     ///< advice in words; used if `settings` is empty
    std::string rule{};                        ///< the rule of the finding that shows it; empty if there is none
    bool needs_fp16 = false;                   ///< a training in another format does not have this cause
};

/// Returns the causes of the observations, or the findings of the config if nothing was observed. Causes that the config
/// or another observation shows come first, then the usual causes of the gravest observation, then grave findings of the
/// config that explain no observation. Causes that the config excludes are left out.
std::vector<Suspect> find_suspects(const Evidence& evidence);

}  // namespace macheps::cmd::causes
