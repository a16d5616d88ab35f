// SPDX-License-Identifier: Apache-2.0
#include "core/host/thread_pool.hpp"

#include "core/error.hpp"
#include "core/host/float_environment.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace macheps {
namespace {

thread_local bool inside_run = false;

struct InsideRun {
    InsideRun() { inside_run = true; }
    ~InsideRun() { inside_run = false; }
};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

}  // namespace

int available_threads() {
#if defined(__EMSCRIPTEN__)
    return 1;  // the program for the browser is built without threads
#else
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more cores than fit into a cpu_set_t
#endif
}

ThreadPool::ThreadPool(int threads) {
    if (threads < 1) {
        throw Error({.what = "a pool cannot have " + std::to_string(threads) + " threads",
                     .where = "threads",
                     .fix = "use 1 or more; " + std::to_string(available_threads()) + " are available",
                     .exit = Exit::usage});
    }
    // If there are more threads than cores, a spinning thread only keeps another thread from working.
    spins_ = threads <= available_threads() ? 100 : 0;
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    try {
        for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work_until_stopped(); });
    } catch (const std::system_error&) {
        // The system grants no more threads. Fewer workers give the same results.
    } catch (const std::bad_alloc&) {
        // The pool also works with fewer threads if memory runs out. Rethrowing would abandon the threads that already
        // run.
    }
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        runs_.fetch_add(1);
    }
    work_.notify_all();
    for (auto& worker : workers_) worker.join();
}

void ThreadPool::take_tasks() {
    const InsideRun mark;
    try {
        for (std::int64_t i; (i = next_.fetch_add(1)) < tasks_;) (*task_)(i);
    } catch (...) {
        next_.store(tasks_);
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
    }
}

void ThreadPool::work_until_stopped() {
    const DefaultFloatModes modes;  // a thread inherits the modes of its creator
    std::uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < spins_ && runs_.load() == seen; ++i) pause();
        {
            std::unique_lock lock(mutex_);
            work_.wait(lock, [&] { return stop_ || runs_.load() != seen; });
            if (stop_) return;
            seen = runs_.load();
            if (!open_) continue;  // too late: the other threads have finished this run
            joined_.fetch_add(1);
        }
        take_tasks();
        {
            const std::lock_guard lock(mutex_);
            if (joined_.fetch_sub(1) == 1) done_.notify_one();
        }
    }
}

void ThreadPool::run(std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
    const DefaultFloatModes modes;  // so that a task gives the same bits in the caller and in a worker
    if (tasks <= 1 || workers_.empty() || inside_run) {
        for (std::int64_t i = 0; i < tasks; ++i) task(i);
        return;
    }
    const std::lock_guard one_run(one_run_);
    {
        const std::lock_guard lock(mutex_);
        task_ = &task;
        tasks_ = tasks;
        next_.store(0);
        failure_ = nullptr;
        open_ = true;
        runs_.fetch_add(1);
    }
    const auto helpers = std::min<std::int64_t>(tasks - 1, static_cast<std::int64_t>(workers_.size()));
    if (helpers == static_cast<std::int64_t>(workers_.size())) {
        work_.notify_all();
    } else {
        for (std::int64_t i = 0; i < helpers; ++i) work_.notify_one();
    }

    take_tasks();

    for (int i = 0; i < spins_ && joined_.load() != 0; ++i) pause();
    std::unique_lock lock(mutex_);
    open_ = false;
    done_.wait(lock, [&] { return joined_.load() == 0; });
    task_ = nullptr;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace macheps
