// SPDX-License-Identifier: Apache-2.0
// The folder in which an attempt trains: its own folder, or one on a disk of this machine, from which files are copied
// back at each checkpoint and at the end.
#pragma once
#include "experiments/training/sweep/attempt.hpp"

#include <filesystem>
#include <string>

namespace macheps::training {

class ScratchFolder {
  public:
    /// `scratch` is a folder on a disk of this machine. If it is empty, training writes to the folder of the attempt.
    /// Otherwise the files that the attempt already has are copied there. Errors: Exit::cannot_write.
    ScratchFolder(const std::filesystem::path& scratch, const Attempt& attempt);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    const std::filesystem::path& folder() const { return folder_; }
    /// Copies a new checkpoint back. Called after every step; does nothing until there is one. Rows are appended, and
    /// are on the disk before the checkpoint that marks them.
    void copy_checkpoints() const;
    /// Copies rows, manifest and checkpoints back at the end. If the attempt is finished, removes its checkpoints
    /// instead.
    void copy_all(bool is_finished) const;
    /// Removes the files that were copied in, so that training can start again from step 0.
    void clear() const;

  private:
    bool is_elsewhere() const { return folder_ != home_; }
    void append_rows() const;
    void publish_manifest() const;

    std::filesystem::path home_{}, folder_{};
    mutable std::string newest_;  // the checkpoint that was copied last
};

}  // namespace macheps::training
