// SPDX-License-Identifier: Apache-2.0
// Trainer: one model under one policy and seed, from step 0 to the last, as rows.
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
    const Checkpoint* start = nullptr;              ///< go on from here; null: from the beginning
    std::vector<reports::StepRow> steps_done{};     ///< the rows of the steps before `start`
    const DumpRequest* dump = nullptr;              ///< a step to write whole; null: none
    reports::CsvWriter<reports::HashRow>* hashes =
        nullptr;                             ///< gets the bits of every tensor of every step; null: nothing does
    std::int64_t save_every = 0;             ///< steps between calls of `save`; 0: only when stopped
    std::function<void(Checkpoint)> save{};  ///< gets the state; `recipe` is for the caller to fill in
    std::function<void(std::int64_t step, double loss)> on_step{};
};

struct RunResult {
    std::vector<double> losses;  ///< by step
    std::string status;          ///< ok, diverged, stopped, `failed: why`
    bool dumped = false;         ///< the step that `dump` asked for was written
};

/// Trains, writes the rows of steps, evals, sites and exponents as they come and one row of runs at the end. A run that
/// is stopped saves its state, unless its rows are held, and writes no row of runs: it is not over. Where `setup.stop_now`
/// is set it does not wait for the end of the step in hand: the state that is saved is the one before that step.
RunResult train(Backend& backend, const RunRequest& request, RunRows& rows);

}  // namespace macheps::training
