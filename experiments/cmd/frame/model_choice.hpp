// SPDX-License-Identifier: Apache-2.0
// Options for the model that a policy is applied to. Several verbs share them.
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
    /// Returns the model. Throws Error (usage) for an unknown kind or size, and suggests the nearest name.
    training::ModelConfig config() const;
    /// Returns a description such as "gpt2 tiny: 2 blocks of width 64".
    std::string describe() const;
};

}  // namespace macheps::cmd
