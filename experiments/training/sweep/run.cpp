// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/run.hpp"

#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "experiments/training/sweep/attempt.hpp"
#include "experiments/training/sweep/scratch.hpp"
#include "experiments/training/sweep/store/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int max_attempts_without_progress = 3, max_retries = 3;

/// Returns whether `error` is the system's error `number`. Every error of reading or writing contains the system's
/// message, which this function searches for.
bool says(const Error& error, int number) {
    return error.parts().what.find(std::strerror(number)) != std::string::npos;
}

/// Returns true for transient errors of a network file system or a busy machine. The unit does not cause them. They may
/// disappear when another process closes its files or a server is available again.
bool may_pass(const Error& error) {
    constexpr int passing[] = {ESTALE, EIO,     EMFILE,    ENFILE,    ENOMEM,      EAGAIN,    EBUSY,
                               ENOLCK, ENOBUFS, ETIMEDOUT, EREMOTEIO, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH};
    return std::any_of(std::begin(passing), std::end(passing), [&](int number) { return says(error, number); });
}

/// Converts an exception of the standard library to an Error with the system's message.
Error as_error(const std::system_error& error) {
    const auto* file = dynamic_cast<const fs::filesystem_error*>(&error);
    return Error({.what = error.code().message(),
                  .where = file == nullptr ? std::string() : file->path1().string(),
                  .fix = "check the path, its permissions and the limits of this process"});
}

/// Thrown during the training of a unit if another process has finished it.
struct FinishedElsewhere {};

/// Returns the error that ends the shard if a transient error did not disappear. The other units would fail in the same
/// way, so no unit is recorded as failed.
Error lost_files(const Error& error) {
    return Error({.what = error.parts().what,
                  .where = error.parts().where,
                  .fix = "check the file systems of this machine and run the shard again: it continues, and finished "
                         "units are complete",
                  .exit = Exit::cannot_write});
}

class Runner {
  public:
    Runner(Backend& backend, const Sweep& sweep, const ShardRequest& request, const TaskOf& task_of,
           const ShardWatcher& watcher, std::atomic<bool>& stop, const std::atomic<bool>& stop_now)
        : backend_(backend),
          sweep_(sweep),
          request_(request),
          task_of_(task_of),
          watcher_(watcher),
          stop_(stop),
          stop_now_(stop_now) {}

    Exit run() {
        bool has_failed = false;
        for (const std::size_t index : request_.units) {
            look_at_clock();
            const SweepUnit& unit = sweep_.units[index];
            const Clock::time_point start = Clock::now();
            UnitReport report{.id = unit.id, .end = end_of(unit, report_what_)};
            report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
            report.what = std::exchange(report_what_, {});
            if (watcher_.unit) watcher_.unit(report);
            if (report.end == UnitEnd::stopped) return Exit::stopped;
            has_failed = has_failed || report.end == UnitEnd::failed || report.end == UnitEnd::had_failed;
        }
        return has_failed ? Exit::check_failed : Exit::ok;
    }

  private:
    void note(const std::string& text) const {
        if (watcher_.note) watcher_.note(text);
    }
    void look_at_clock() {
        if (request_.deadline && Clock::now() >= *request_.deadline) stop_ = true;
    }

    /// Trains a unit. Tries again after transient errors, and records all other errors.
    UnitEnd end_of(const SweepUnit& unit, std::string& what) {
        for (int retries = 0;; ++retries) {
            try {
                return end_of_try(unit, what);
            } catch (const Error& error) {
                if (!is_final(unit, error, retries, what)) continue;
            } catch (const std::system_error& error) {
                if (!is_final(unit, as_error(error), retries, what)) continue;
            } catch (const std::bad_alloc&) {
                what = "out of memory (choose a smaller model or batch, or a machine with more)";
                record(unit, what, Exit::bad_input);
            }
            return UnitEnd::failed;
        }
    }

    /// Decides how to handle an error. Returns false if the unit should be trained again. Records an error that stops
    /// the unit, and returns true. Throws an error that stops the shard.
    bool is_final(const SweepUnit& unit, const Error& error, int retries, std::string& what) const {
        // If another process has finished the unit, it may have removed the files of this attempt.
        const bool is_theirs = is_done(request_.out, unit.id) && error.exit() != Exit::check_failed;
        if (is_theirs && retries < max_retries) return false;
        if (may_pass(error)) {
            if (retries == max_retries) throw lost_files(error);
            note(fmt::format("{}; trying again", error.what()));
            wait(request_.patience / max_retries);
            return false;
        }
        if (error.exit() == Exit::cannot_write) throw error;
        what = error.what();
        record(unit, what, error.exit());
        return true;
    }

    UnitEnd end_of_try(const SweepUnit& unit, std::string& what) {
        const fs::path& out = request_.out;
        if (is_done(out, unit.id) || publish_leftover(out, unit.id)) {
            remove_attempts(out, unit.id);
            std::error_code ignored;
            fs::remove(failure_path(out, unit.id),
                       ignored);  // an error that another process recorded is obsolete now
            return UnitEnd::was_done;
        }
        if (const std::optional<Failure> before = read_failure(out, unit.id)) {
            if (!request_.retry_failed) {
                what = before->what;
                return UnitEnd::had_failed;
            }
            forget_failure(unit);
        }
        if (stop_) return UnitEnd::stopped;
        return train(unit);
    }

