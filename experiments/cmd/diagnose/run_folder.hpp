// SPDX-License-Identifier: Apache-2.0
// Reads the files of one training in the output directory of a trainer.
#pragma once
#include "experiments/configs/import.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::causes {

/// The contents of the files in an output directory and in its newest checkpoint.
struct RunFolder {
    std::optional<std::filesystem::path> log{};
    std::vector<std::string> configs{};         ///< files of settings: ds_config.json
    std::vector<std::string> settings{};        ///< settings of Transformers that a model card lists: "fp16=true"
    std::string card{};                         ///< path of the model card
    std::string weights_dtype{};                ///< fp32, fp16 or bf16, from the model's config.json; empty if unknown
    std::string model_file{};                   ///< path of the model's config.json
    configs::ModelFacts model{};                ///< from the model's config.json
    std::optional<std::int64_t> vocabulary{};   ///< from the model's config.json
    configs::Requirements requirements{};       ///< versions of packages that a model card or a list names
    std::vector<std::string> read{}, unread{};  ///< paths, each with its contents, or the reason
};

/// Reads a folder. The log is trainer_state.json, trainer_log.jsonl, logging.jsonl or metrics.csv, else the newest file
/// with the ending .log or .out that has the form of a training log. Nothing is unpickled. A file that is not valid is
/// listed in `unread`.
RunFolder read_run_folder(const std::filesystem::path& folder);
/// Reads one file of an output directory that is neither a log nor a config, such as the config.json of a model, a
/// model card or training_args.bin. Returns nothing for other files.
std::optional<RunFolder> read_run_file(const std::filesystem::path& path);

}  // namespace macheps::cmd::causes
