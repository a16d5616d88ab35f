// SPDX-License-Identifier: Apache-2.0
// Trainer: trains one model under one policy and seed, from step 0 to the last, and writes rows.
#pragma once
#include "experiments/training/run/directory/dump.hpp"
#include "experiments/training/run/directory/run_rows.hpp"
#include "experiments/training/run/step.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace macheps::training {

struct RunRequest {
    RunSetup setup;
    bool is_baseline = false;                       ///< this is the fp32 run: its gap is zero
    const std::vector<double>* baseline = nullptr;  ///< losses of the fp32 run of this seed, by step
    const std::atomic<bool>* stop = nullptr;        ///< set by Ctrl-C: the run ends after its step
    const Checkpoint* start = nullptr;              ///< checkpoint to resume from; null: start at step 0
    std::vector<reports::StepRow> steps_done{};     ///< the rows of the steps before `start`
    const DumpRequest* dump = nullptr;              ///< a step to dump; null: none
    reports::CsvWriter<reports::HashRow>* hashes =
        nullptr;                             ///< receives a hash of every tensor of every step; may be null
    std::int64_t save_every = 0;             ///< steps between calls of `save`; 0: only when stopped
    std::function<void(Checkpoint)> save{};  ///< receives the state; the caller fills in `recipe`
    std::function<void(std::int64_t step, double loss)> on_step{};
};

struct RunResult {
    std::vector<double> losses;  ///< by step
    std::string status;          ///< ok, diverged, stopped, `failed: why`
    bool dumped = false;         ///< the step that `dump` requested was written
};

/// Performs one training run. Writes rows of steps, evals, sites and exponents during the run, and one row of runs.csv
/// at its end. A run that is stopped early writes no row of runs.csv. It saves its state, unless its rows are still
/// held in memory. If `setup.stop_now` is set, the run ends within the current step and saves the state before that
/// step.
RunResult train(Backend& backend, const RunRequest& request, RunRows& rows);

}  // namespace macheps::training
