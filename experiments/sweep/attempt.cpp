// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/attempt.hpp"

#include "core/json.hpp"
#include "core/publish.hpp"
#include "core/read_file.hpp"
#include "experiments/sweep/copy.hpp"
#include "experiments/sweep/done.hpp"
#include "experiments/sweep/layout.hpp"
#include "reports/csv.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <type_traits>

namespace macheps {

namespace {

namespace fs = std::filesystem;

constexpr const char *manifest_file = "manifest.json", *checkpoints_folder = "checkpoints";

/// Whole rows of a file behind its header.
std::int64_t rows_in(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return 0;
    const std::string text = read_file(path);
    const std::string_view whole = std::string_view(text).substr(0, csv::whole_rows(text));
    return std::max<std::int64_t>(0, std::count(whole.begin(), whole.end(), '\n') - 1);
}

/// The step in `run-0003-step-000000500.safetensors`; 0 for another run's, or another file.
std::int64_t step_in(const std::string& name, std::int64_t run) {
    const std::string prefix = fmt::format("run-{:04}-step-", run);
    constexpr std::string_view ending = ".safetensors";
    if (!name.starts_with(prefix) || !name.ends_with(ending)) return 0;
    std::int64_t step = 0;
    const char *first = name.data() + prefix.size(), *last = name.data() + name.size() - ending.size();
    const auto [end, error] = std::from_chars(first, last, step);
    return error == std::errc{} && end == last ? step : 0;
}

/// Another process may be at work in `from`. Checkpoints go first, then the rows: so the rows are at least those that each
/// checkpoint marks. The manifest goes last: without one there is nothing to resume.
void copy_attempt(const fs::path& from, const fs::path& to) {
    const std::vector<std::string> checkpoints = names_in(from / checkpoints_folder);
    if (!checkpoints.empty()) make_folders(to / checkpoints_folder);
    for (const std::string& name : checkpoints) {
        if (name.starts_with("run-")) copy_onto_disk(from / checkpoints_folder / name, to / checkpoints_folder / name);
    }
    copy_onto_disk(from / RunRow::file, to / RunRow::file);
    constexpr auto files = files_of(std::type_identity<GrowingRows>{});
    for (const std::string_view file : files) copy_onto_disk(from / file, to / file);
    copy_onto_disk(from / manifest_file, to / manifest_file);
}

void write_attempt_note(const fs::path& folder, const AttemptNote& note) {
    const Json json{{"host", note.host},
                    {"process", note.process},
                    {"shard", note.shard},
                    {"began", {{"runs", note.began.runs}, {"step", note.began.step}}}};
    publish(folder / attempt_file, json.dump(1) + '\n');
}

/// Whether its process lives, as far as this machine can tell: of another one nothing is known.
bool is_at_work(const AttemptNote& note) {
    return note.host == host_name() && note.process > 0 &&
           (::kill(static_cast<pid_t>(note.process), 0) == 0 || errno == EPERM);
}

bool is_taken(int error) { return error == EEXIST || error == ENOTEMPTY; }

/// Renames a marked attempt to the unit's folder; false where a unit stands there.
bool rename_to_unit(const fs::path& out, const std::string& id, const fs::path& folder) {
    const fs::path unit = unit_folder(out, id);
    make_folders(unit.parent_path());
    if (::rename(folder.c_str(), unit.c_str()) != 0) {
        const int error = errno;
        if (is_taken(error) || (error == ENOENT && is_done(out, id))) return false;
        throw_cannot_write(unit, error, "publish the unit");
    }
    sync_folder(unit.parent_path());
    sync_folder(folder.parent_path());
    return true;
}

/// Throws Error, Exit::check_failed, where two trainings of one unit, of which the second one stands in `folder`, came out
/// differently.
void check_same_rows(const Done& first, const Done& second, const fs::path& folder) {
    if (first.same_rows == second.same_rows) return;
    throw Error(
        {.what = fmt::format("unit {} was trained twice and came out with other rows: on {} (attempt {}) and on {} "
                             "(attempt {})",
                             first.id, first.host, first.attempt, second.host, second.attempt),
         .where = folder.string(),
         .fix = "one of these machines computes wrongly; both folders are kept: remove the wrong one",
         .exit = Exit::check_failed});
}

/// The attempt that came farthest, the later one of two that came as far; nothing where none has anything to resume.
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
    UnitProgress progress{.runs = rows_in(folder / RunRow::file)};
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
        const Json json = Json::parse(read_file(folder / attempt_file, 1 << 16));
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
        const std::optional<AttemptNote> note = read_attempt_note(folder);
        if (note && progress_in(folder) > note->began) break;
        if (!note || !is_at_work(*note)) ++count;
    }
    return count;
}

