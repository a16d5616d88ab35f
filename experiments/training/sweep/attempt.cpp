// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/attempt.hpp"

#include "core/host/file_lock.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "experiments/training/sweep/store/copy.hpp"
#include "experiments/training/sweep/store/done.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <type_traits>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

constexpr const char *manifest_file = "manifest.json", *checkpoints_folder = "checkpoints";

/// Returns the number of complete rows in a file, without its header.
std::int64_t rows_in(const fs::path& path) {
    const std::string text = read_if_there(path).value_or("");
    const std::string_view whole = std::string_view(text).substr(0, reports::csv::whole_rows(text));
    return std::max<std::int64_t>(0, std::count(whole.begin(), whole.end(), '\n') - 1);
}

/// Returns the step in the name of a checkpoint of run number `run`, such as 500 for
/// `run-0003-step-000000500.safetensors`. Returns 0 for any other name.
std::int64_t step_in(const std::string& name, std::int64_t run) {
    const std::string prefix = fmt::format("run-{:04}-step-", run);
    constexpr std::string_view ending = ".safetensors";
    if (!name.starts_with(prefix) || !name.ends_with(ending)) return 0;
    std::int64_t step = 0;
    const char *first = name.data() + prefix.size(), *last = name.data() + name.size() - ending.size();
    const auto [end, error] = std::from_chars(first, last, step);
    return error == std::errc{} && end == last ? step : 0;
}

