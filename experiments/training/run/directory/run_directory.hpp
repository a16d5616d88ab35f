// SPDX-License-Identifier: Apache-2.0
// A run directory between two processes: which one may write to it, and where the earlier one stopped.
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

/// The lock for the only process that writes to a directory: flock(2) on the file `.lock` in it, which a kill releases.
class DirectoryLock {
  public:
    /// Throws Error: Exit::usage if another process holds the lock, Exit::cannot_write if the file cannot be made. On a
    /// file system without locks, nothing is locked.
    explicit DirectoryLock(const std::filesystem::path& directory);
    /// Removes the file.
    ~DirectoryLock();
    DirectoryLock(const DirectoryLock&) = delete;
    DirectoryLock& operator=(const DirectoryLock&) = delete;

  private:
    std::filesystem::path path_;
    Descriptor file_;
};

/// Returns true if the directory has files of an earlier run.
bool holds_a_run(const std::filesystem::path& directory);
/// Removes the files of an earlier run, including its checkpoints. The manifest goes first, so that a kill leaves
/// nothing to resume.
void clear_run(const std::filesystem::path& directory);

/// The point at which a run directory is resumed.
struct ResumePoint {
    std::size_t completed = 0;             ///< runs that are over
    std::optional<Checkpoint> checkpoint;  ///< of the next run; empty: it starts from step 0
    std::vector<reports::StepRow> steps;   ///< the rows of steps.csv that stay
};

/// Finds the newest good checkpoint, and cuts the row files back to the point where it was made. Without a checkpoint,
/// cuts them back to the beginning of the unfinished run. If a kill interrupts this, doing it again gives the same
/// result. `plan` has the names of all runs in order. `check` throws Error if a checkpoint does not fit run number
/// `run`; `note` is then called. Errors: throws Error, Exit::bad_input, if rows of completed runs are missing or belong
/// to runs other than those of `plan`.
ResumePoint find_resume_point(const std::filesystem::path& directory, std::span<const std::string> plan,
                              const std::function<void(std::size_t run, const Checkpoint&)>& check,
                              std::uint64_t recipe, CheckpointFolder& checkpoints,
                              const std::function<void(const std::string&)>& note);

}  // namespace macheps::training
