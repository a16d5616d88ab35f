// SPDX-License-Identifier: Apache-2.0
// The evidence about a training in the files of a user: findings of logs, of run directories and of a config.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/configs/remedy/remedies.hpp"
#include "experiments/configs/symptoms/checks.hpp"
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
    std::string card{};  ///< the model card that contains the settings of `configs`; empty if there is none
    std::optional<configs::ImportResult> config{};  ///< the configs, read as one config
    configs::Remedies remedies{};                   ///< settings that end findings of the config
    const configs::CheckStack* stack = nullptr;     ///< the program that trained; null if no lines are written for it
    double lower_rate = 1e-5;                       ///< a tenth of the highest learning rate of the logs
    std::vector<std::string> read{}, unread{};      ///< files in folders, each with its contents, or the reason why not
};

struct EvidenceOptions {
    reports::TrainingLogOptions log{};
    configs::ImportOptions import{};
};

/// Reads configs, logs, run directories of `macheps train`, output directories of trainers (run_folder.hpp), and
/// requirements files. The settings and versions in an output directory apply if the user gives none. Throws Error (bad input) for a path that is none of these.
Evidence read_evidence(const std::vector<std::string>& paths, const EvidenceOptions& options);

}  // namespace macheps::cmd::causes
