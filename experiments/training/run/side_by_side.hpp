// SPDX-License-Identifier: Apache-2.0
// Trains the runs of one plan side by side, each on a thread with its own engine. A small model keeps only a few
// threads busy, while separate runs need no synchronisation. The output is the same as when one run follows the other.
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
    /// Returns false if the system grants no thread at all, so that no run could begin.
    bool has_threads() const { return !threads_.empty(); }
    SideBySide(const SideBySide&) = delete;
    SideBySide& operator=(const SideBySide&) = delete;

    /// Queues a run, which begins as soon as an engine is free. Runs end in the order of the plan, whatever order they
    /// began in.
    void begin(std::size_t index, const std::vector<double>* baseline);
    /// Returns true if another run may begin: at most two runs for each engine are held in memory.
    bool has_room();
    /// Returns true if fewer runs are held in memory than there are engines, so that an engine has nothing to do.
    bool is_idle();
    /// Opens the earliest run that was begun, and waits until it is over. With `may_begin`, also stops waiting as soon
    /// as an engine is free and there is room for another run. Returns nothing if the earliest run is not over.
    /// Rethrows what training it threw.
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
    // In the order of the plan. References stay valid while runs are added and the first one is removed.
    std::list<Begun> begun_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace macheps::training