    void wait(double seconds) const {
        const Clock::time_point end =
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        while (!stop_ && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }

    UnitEnd train(const SweepUnit& unit) {
        const fs::path& out = request_.out;
        if (const int idle = attempts_without_progress(out, unit.id); idle >= max_attempts_without_progress) {
            throw Error({.what = fmt::format("{} attempts ended without any progress", idle),
                         .where = fmt::format("unit {}", unit.id),
                         .fix = "check whether they ran out of memory, and use --retry-failed to try again"});
        }
        Experiment experiment = unit_experiment(sweep_, unit, task_of_);
        Attempt attempt = take_attempt(out, unit.id, request_.shard);
        number_ = attempt.number;
        try {
            if (!train(unit, experiment, attempt)) {
                leave_attempt(out, unit.id, attempt);
                return UnitEnd::stopped;
            }
            if (publish_unit(out, unit.id, attempt) == Published::by_another)
                note(fmt::format("{}: another process finished first, with the same rows", unit.id));
            return UnitEnd::trained;
        } catch (const FinishedElsewhere&) {
            leave_attempt(out, unit.id, attempt);
            return UnitEnd::was_done;
        } catch (...) {
            leave_attempt(out, unit.id, attempt);
            throw;
        }
    }

    /// Trains a unit in the folder of an attempt. Returns false if training was stopped.
    bool train(const SweepUnit& unit, Experiment& experiment, Attempt& attempt) {
        const ScratchFolder scratch(request_.scratch, attempt);
        experiment.directory = scratch.folder();
        experiment.memory = request_.memory;
        experiment.resume = attempt.has_rows;
        const auto progress = [&](const Progress& p) {
            look_at_clock();
            look_at_unit(unit);
            scratch.copy_checkpoints();
            if (!p.note.empty()) return note(p.note);
            if (watcher_.progress) watcher_.progress(p);
        };
        bool is_finished = false;
        try {
            is_finished = run_experiment(backend_, experiment, progress, stop_, &stop_now_);
        } catch (const Error& error) {
            // The rows of the earlier attempt may be damaged, so the unit is trained again from step 0.
            if (!experiment.resume || error.exit() != Exit::bad_input || may_pass(error)) throw;
            note(fmt::format("starting from the beginning: {}", error.what()));
            empty_attempt(attempt);
            scratch.clear();
            experiment.resume = false;
            is_finished = run_experiment(backend_, experiment, progress, stop_, &stop_now_);
        }
        scratch.copy_all(is_finished);
        return is_finished;
    }

    /// Checks once a second whether another process has finished the unit, which then needs no more training.
    void look_at_unit(const SweepUnit& unit) {
        if (Clock::now() < next_look_) return;
        next_look_ = Clock::now() + std::chrono::seconds(1);
        if (is_done(request_.out, unit.id)) throw FinishedElsewhere{};
    }

    void record(const SweepUnit& unit, const std::string& what, Exit exit) const {
        make_folders(request_.out / "failed");
        const Json json{{"unit", unit.id},         {"what", what},       {"host", host_name()},
                        {"shard", request_.shard}, {"attempt", number_}, {"exit", static_cast<int>(exit)}};
        publish(failure_path(request_.out, unit.id), json.dump(1, Json::BadUtf8::is_replaced) + '\n');
    }

    void forget_failure(const SweepUnit& unit) const {
        forget_attempts(request_.out, unit.id);
        std::error_code ignored;
        fs::remove(failure_path(request_.out, unit.id), ignored);
    }

    Backend& backend_;
    const Sweep& sweep_;
    const ShardRequest& request_;
    const TaskOf& task_of_;
    const ShardWatcher& watcher_;
    std::atomic<bool>& stop_;
    const std::atomic<bool>& stop_now_;
    int number_ = 0;
    Clock::time_point next_look_{};
    std::string report_what_;
};

}  // namespace

Exit run_shard(Backend& backend, const Sweep& sweep, const ShardRequest& request, const TaskOf& task_of,
               const ShardWatcher& watcher, std::atomic<bool>& stop, const std::atomic<bool>& stop_now) {
    return Runner(backend, sweep, request, task_of, watcher, stop, stop_now).run();
}

std::optional<Failure> read_failure(const fs::path& out, const std::string& id) {
    Failure failure{.id = id, .what = "its record cannot be read", .host = {}, .shard = {}};
    try {
        const std::optional<std::string> text = read_if_there(failure_path(out, id), 1 << 20);
        if (!text) return std::nullopt;
        const Json json = Json::parse(*text);
        json.at("what").get_to(failure.what);
        json.at("host").get_to(failure.host);
        json.at("shard").get_to(failure.shard);
        json.at("attempt").get_to(failure.attempt);
        json.at("exit").get_to(failure.exit);
    } catch (const Error&) {
    } catch (const JsonError&) {
    }
    return failure;
}

}  // namespace macheps::training
