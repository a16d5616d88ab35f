// SPDX-License-Identifier: Apache-2.0
// Locks and resumes run directories: decides which process may write to a directory, and finds where an earlier process
// stopped.
#pragma once
#include "core/host/descriptor.hpp"
#include "experiments/training/run/checkpoint.hpp"
#include "experiments/training/run/options.hpp"
#include "reports/rows/event.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::training {

/// A lock that lets only one process write to a directory. It is a flock(2) on the file `.lock` in the directory, so
/// the system releases it if the process is killed.
class DirectoryLock {
  public:
    /// Acquires the lock. Throws Error: Exit::usage if another process holds the lock, Exit::cannot_write if the file
    /// cannot be created. On a file system without locks, nothing is locked.
    explicit DirectoryLock(const std::filesystem::path& directory);
    /// Removes the lock file.
    ~DirectoryLock();
    DirectoryLock(const DirectoryLock&) = delete;
    DirectoryLock& operator=(const DirectoryLock&) = delete;

  private:
    std::filesystem::path path_;
    Descriptor file_;
};

/// Returns true if the directory contains files of an earlier run.
bool holds_a_run(const std::filesystem::path& directory);
/// Removes the files of an earlier run, including its checkpoints. Removes the manifest first. If the process is killed
/// before it has removed the other files, a run cannot be resumed from them.
void clear_run(const std::filesystem::path& directory);

/// The point at which a run directory is resumed.
struct ResumePoint {
    std::size_t completed = 0;             ///< number of finished runs
    std::optional<Checkpoint> checkpoint;  ///< checkpoint of the next run; empty: this run starts from step 0
    std::vector<reports::StepRow> steps;   ///< the rows of steps.csv that are kept
};

/// Finds the newest intact checkpoint of the unfinished run and truncates the row files to their lengths at that
/// checkpoint. Without a checkpoint, truncates the row files to the beginning of the unfinished run. If this function
/// is interrupted, calling it again gives the same result.
///
/// `plan` contains the names of all runs in order. `check` must throw Error if a checkpoint does not fit run number
/// `run`. `note` is called for each checkpoint that is ignored. Throws Error, Exit::bad_input, if rows of completed
/// runs are missing or belong to runs other than those of `plan`.
ResumePoint find_resume_point(const std::filesystem::path& directory, std::span<const std::string> plan,
                              const std::function<void(std::size_t run, const Checkpoint&)>& check,
                              std::uint64_t recipe, CheckpointFolder& checkpoints,
                              const std::function<void(const std::string&)>& note);

}  // namespace macheps::training
