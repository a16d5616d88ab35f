// SPDX-License-Identifier: Apache-2.0
// The evidence about a training in the files of a user: findings of logs, of run directories and of a config.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/configs/remedy/remedies.hpp"
#include "reports/training_logs/log_diagnosis.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd::causes {

/// A diagnosis that a log or a run directory shows.
struct Observation {
    std::string diagnosis;  ///< id: "nan-in-loss"
    reports::Certainty certainty = reports::Certainty::certain;
    std::string place;     ///< "train.log, step 12"
    std::string sentence;  ///< the problem, in words
    std::string remedy;
    bool is_of_run = false;  ///< from a run directory, whose rows also show causes, such as an overflow of activations
};

/// The files that the user named, by kind.
struct Evidence {
    std::vector<std::string> configs{}, logs{}, runs{};
    configs::ImportOptions import{};          ///< the options of the user, with the versions of a requirements file
    std::vector<Observation> observations{};  ///< of logs and runs, the gravest first
    std::optional<configs::ImportResult> config{};  ///< the configs, read as one config
    configs::Remedies remedies{};                   ///< settings that end findings of the config
    std::vector<std::string> notes{};               ///< about files that were chosen or passed over
};

struct EvidenceOptions {
    reports::TrainingLogOptions log{};
    configs::ImportOptions import{};
};

/// Reads configs, logs, run directories of `macheps train`, output directories of trainers, in which the logs are looked
/// up, and requirements files. Throws Error (bad input) for a path that is none of these.
Evidence read_evidence(const std::vector<std::string>& paths, const EvidenceOptions& options);

}  // namespace macheps::cmd::causes
