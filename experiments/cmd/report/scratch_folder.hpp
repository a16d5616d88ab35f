// SPDX-License-Identifier: Apache-2.0
// Folders for pictures.
#pragma once
#include <filesystem>

namespace macheps::cmd::report {

/// Temporary folder for the files of a program that draws or converts pictures. The destructor removes it. Errors: the
/// constructor throws Error, Exit::cannot_write.
class ScratchFolder {
  public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// Makes a folder and its parents if necessary. Errors: throws Error, Exit::cannot_write.
void make_folder(const std::filesystem::path& folder);

}  // namespace macheps::cmd::report
