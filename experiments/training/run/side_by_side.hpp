// SPDX-License-Identifier: Apache-2.0
// Runs of one plan trained side by side, each by a thread with an engine of its own. A small model keeps few threads
// busy, and runs do not wait for each other; what is written is what one run after the other writes.
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
    /// One thread for each of the engines, which outlive this, as does all that `work` and `plan` refer to. Where the
    /// system grants fewer threads, fewer runs train at a time.
    SideBySide(std::span<Backend* const> backends, const RunContext& work, std::span<const PlannedRun> plan);
    /// Runs that are not over are abandoned.
    ~SideBySide();
    /// False where the system grants no thread at all: no run could begin.
    bool has_threads() const { return !threads_.empty(); }
    SideBySide(const SideBySide&) = delete;
    SideBySide& operator=(const SideBySide&) = delete;

    /// The run begins as soon as an engine is free. Runs are over in the order of the plan, whenever they were begun.
    void begin(std::size_t index, const std::vector<double>* baseline);
    /// True when another run may begin: no more than two runs for each engine are held in memory.
    bool has_room();
    /// True when fewer runs are held in memory than there are engines, so that one of these has nothing to do.
    bool is_idle();
    /// Opens the earliest run that was begun and waits for it; or, while there is room for another run and `may_begin`,
    /// for any engine to be free. Nothing: the earliest is not over yet. Rethrows what training it threw.
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
    // In the order of the plan; references stay good while others are added and the first is removed.
    std::list<Begun> begun_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace macheps::training
