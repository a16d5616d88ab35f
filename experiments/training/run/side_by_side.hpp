// SPDX-License-Identifier: Apache-2.0
// Trains several runs of a plan at the same time, each on a thread with its own engine. A single run of a small model
// keeps only a few threads busy, while separate runs need no synchronisation. The output is the same as if the runs
// were trained one after another.
#pragma once
#include "experiments/training/run/experiment_runs.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace macheps::training {

class SideBySide {
  public:
    /// Starts one thread for each of the engines. The engines, and everything that `work` and `plan` refer to, must
    /// outlive this object. If the system grants fewer threads, fewer runs train at a time.
    SideBySide(std::span<Backend* const> backends, const RunContext& work, std::span<const PlannedRun> plan);
    /// Abandons the runs that are not over.
    ~SideBySide();
    /// Returns false if the system could not start any thread. In this case, no run can begin.
    bool has_threads() const { return !threads_.empty(); }
    SideBySide(const SideBySide&) = delete;
    SideBySide& operator=(const SideBySide&) = delete;

    /// Queues a run, which begins as soon as an engine is free. wait() returns the results in the order of the plan, no
    /// matter in which order runs begin.
    void begin(std::size_t index, const std::vector<double>* baseline);
    /// Returns true if another run may begin: an engine is free, and fewer than two runs for each engine are held in
    /// memory.
    bool has_room();
    /// Returns true if fewer runs are held in memory than there are engines. At least one engine is then idle.
    bool is_idle();
    /// Of the runs that begin() queued and whose results were not yet returned, takes the one that comes first in the
    /// plan. Opens this run (see RunJob::open()), waits until it is over, and returns its result. With `may_begin`,
    /// also stops waiting when another run may begin (see has_room()), and then returns nothing. Rethrows an exception
    /// that the training of the run threw.
    std::optional<RunResult> wait(bool may_begin);

  private:
    struct Begun {
        std::size_t index;
        std::unique_ptr<RunJob> job;
        RunResult result{};
        std::exception_ptr failure{};
        bool taken = false, over = false, opened = false;
    };

    void work_until_stopped(Backend& backend);
    Begun* next_to_take();
    std::size_t running() const;

    const RunContext& work_;
    std::span<const PlannedRun> plan_;
    std::mutex mutex_;
    std::condition_variable changed_;
    // The runs that were begun, in the order of the plan. In a list, references to elements stay valid when others are
    // added or removed.
    std::list<Begun> begun_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace macheps::training
