// SPDX-License-Identifier: Apache-2.0
// A small pool of threads, built on mutexes and condition variables. Host only.
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

/// Returns the number of cores that this process may use (sched_getaffinity), at least 1.
int available_threads();

/// A pool of threads that execute tasks. Each thread takes one task at a time. run() never waits for a worker that has
/// not started yet, so on a busy machine the caller may do all the work. The result of a task must not depend on the
/// worker that computes it.
class ThreadPool {
  public:
    /// `threads` is the number of threads including the caller. If it is 1, everything runs in the caller. Throws Error
    /// if `threads` is below 1.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    /// Calls task(i) once for each i in [0, tasks), in any order and on any worker, and returns when all calls are
    /// done. The first exception is rethrown, and tasks that have not started by then are dropped. Nested calls run
    /// serially in the caller.
    void run(std::int64_t tasks, const std::function<void(std::int64_t)>& task);

  private:
    void work_until_stopped();
    void take_tasks();

    std::vector<std::thread> workers_;
    int spins_ = 0;       ///< pauses (a few microseconds) that a waiting thread makes before it sleeps
    std::mutex one_run_;  ///< held by run(), so that several callers of run() take turns

    std::mutex mutex_;  ///< guards the members below, except the atomics
    std::condition_variable work_, done_;
    bool open_ = false;  ///< whether workers may still join the current run
    bool stop_ = false;
    std::exception_ptr failure_;
    const std::function<void(std::int64_t)>* task_ = nullptr;  ///< does not change while a worker is in the run
    std::int64_t tasks_ = 0;

    std::atomic<std::int64_t> next_{0};
    std::atomic<int> joined_{0};          ///< number of workers in the run; incremented only under the mutex
    std::atomic<std::uint64_t> runs_{0};  ///< number of runs so far; spinning workers poll it
};

}  // namespace macheps
