// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/side_by_side.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace macheps::training {

SideBySide::SideBySide(std::span<Backend* const> backends, const RunContext& work, std::span<const PlannedRun> plan)
    : work_(work), plan_(plan) {
    threads_.reserve(backends.size());
    try {
        for (Backend* backend : backends) threads_.emplace_back([this, backend] { work_until_stopped(*backend); });
    } catch (const std::system_error&) {
        // The system cannot start more threads. The runs then train on fewer threads and give the same rows.
    }
}

SideBySide::~SideBySide() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        for (Begun& run : begun_) run.job->abandon();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

SideBySide::Begun* SideBySide::next_to_take() {
    const auto run = std::find_if(begun_.begin(), begun_.end(), [](const Begun& r) { return !r.taken; });
    return run == begun_.end() ? nullptr : &*run;
}

void SideBySide::work_until_stopped(Backend& backend) {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stop_ || next_to_take() != nullptr; });
        if (stop_) return;
        Begun& run = *next_to_take();
        run.taken = true;
        lock.unlock();
        RunResult result;
        std::exception_ptr failure;
        try {
            result = run.job->train(backend);
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        run.result = std::move(result);
        run.failure = failure;
        run.over = true;
        changed_.notify_all();
    }
}

void SideBySide::begin(std::size_t index, const std::vector<double>* baseline) {
    auto job = std::make_unique<RunJob>(work_, plan_, index, baseline);
    const std::lock_guard lock(mutex_);
    const auto place = std::find_if(begun_.begin(), begun_.end(), [&](const Begun& run) { return run.index > index; });
    const bool is_first = place == begun_.begin();
    if (is_first) job->open();  // open it before it trains, so that its first steps are saved and reported
    begun_.insert(place, {.index = index, .job = std::move(job), .opened = is_first});
    changed_.notify_all();
}

std::size_t SideBySide::running() const {
    return static_cast<std::size_t>(
        std::count_if(begun_.begin(), begun_.end(), [](const Begun& run) { return !run.over; }));
}

bool SideBySide::has_room() {
    const std::lock_guard lock(mutex_);
    return running() < threads_.size() && begun_.size() < 2 * threads_.size();
}

bool SideBySide::is_idle() {
    const std::lock_guard lock(mutex_);
    return begun_.size() < threads_.size();
}

std::optional<RunResult> SideBySide::wait(bool may_begin) {
    std::unique_lock lock(mutex_);
    Begun& first = begun_.front();
    if (!std::exchange(first.opened, true)) {
        lock.unlock();
        first.job->open();
        lock.lock();
    }
    changed_.wait(lock, [&] {
        return first.over || (may_begin && running() < threads_.size() && begun_.size() < 2 * threads_.size());
    });
    if (!first.over) return {};
    if (first.failure) std::rethrow_exception(first.failure);
    RunResult result = std::move(first.result);
    lock.unlock();
    first.job->finish(result);
    lock.lock();
    begun_.pop_front();
    return result;
}

}  // namespace macheps::training
