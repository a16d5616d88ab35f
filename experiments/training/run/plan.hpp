// SPDX-License-Identifier: Apache-2.0
// Plan of an experiment: runs, time, memory, disk, and problems that would stop it. Writes nothing.
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
        MemoryEstimate memory;  ///< bytes in a framework, in the policy's formats
        std::int64_t timed_steps = 0;
        /// Seconds of a plain step (mean of the timed ones), of a step whose casts are sampled (absent if nothing is
        /// sampled), and of one held-out evaluation.
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
    std::int64_t min_bytes = 0;  ///< min_memory(): decides whether the experiment is refused
    std::vector<PolicyPlan> policies;
    std::int64_t timed_tokens = 0;  ///< tokens of a timed step, if these are fewer than a step really has; else 0
    double seconds = 0;             ///< of everything, with runs side by side
    std::int64_t peak_bytes = 0;    ///< peak resident size of this process after the measurement
    std::int64_t disk_bytes = 0;    ///< rows, checkpoints, manifest and page
    std::optional<std::int64_t> free_bytes{};  ///< where `directory` is or would be
    std::vector<Error> problems;               ///< of the directory and the disk; each would end the experiment
};

/// Trains each policy for a few steps from the experiment's first weights: one step to warm up, then plain steps for
/// 0.2 s (at least 3, at most 32), one sampled step, and one held-out batch under the policy and in fp32. If that would
/// take long, steps of two layers of the model on fewer tokens are timed instead. The part of the time that grows with
/// the tokens is then scaled by the multiply-adds, and the rest by the number of weights. Errors: throws Error for
/// problems that another directory would not solve: policies, sizes, options, data. If there are several engines, on
/// which runs train side by side, only the first one is timed.
Plan make_plan(std::span<Backend* const> backends, const Experiment& experiment);

}  // namespace macheps::training
