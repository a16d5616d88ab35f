// SPDX-License-Identifier: Apache-2.0
// The model that a policy is read against: options that several verbs share.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/training/model/config.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace macheps::cmd {

struct ModelChoice {
    std::string kind = "gpt2", size = "tiny";
    std::optional<std::int64_t> layers;
    bool untied = false;

    void add_options(Command& verb);
    /// Throws Error (usage) with the nearest name for an unknown kind or size.
    training::ModelConfig config() const;
    /// "gpt2 tiny: 2 blocks of width 64"
    std::string describe() const;
};

}  // namespace macheps::cmd
