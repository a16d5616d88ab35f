// SPDX-License-Identifier: Apache-2.0
// What an experiment would do, before it is done: runs, time, memory, disk, and what would stop it. Writes nothing.
#pragma once
#include "core/error.hpp"
#include "experiments/training/model/memory.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/trainer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::training {

struct Plan {
    struct PolicyPlan {
        std::string policy;
        MemoryEstimate memory;  ///< what a framework would hold, in the policy's formats
        std::int64_t timed_steps = 0;
        /// Mean of the timed steps; of one step whose casts are sampled; of one held-out evaluation. The second is
        /// absent where nothing is sampled.
        double step_seconds = 0;
        std::optional<double> sampled_step_seconds{};
        double evaluation_seconds = 0;
        double seconds = 0;          ///< of all its runs
        std::int64_t row_bytes = 0;  ///< of all its runs
    };

    std::filesystem::path directory;
    std::string data, device;
    std::size_t runs = 0;
    std::vector<std::int64_t> seeds;
    std::int64_t steps = 0, tokens = 0;  ///< of one run
    std::int64_t parameters = 0;
    std::int64_t least_bytes = 0;  ///< least_memory(): what decides whether the experiment is begun
    std::vector<PolicyPlan> policies;
    std::int64_t timed_tokens =
        0;               ///< of the steps that were timed, where these are fewer than a step really has; else 0
    double seconds = 0;  ///< of everything, runs side by side counted once
    std::int64_t peak_bytes = 0;               ///< the largest resident size of this process while it measured
    std::int64_t disk_bytes = 0;               ///< rows, checkpoints, manifest and page
    std::optional<std::int64_t> free_bytes{};  ///< where `directory` is or would be
    std::vector<Error> problems;               ///< of the directory and the disk; any of them would end the experiment
};

/// Trains each policy for a few steps from the experiment's first weights: one to warm up, then at least three and at
/// least 0.2 s of plain ones (32 at most), one sampled step, and one held-out batch under the policy and in fp32. Where
/// that would take long, steps of two layers of the model on fewer tokens are timed: the part that grows with the tokens
/// is scaled by the multiply-adds, the rest by the weights.
/// Errors: throws Error for what no directory would mend: policies, sizes, options, data.
/// With several engines, on which runs train side by side, the first one is timed.
Plan make_plan(std::span<Backend* const> backends, const Experiment& experiment);

}  // namespace macheps::training
