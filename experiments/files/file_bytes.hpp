// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a file on demand. The file is not mapped into memory. If another program cuts a mapped file short,
// a signal ends the process that reads it. Here, reading throws an Error instead.
#pragma once
#include "core/host/read_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace macheps::files {

class FileBytes {
  public:
    FileBytes() = default;
    /// Opens a file. A pipe is read completely into memory. Its bytes are kept, so this process can open the same pipe
    /// again. Errors: the same as those of open_for_reading().
    explicit FileBytes(const std::filesystem::path& path);
    /// Borrows `bytes` instead of opening a file. `name` is the name in errors.
    FileBytes(std::span<const std::byte> bytes, std::string name);

    std::size_t size() const { return size_; }
    const std::string& name() const { return name_; }
    /// Copies the bytes that begin at offset `at` to `out`. They must be within size(). Throws Error if the file has
    /// become too short since it was opened.
    void read(std::size_t at, std::span<std::byte> out) const;

  private:
    std::string name_;
    std::size_t size_ = 0;
    std::shared_ptr<const OpenFile> file_;     // a regular file
    std::shared_ptr<const std::string> pipe_;  // the bytes of a pipe
    std::span<const std::byte> memory_;        // the bytes if file_ is null
};

}  // namespace macheps::files
