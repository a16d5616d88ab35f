// SPDX-License-Identifier: Apache-2.0
// A small pool of threads: one mutex, two condition variables. Host only.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace macheps {

/// Cores this process may use (sched_getaffinity), at least 1.
int available_threads();

/// Tasks are handed out one by one, and `run` never waits for a worker that has not begun: on a busy machine the caller
/// does the work alone. Nothing about a result may depend on which worker computes it.
class ThreadPool {
  public:
    /// `threads`: total workers including the caller; 1 = everything runs in the caller. Throws Error below 1.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    /// Calls task(i) for i in [0, tasks), each once, in any order, on any worker; returns when all are done. The first
    /// exception is rethrown, and tasks that had not begun by then are dropped. Nested calls run serially in the
    /// caller.
    void run(std::int64_t tasks, const std::function<void(std::int64_t)>& task);

  private:
    void work_until_stopped();
    void take_tasks();

    std::vector<std::thread> workers_;
    int spins_ = 0;       ///< pauses before a wait becomes a sleep: a few microseconds
    std::mutex one_run_;  ///< two outside threads take turns

    std::mutex mutex_;  ///< guards what follows, except the atomics
    std::condition_variable work_, done_;
    bool open_ = false;  ///< workers may still join the run
    bool stop_ = false;
    std::exception_ptr failure_;
    const std::function<void(std::int64_t)>* task_ = nullptr;  ///< constant while the run has a worker
    std::int64_t tasks_ = 0;

    std::atomic<std::int64_t> next_{0};
    std::atomic<int> joined_{0};          ///< workers inside the run; rises under the mutex only
    std::atomic<std::uint64_t> runs_{0};  ///< what a spinning worker watches
};

}  // namespace macheps