/// Copies the rows and checkpoints of an attempt. Its owner may still be training, and another process may publish or
/// remove it during the copy. Checkpoints are copied before the rows, so the copied rows include all rows that a copied
/// checkpoint refers to. The manifest is copied last, and only if it is still the same file, which shows that nothing
/// was removed during the copy. Training cannot resume without a manifest. Returns whether the manifest was copied.
bool copy_attempt(const fs::path& from, const fs::path& to) {
    const Descriptor manifest(::open((from / manifest_file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const std::optional<std::string> text = read_if_there(from / manifest_file);
    if (!manifest || !text) return false;
    const std::vector<std::string> checkpoints = names_in(from / checkpoints_folder);
    if (!checkpoints.empty()) make_folders(to / checkpoints_folder);
    for (const std::string& name : checkpoints) {
        if (name.starts_with("run-")) copy_onto_disk(from / checkpoints_folder / name, to / checkpoints_folder / name);
    }
    copy_onto_disk(from / reports::RunRow::file, to / reports::RunRow::file);
    constexpr auto files = files_of(std::type_identity<reports::GrowingRows>{});
    for (const std::string_view file : files) copy_onto_disk(from / file, to / file);
    if (is_named(manifest, from / manifest_file) != true) return false;
    publish(to / manifest_file, *text);
    return true;
}

/// Overwrites the note in place. A rename would replace the locked file by a file that is not locked.
void write_attempt_note(const Attempt& attempt) {
    const AttemptNote& note = attempt.note;
    const Json json{{"host", note.host},
                    {"process", note.process},
                    {"shard", note.shard},
                    {"began", {{"runs", note.began.runs}, {"step", note.began.step}}}};
    int error =
        ::ftruncate(attempt.lock.number(), 0) == 0 && ::lseek(attempt.lock.number(), 0, SEEK_SET) == 0 ? 0 : errno;
    if (error == 0) error = attempt.lock.write_all(json.dump(1) + '\n');
    if (error == 0) error = attempt.lock.sync();
    if (error != 0) throw_cannot_write(attempt.folder / attempt_file, error, "write");
}

/// Creates the next free folder of an attempt and locks attempt.json in it. If another process finds the unit finished,
/// it may remove the folder before the note is written. In this case, the next number is tried.
Attempt claim_attempt(const fs::path& out, const std::string& id, int number) {
    constexpr int max_tries = 10000;
    for (int i = 0; i < max_tries; ++i, ++number) {
        Attempt attempt{.number = number, .folder = attempt_folder(out, id, number)};
        if (::mkdir(attempt.folder.c_str(), 0777) != 0) {
            if (errno == EEXIST) continue;
            throw_cannot_write(attempt.folder, errno, "make the folder of an attempt");
        }
        const fs::path note = attempt.folder / attempt_file;
        attempt.lock = Descriptor(::open(note.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (!attempt.lock) {
            const int error = errno;
            if (error == ENOENT) continue;
            ::rmdir(attempt.folder.c_str());
            throw_cannot_write(note, error, "open for writing");
        }
        (void)wait_for_lock(attempt.lock);
        if (is_named(attempt.lock, note) != false) return attempt;
    }
    throw_cannot_write(attempt_folder(out, id, number), EEXIST, "make the folder of an attempt");
}

enum class Life { alive, ended, unknown };
/// Says whether the owner of an attempt is alive. If `life` is `ended`, this object holds the lock of the attempt.
struct AttemptHold {
    Life life = Life::unknown;
    Descriptor lock{};
};

bool is_process_here(const AttemptNote& note) {
    return note.process > 0 && (::kill(static_cast<pid_t>(note.process), 0) == 0 || errno == EPERM);
}

AttemptHold hold_attempt(const fs::path& folder) {
    const fs::path path = folder / attempt_file;
    AttemptHold hold{.lock = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK))};
    if (!hold.lock) return hold;
    switch (try_lock(hold.lock)) {
        case FileLock::held_by_another:
            hold.life = Life::alive;
            break;
        case FileLock::taken:
            if (is_named(hold.lock, path) == true) hold.life = Life::ended;
            break;
        case FileLock::unsupported:
            const std::optional<AttemptNote> note = read_attempt_note(folder);
            if (note && note->host == host_name()) hold.life = is_process_here(*note) ? Life::alive : Life::ended;
            break;
    }
    return hold;
}

/// Removes an attempt in the order that invariant 4 in attempt.hpp requires.
void remove_attempt(const fs::path& folder) {
    std::error_code ignored;
    fs::remove(folder / done_file, ignored);
    fs::remove(folder / manifest_file, ignored);
    for (const std::string& name : names_in(folder)) {
        if (name != attempt_file) remove_folder(folder / name);
    }
    remove_folder(folder);
}

bool is_finished(const fs::path& attempt) { return is_there(attempt / done_file); }

bool is_taken(int error) { return error == EEXIST || error == ENOTEMPTY; }

/// Renames an attempt that has `done` to the unit's folder. Returns false if the unit is already finished.
bool rename_to_unit(const fs::path& out, const std::string& id, const fs::path& folder) {
    constexpr int max_tries = 3;
    const fs::path unit = unit_folder(out, id);
    for (int i = 1;; ++i) {
        make_folders(unit.parent_path());
        if (::rename(folder.c_str(), unit.c_str()) == 0) break;
        const int error = errno;
        if (is_done(out, id)) return false;
        if (!is_taken(error) || i == max_tries) throw_cannot_write(unit, error, "publish the unit");
        remove_folder(unit);  // it has no `done`: the remains of a unit that was removed
    }
    std::error_code ignored;
    fs::remove(unit / attempt_file, ignored);
    sync_folder(unit.parent_path());
    sync_folder(folder.parent_path());
    return true;
}

/// Reads the rows in a folder again, and returns whether they still match `mark`.
bool has_marked_rows(const fs::path& folder, const Done& mark) {
    return make_done(folder, mark.id, mark.attempt).same_rows == mark.same_rows;
}

/// Compares a finished attempt with the finished unit. Different marks do not prove that a machine computed wrongly: a
/// file may have been misread once, or changed on the disk. The rows of each folder are therefore read again and
/// compared with the folder's own mark. Errors: Exit::check_failed if the unit's rows no longer match its mark, or if
/// both folders match their marks but differ from each other.
void check_same_rows(const fs::path& unit, const fs::path& attempt) {
    const Done first = read_done(unit), second = read_done(attempt);
    if (first.same_rows == second.same_rows || !has_marked_rows(attempt, second)) return;
    if (!has_marked_rows(unit, first)) {
        throw Error({.what = fmt::format("unit {}: its rows have changed since it was finished", first.id),
                     .where = unit.string(),
                     .fix = "remove this folder and run its shard again: the folder of the second training then "
                            "becomes the unit's folder",
                     .exit = Exit::check_failed});
    }
    throw Error(
        {.what =
             fmt::format("unit {} was trained twice, with different rows: on {} (attempt {}) and on {} (attempt {})",
                         first.id, first.host, first.attempt, second.host, second.attempt),
         .where = attempt.string(),
         .fix = "find out which of these machines computes wrongly, and remove its folder; both folders are kept",
         .exit = Exit::check_failed});
}

/// Returns the attempt with the most progress, or the latest of several with equal progress. Returns nothing if no
/// attempt has made progress.
std::optional<int> farthest(const fs::path& out, const std::string& id, const std::vector<int>& numbers) {
    std::optional<int> best;
    UnitProgress most;
    for (const int number : numbers) {
        const UnitProgress progress = progress_in(attempt_folder(out, id, number));
        if (progress > UnitProgress{} && progress >= most) most = progress, best = number;
    }
    return best;
}

}  // namespace

UnitProgress progress_in(const fs::path& folder) {
    std::error_code error;
    if (!fs::exists(folder / manifest_file, error)) return {};
    UnitProgress progress{.runs = rows_in(folder / reports::RunRow::file)};
    for (const std::string& name : names_in(folder / checkpoints_folder))
        progress.step = std::max(progress.step, step_in(name, progress.runs));
    return progress;
}

std::vector<int> attempts_at(const fs::path& out, const std::string& id) {
    std::vector<int> numbers;
    for (const std::string& name : names_in(out / "work")) {
        if (!name.starts_with(id + ".")) continue;
        int number = -1;
        const auto [end, error] = std::from_chars(name.data() + id.size() + 1, name.data() + name.size(), number);
        if (error == std::errc{} && end == name.data() + name.size() && number >= 0) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

std::optional<AttemptNote> read_attempt_note(const fs::path& folder) {
    try {
        const Json json = Json::parse(read_regular_file(folder / attempt_file, 1 << 16));
        AttemptNote note;
        json.at("host").get_to(note.host);
        json.at("shard").get_to(note.shard);
        json.at("process").get_to(note.process);
        json.at("began").at("runs").get_to(note.began.runs);
        json.at("began").at("step").get_to(note.began.step);
        return note;
    } catch (const Error&) {
        return std::nullopt;
    } catch (const JsonError&) {
        return std::nullopt;
    }
}

int attempts_without_progress(const fs::path& out, const std::string& id) {
    const std::vector<int> numbers = attempts_at(out, id);
    int count = 0;
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
        const fs::path folder = attempt_folder(out, id, *number);
        const AttemptHold hold = hold_attempt(folder);
        const std::optional<AttemptNote> note = read_attempt_note(folder);
        if (!note) continue;
        if (progress_in(folder) > note->began) break;
        if (hold.life == Life::ended) ++count;
    }
    return count;
}

Attempt take_attempt(const fs::path& out, const std::string& id, const std::string& shard) {
    make_folders(out / "work");
    const std::vector<int> numbers = attempts_at(out, id);
    Attempt attempt = claim_attempt(out, id, numbers.empty() ? 0 : numbers.back() + 1);
    try {
        const std::optional<int> from = farthest(out, id, numbers);
        const fs::path source = from ? attempt_folder(out, id, *from) : fs::path();
        attempt.note = {host_name(), shard, static_cast<std::int64_t>(::getpid()),
                        from ? progress_in(source) : UnitProgress{}};
        write_attempt_note(attempt);
        if (from && !copy_attempt(source, attempt.folder)) {
            empty_attempt(attempt);
        } else {
            attempt.has_rows = from && progress_in(attempt.folder) > UnitProgress{};
        }
    } catch (const Error&) {
        remove_attempt(attempt.folder);  // if it stayed, it would count as an attempt without progress
        throw;
    }
    return attempt;
}

void empty_attempt(Attempt& attempt) {
    std::error_code ignored;
    fs::remove(attempt.folder / manifest_file, ignored);
    for (const std::string& name : names_in(attempt.folder)) {
        if (name != attempt_file) remove_folder(attempt.folder / name);
    }
    attempt.has_rows = false;
    attempt.note.began = {};
    write_attempt_note(attempt);
}

void leave_attempt(const fs::path& out, const std::string& id, Attempt& attempt) {
    try {
        const bool is_useless = is_done(out, id) || !(progress_in(attempt.folder) > attempt.note.began);
        if (is_useless && !is_finished(attempt.folder)) remove_attempt(attempt.folder);
    } catch (const Error&) {  // a folder that cannot be read stays
    }
    attempt.lock.close();
}

void forget_attempts(const fs::path& out, const std::string& id) {
    const std::vector<int> numbers = attempts_at(out, id);
    const std::optional<int> best = farthest(out, id, numbers);
    for (const int number : numbers) {
        const fs::path folder = attempt_folder(out, id, number);
        const AttemptHold hold = hold_attempt(folder);
        if (number != best && hold.life == Life::ended) remove_attempt(folder);
    }
}

Published publish_unit(const fs::path& out, const std::string& id, Attempt& attempt) {
    write_done(make_done(attempt.folder, id, attempt.number), attempt.folder);
    const bool is_first = rename_to_unit(out, id, attempt.folder);
    if (!is_first && is_finished(attempt.folder)) {
        check_same_rows(unit_folder(out, id), attempt.folder);
        remove_attempt(attempt.folder);
    }
    attempt.lock.close();
    std::error_code ignored;
    if (is_first) fs::remove(failure_path(out, id), ignored);
    remove_attempts(out, id);
    return is_first ? Published::by_us : Published::by_another;
}

bool publish_leftover(const fs::path& out, const std::string& id) {
    for (const int number : attempts_at(out, id)) {
        const fs::path folder = attempt_folder(out, id, number);
        if (!is_finished(folder)) continue;
        const AttemptHold hold = hold_attempt(folder);
        if (hold.life == Life::alive || !is_finished(folder)) continue;  // the owner publishes it, or has removed it
        rename_to_unit(out, id, folder);
        if (is_done(out, id)) return true;
    }
    return false;
}

bool is_done(const fs::path& out, const std::string& id) { return is_finished(unit_folder(out, id)); }

void remove_attempts(const fs::path& out, const std::string& id) {
    for (const int number : attempts_at(out, id)) {
        const fs::path folder = attempt_folder(out, id, number);
        const AttemptHold hold = hold_attempt(folder);
        if (hold.life == Life::alive) continue;
        if (is_finished(folder)) check_same_rows(unit_folder(out, id), folder);
        remove_attempt(folder);
    }
}

bool has_finished_attempt(const fs::path& out, const std::string& id) {
    const std::vector<int> numbers = attempts_at(out, id);
    return std::any_of(numbers.begin(), numbers.end(),
                       [&](int number) { return is_finished(attempt_folder(out, id, number)); });
}

}  // namespace macheps::training
