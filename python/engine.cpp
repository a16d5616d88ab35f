// SPDX-License-Identifier: Apache-2.0
#include "python/engine.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace macheps::python {

namespace {

/// State of this process. After a fork, a child cannot use the state of its parent: the parent's threads do not exist
/// in the child, and they may have held the mutexes. The child leaks that state and creates a new one.
struct Process {
    std::mutex turn;
    std::unique_ptr<Engine> engine;
    std::optional<int> threads;  ///< set by set_threads()
    std::atomic<int> aside{0};   ///< number of jobs of run_aside() that have not ended
};
Process* process = new Process;  // never freed: a job of run_aside() may still use it when the process exits

Error bad_threads(const std::string& text, std::string where) {
    return Error({.what = "'" + text + "' is not a valid number of threads",
                  .where = std::move(where),
                  .fix = "use a whole number from 1 to 1024",
                  .exit = Exit::usage});
}

int wanted_threads() {
    if (process->threads) return *process->threads;
    const char* text = std::getenv("MACHEPS_THREADS");
    if (text == nullptr || *text == '\0') return available_threads();
    char* end = nullptr;
    const long count = std::strtol(text, &end, 10);
    if (*end != '\0' || count < 1 || count > 1024) throw bad_threads(text, "MACHEPS_THREADS");
    return static_cast<int>(count);
}

/// Result of a job of run_aside(), shared by the job and its waiting caller.
struct Aside {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::exception_ptr failure;
};

}  // namespace

CpuBackend& Engine::backend() {
    if (!backend_) backend_.emplace(pool.threads(), simd);
    return *backend_;
}

void with_engine(const std::function<void(Engine&)>& work) {
    const nb::gil_scoped_release free;
    const std::lock_guard turn(process->turn);
    if (process->engine == nullptr) process->engine = std::make_unique<Engine>(wanted_threads());
    work(*process->engine);
}

void with_engine_at_once(const std::function<void(Engine&)>& work) {
    std::unique_lock turn(process->turn, std::try_to_lock);
    if (!turn.owns_lock() || process->engine == nullptr) {
        if (turn.owns_lock()) turn.unlock();
        return with_engine(work);
    }
    work(*process->engine);
}

void poll_signals() {
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void run_aside(std::function<void(ThreadPool&)> job) {
    const nb::gil_scoped_release free;
    int count = 0;
    {
        const std::lock_guard turn(process->turn);
        count = wanted_threads();
    }
    const auto state = std::make_shared<Aside>();
    Process* const mine = process;
    ++mine->aside;
    std::thread([state, mine, count, job = std::move(job)] {
        try {
            ThreadPool pool(count);
            job(pool);
        } catch (...) {
            const std::lock_guard lock(state->mutex);
            state->failure = std::current_exception();
        }
        {
            const std::lock_guard lock(state->mutex);
            state->is_done = true;
        }
        state->changed.notify_all();
        --mine->aside;
    }).detach();
    std::unique_lock lock(state->mutex);
    while (!state->changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return state->is_done; })) {
        lock.unlock();
        poll_signals();
        lock.lock();
    }
    if (state->failure) std::rethrow_exception(std::exchange(state->failure, nullptr));
}

int threads() {
    int count = 0;
    with_engine([&](Engine& engine) { count = engine.pool.threads(); });
    return count;
}

void set_threads(int count) {
    if (count < 1 || count > 1024) throw bad_threads(std::to_string(count), "set_threads");
    const nb::gil_scoped_release free;
    const std::lock_guard turn(process->turn);
    process->threads = count;
    process->engine = nullptr;
}

void begin_anew_after_fork() {
    auto* fresh = new Process;
    fresh->threads = process->threads;
    process = fresh;
}

void wait_for_jobs_aside() {
    const nb::gil_scoped_release free;
    while (process->aside.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace macheps::python
