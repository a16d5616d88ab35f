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
    const Checkpoint* start = nullptr;              ///< resume from here; null: from step 0
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
    bool dumped = false;         ///< the step that `dump` asked for was written
};

/// Trains a run. Writes the rows of steps, evals, sites and exponents as they are made, and one row of runs at the end.
/// A run that is stopped is not over: it writes no row of runs, and saves its state unless its rows are held. If
/// `setup.stop_now` is set, it does not wait for the end of the current step: the saved state is the one before that
/// step.
RunResult train(Backend& backend, const RunRequest& request, RunRows& rows);

}  // namespace macheps::training