Attempt take_attempt(const fs::path& out, const std::string& id, const std::string& shard) {
    make_folders(out / "work");
    const std::vector<int> numbers = attempts_at(out, id);
    Attempt attempt{.number = numbers.empty() ? 0 : numbers.back() + 1, .folder = {}};
    for (;; ++attempt.number) {
        attempt.folder = attempt_folder(out, id, attempt.number);
        if (::mkdir(attempt.folder.c_str(), 0777) == 0) break;
        if (errno != EEXIST) throw_cannot_write(attempt.folder, errno, "make the folder of an attempt");
    }
    try {
        const std::optional<int> from = farthest(out, id, numbers);
        if (from) attempt.began = progress_in(attempt_folder(out, id, *from));
        write_attempt_note(attempt.folder, {host_name(), shard, static_cast<std::int64_t>(::getpid()), attempt.began});
        if (from) copy_attempt(attempt_folder(out, id, *from), attempt.folder);
        attempt.has_rows = progress_in(attempt.folder) > UnitProgress{};
    } catch (const Error&) {
        remove_folder(attempt.folder);  // it would count as one that came no further
        throw;
    }
    return attempt;
}

void empty_attempt(Attempt& attempt) {
    for (const std::string& name : names_in(attempt.folder)) {
        if (name != attempt_file) remove_folder(attempt.folder / name);
    }
    attempt.has_rows = false;
}

Published publish_unit(const fs::path& out, const std::string& id, const Attempt& attempt) {
    std::error_code ignored;
    fs::remove(attempt.folder / attempt_file, ignored);
    const Done done = make_done(attempt.folder, id, attempt.number);
    write_done(done, attempt.folder);
    if (rename_to_unit(out, id, attempt.folder)) {
        for (const int number : attempts_at(out, id)) {
            if (number < attempt.number) remove_folder(attempt_folder(out, id, number));
        }
        fs::remove(failure_path(out, id), ignored);
        return Published::by_us;
    }
    check_same_rows(read_done(unit_folder(out, id)), done, attempt.folder);
    remove_folder(attempt.folder);
    return Published::by_another;
}

bool publish_leftover(const fs::path& out, const std::string& id) {
    for (const int number : attempts_at(out, id)) {
        const fs::path folder = attempt_folder(out, id, number);
        std::error_code error;
        if (!fs::exists(folder / done_file, error)) continue;
        rename_to_unit(out, id, folder);
        if (is_done(out, id)) return true;
    }
    return false;
}

bool is_done(const fs::path& out, const std::string& id) {
    std::error_code error;
    return fs::exists(unit_folder(out, id) / done_file, error);
}

void remove_attempts(const fs::path& out, const std::string& id) {
    for (const int number : attempts_at(out, id)) {
        const fs::path folder = attempt_folder(out, id, number);
        std::error_code error;
        if (fs::exists(folder / done_file, error))
            check_same_rows(read_done(unit_folder(out, id)), read_done(folder), folder);
        remove_folder(folder);
    }
}

}  // namespace macheps
