// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/run_directory.hpp"

#include "core/error.hpp"
#include "core/host/file_lock.hpp"
#include "core/host/publish.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

/// Files of a run directory other than its row files. The manifest comes first, so that clear_run() removes it first.
/// Without a manifest, nothing can be resumed. The last three are unfinished files (drafts) of earlier versions.
constexpr std::string_view other_files[] = {"manifest.json",     "summary.csv",     "report.html",
                                            "manifest.json.new", "summary.csv.new", "report.html.new"};
constexpr auto all_row_files = files_of(std::type_identity<reports::TrainingRows>{});

/// Returns the rows of runs.csv, or no rows if the file is missing or its header is incomplete.
std::vector<reports::RunRow> completed_runs(const fs::path& directory) {
    const fs::path path = directory / reports::RunRow::file;
    if (!fs::exists(path) || reports::csv::whole_rows(reports::csv::read_text(path)) == 0) return {};
    return reports::CsvReader<reports::RunRow>(path).rows();
}

/// Returns the number of bytes that the header and the rows of `runs` occupy at the beginning of a CSV file. The first
/// column of the file must be the name of the run.
std::uint64_t bytes_of_runs(const fs::path& path, std::span<const std::string> runs) {
    if (!fs::exists(path)) return 0;
    const std::string text = reports::csv::read_text(path);
    std::string_view rest = std::string_view(text).substr(0, reports::csv::whole_rows(text));
    const auto skip_line = [&] { rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1)); };
    skip_line();
    for (const std::string& run : runs) {
        std::string cell;
        reports::csv::append_cell(cell, std::string_view(run));
        cell += ',';
        while (rest.starts_with(cell)) skip_line();
    }
    return reports::csv::whole_rows(text) - rest.size();
}

Error torn(const fs::path& path, std::string what) {
    return Error(
        {.what = std::move(what),
         .where = path.string(),
         .fix = "train again, with `force` to replace the directory: it was damaged or edited and cannot be resumed"});
}

Checkpoint read_good(const fs::path& path, const std::string& run, const std::function<void(const Checkpoint&)>& check,
                     std::uint64_t recipe, const fs::path& directory) {
    Checkpoint checkpoint = parse_checkpoint(reports::csv::read_text(path), path.string());
    const auto refuse = [&](std::string what) { throw Error({.what = std::move(what), .where = path.string()}); };
    if (checkpoint.run != run) refuse(fmt::format("the checkpoint belongs to run {}", checkpoint.run));
    if (checkpoint.recipe != recipe) refuse("the checkpoint belongs to another manifest");
    check(checkpoint);
    for (std::size_t i = 0; i < row_files.size(); ++i) {
        const reports::csv::FileMark& mark = checkpoint.files[i];
        const fs::path rows = directory / row_files[i];
        if (!fs::exists(rows) || !(reports::csv::mark_of(rows, mark.bytes) == mark)) {
            refuse(fmt::format("{} no longer has the rows that it had when the checkpoint was written", row_files[i]));
        }
    }
    return checkpoint;
}

}  // namespace

DirectoryLock::DirectoryLock(const fs::path& directory) : path_(directory / ".lock") {
    const auto fail = [&](const char* what, const char* fix) {
        throw Error({.what = fmt::format("{}: {}", what, std::strerror(errno)),
                     .where = directory.string(),
                     .fix = fix,
                     .exit = Exit::cannot_write});
    };
    for (;;) {
        file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        if (!file_) fail("cannot create the lock file", "choose another directory with `directory`");
        const FileLock lock = try_lock(file_);
        if (lock == FileLock::unsupported) return;
        if (lock == FileLock::held_by_another) {
            throw Error({.what = "another macheps process is using this directory",
                         .where = directory.string(),
                         .fix = "wait until it ends, or choose another directory with `directory`",
                         .exit = Exit::usage});
        }
        // The previous holder may have removed the file after this process opened it and before it was locked. A lock
        // on a removed file has no effect, so the loop tries again.
        const std::optional<bool> is_there = is_named(file_, path_);
        if (is_there == true) return;
        if (is_there == false) continue;
        fail("cannot inspect the lock file", "check the folder's permissions");
    }
}

DirectoryLock::~DirectoryLock() { ::unlink(path_.c_str()); }

bool holds_a_run(const fs::path& directory) {
    std::error_code error;
    const auto stands_there = [&](std::string_view name) { return fs::exists(directory / name, error); };
    return stands_there("manifest.json") || std::any_of(all_row_files.begin(), all_row_files.end(), stands_there);
}

void clear_run(const fs::path& directory) {
    const auto remove = [&](std::string_view name) {
        std::error_code error;
        fs::remove(directory / name, error);
        if (!error) return;
        throw Error({.what = fmt::format("cannot remove the earlier run: {}", error.message()),
                     .where = (directory / name).string(),
                     .fix = "choose another directory with `directory`",
                     .exit = Exit::cannot_write});
    };
    // The row files are removed last, so that holds_a_run() stays true until the manifest and the other files are gone.
    std::for_each(std::begin(other_files), std::end(other_files), remove);
    std::for_each(all_row_files.begin(), all_row_files.end(), remove);
    CheckpointFolder(directory).clear();
    remove_leftover_drafts(directory);
}

ResumePoint find_resume_point(const fs::path& directory, std::span<const std::string> plan,
                              const std::function<void(std::size_t run, const Checkpoint&)>& check,
                              std::uint64_t recipe, CheckpointFolder& checkpoints,
                              const std::function<void(const std::string&)>& note) {
    ResumePoint point;
    const std::vector<reports::RunRow> completed = completed_runs(directory);
    point.completed = completed.size();
    for (std::size_t i = 0; i < completed.size(); ++i) {
        if (i >= plan.size() || completed[i].run != plan[i]) {
            throw torn(directory / reports::RunRow::file,
                       fmt::format("run {} is not the run that the manifest has at this position", completed[i].run));
        }
    }

    if (point.completed < plan.size()) {
        for (const fs::path& path : checkpoints.files(point.completed)) {
            try {
                const auto check_next = [&](const Checkpoint& read) { check(point.completed, read); };
                point.checkpoint = read_good(path, plan[point.completed], check_next, recipe, directory);
                checkpoints.is_good(path);
                break;
            } catch (const Error& error) {
                note(fmt::format("ignored a checkpoint: {}", error.what()));
            }
        }
    }
    for (std::size_t i = 0; i < row_files.size(); ++i) {
        const fs::path path = directory / row_files[i];
        reports::csv::cut_back(path, point.checkpoint ? point.checkpoint->files[i].bytes
                                                      : bytes_of_runs(path, plan.first(point.completed)));
    }

    const fs::path steps = directory / reports::StepRow::file;
    if (fs::exists(steps) && fs::file_size(steps) > 0) point.steps = reports::CsvReader<reports::StepRow>(steps).rows();
    for (const reports::RunRow& run : completed) {
        const auto rows = std::count_if(point.steps.begin(), point.steps.end(),
                                        [&](const reports::StepRow& row) { return row.run == run.run; });
        if (rows != run.steps) {
            throw torn(steps, fmt::format("the file has {} rows of run {}, but that run took {} steps", rows, run.run,
                                          run.steps));
        }
    }
    return point;
}

}  // namespace macheps::training
