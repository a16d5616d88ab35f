// SPDX-License-Identifier: Apache-2.0
// A run directory between two processes: who may write in it, and where the one before left off.
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

/// Held by the one process that writes in a directory: flock(2) on the file `.lock` there, which a kill releases.
class DirectoryLock {
  public:
    /// Throws Error, Exit::usage, where another process holds it, and Exit::cannot_write where the file cannot be made.
    /// On a file system without locks there is none.
    explicit DirectoryLock(const std::filesystem::path& directory);
    /// Removes the file.
    ~DirectoryLock();
    DirectoryLock(const DirectoryLock&) = delete;
    DirectoryLock& operator=(const DirectoryLock&) = delete;

  private:
    std::filesystem::path path_;
    Descriptor file_;
};

/// True when files of an earlier run stand there.
bool holds_a_run(const std::filesystem::path& directory);
/// Removes what an earlier run left, its checkpoints too: the manifest first, so that a kill leaves nothing to resume.
void clear_run(const std::filesystem::path& directory);

/// Where to go on.
struct ResumePoint {
    std::size_t completed = 0;             ///< runs that are over
    std::optional<Checkpoint> checkpoint;  ///< of the next one; empty: it begins anew
    std::vector<reports::StepRow> steps;   ///< the rows of steps.csv that stay
};

/// Finds the newest good checkpoint, and cuts the files of rows back to where it was made, or to the beginning of the
/// run that was in hand. Doing this again, after a kill half-way, gives the same. `plan` has the names of all runs in
/// their order; `check` throws Error for a checkpoint that is none of run number `run`, and `note` is told of it.
/// Errors: throws Error, Exit::bad_input, where rows of completed runs are missing or of other runs than `plan`.
ResumePoint find_resume_point(const std::filesystem::path& directory, std::span<const std::string> plan,
                              const std::function<void(std::size_t run, const Checkpoint&)>& check,
                              std::uint64_t recipe, CheckpointFolder& checkpoints,
                              const std::function<void(const std::string&)>& note);

}  // namespace macheps::training
