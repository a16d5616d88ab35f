// SPDX-License-Identifier: Apache-2.0
// The folder in which an attempt trains. This is either the folder of the attempt or a scratch folder on a disk of this
// machine. Files in a scratch folder are copied to the folder of the attempt at each checkpoint and at the end.
#pragma once
#include "experiments/training/sweep/attempt.hpp"

#include <filesystem>
#include <string>

namespace macheps::training {

class ScratchFolder {
  public:
    /// If `scratch` is an empty path, training writes to the folder of the attempt. Otherwise `scratch` is a folder on
    /// a disk of this machine. Training then writes to a new folder in it, to which the existing files of the attempt
    /// are copied. Errors: Exit::cannot_write.
    ScratchFolder(const std::filesystem::path& scratch, const Attempt& attempt);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    const std::filesystem::path& folder() const { return folder_; }
    /// Copies a new checkpoint, if there is one, to the folder of the attempt. Call this after every step. Rows are
    /// appended before the checkpoint that refers to them is copied.
    void copy_checkpoints() const;
    /// Copies rows, manifest and checkpoints to the folder of the attempt at the end. If training is finished, removes
    /// the checkpoints there instead of copying them.
    void copy_all(bool is_finished) const;
    /// Removes the contents of the scratch folder, so that training can start again from step 0.
    void clear() const;

  private:
    bool is_elsewhere() const { return folder_ != home_; }
    void append_rows() const;
    void publish_manifest() const;

    std::filesystem::path home_{}, folder_{};
    mutable std::string newest_;  // the checkpoint that was copied last
};

}  // namespace macheps::training
