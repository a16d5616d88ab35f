// SPDX-License-Identifier: Apache-2.0
// Plan of an experiment: its runs, the time, memory and disk space that it needs, and problems that would stop it.
// Making a plan writes no files.
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
        MemoryEstimate memory;  ///< needed by a framework that stores the policy's formats
        std::int64_t timed_steps = 0;
        /// Seconds of a plain step (mean of the timed steps), of a step whose casts are sampled (absent if no step is
        /// sampled), and of one held-out evaluation.
        double step_seconds = 0;
        std::optional<double> sampled_step_seconds{};
        double evaluation_seconds = 0;
        double seconds = 0;          ///< for all runs of the policy
        std::int64_t row_bytes = 0;  ///< for all runs of the policy
    };

    std::filesystem::path directory;
    std::string data, device;
    std::size_t runs = 0;
    std::vector<std::int64_t> seeds;
    std::int64_t steps = 0, tokens = 0;  ///< steps and tokens of one run
    std::int64_t parameters = 0;
    std::int64_t min_bytes = 0;  ///< min_memory(), which decides whether the experiment is rejected
    std::vector<PolicyPlan> policies;
    std::int64_t timed_tokens = 0;             ///< tokens of a timed step if it is smaller than a real step; else 0
    double seconds = 0;                        ///< for all runs, trained side by side
    std::int64_t peak_bytes = 0;               ///< peak resident size of this process after the measurement
    std::int64_t disk_bytes = 0;               ///< rows, checkpoints, manifest and HTML page
    std::optional<std::int64_t> free_bytes{};  ///< free space on the disk of `directory`
    std::vector<Error> problems;               ///< problems with the directory or the disk; each prevents training
};

/// Trains each policy for a few steps from the experiment's initial weights: one step to warm up, plain steps for 0.2 s
/// (at least 3, at most 32), one sampled step, and one held-out batch under the policy and in fp32.
///
/// If that would take long, times a smaller copy of the experiment instead: two layers of the model and fewer tokens.
/// The part of the time that grows with the number of tokens is then multiplied by the ratio of the multiply-adds. The
/// rest is multiplied by the ratio of the numbers of weights. Runs can train side by side on several engines. Even
/// then, only the first engine is timed.
///
/// Throws Error if a policy, a size, an option or the data is invalid. Problems of the directory are returned in
/// Plan::problems instead.
Plan make_plan(std::span<Backend* const> backends, const Experiment& experiment);

}  // namespace macheps::training
