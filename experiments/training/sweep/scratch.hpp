// SPDX-License-Identifier: Apache-2.0
// Where an attempt trains: in its own folder, or on a disk of this machine, from which it is copied back at each checkpoint
// and at the end.
#pragma once
#include "experiments/training/sweep/attempt.hpp"

#include <filesystem>
#include <string>

namespace macheps::training {

class ScratchFolder {
  public:
    /// `scratch` is a folder on a disk of this machine; empty: training writes where the attempt is. What the attempt holds
    /// already is copied there. Errors: Exit::cannot_write.
    ScratchFolder(const std::filesystem::path& scratch, const Attempt& attempt);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    const std::filesystem::path& folder() const { return folder_; }
    /// Called after every step; does nothing until there is a new checkpoint. Rows are appended to, and go onto the disk
    /// before the checkpoint that marks them.
    void copy_checkpoints() const;
    /// At the end: rows, and what else stands there; of a finished attempt no checkpoints.
    void copy_all(bool is_finished) const;
    /// Removes what was copied in: training begins anew.
    void clear() const;

  private:
    bool is_elsewhere() const { return folder_ != home_; }
    void append_rows() const;
    void publish_manifest() const;

    std::filesystem::path home_{}, folder_{};
    mutable std::string newest_;  // the checkpoint that was copied last
};

}  // namespace macheps::training
