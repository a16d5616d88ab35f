// SPDX-License-Identifier: Apache-2.0
// A file's bytes, read where they are asked for. Nothing is mapped: a file that another program cuts short is then an
// error, where a mapping would end this process with a signal.
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
    /// Errors: as open_for_reading. A pipe is read whole, into memory, and only once: its bytes are kept for whoever
    /// opens it again in this process.
    explicit FileBytes(const std::filesystem::path& path);
    /// Borrows `bytes`; `name` stands in errors.
    FileBytes(std::span<const std::byte> bytes, std::string name);

    std::size_t size() const { return size_; }
    const std::string& name() const { return name_; }
    /// Copies the bytes from `at` on, which were there when the file was opened. Throws Error where they no longer are.
    void read(std::size_t at, std::span<std::byte> out) const;

  private:
    std::string name_;
    std::size_t size_ = 0;
    std::shared_ptr<const OpenFile> file_;     // a regular file
    std::shared_ptr<const std::string> pipe_;  // what a pipe gave
    std::span<const std::byte> memory_;        // where there is no file_
};

}  // namespace macheps::files
