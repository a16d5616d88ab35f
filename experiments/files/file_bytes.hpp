// SPDX-License-Identifier: Apache-2.0
// A file's bytes, read on demand. The file is not mapped into memory. If another program cuts it short, reading gives
// an error, but with a mapping a signal would end this process.
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
    /// Opens a file. A pipe is read completely into memory, and only once: its bytes are kept, so that this process can
    /// open it again. Errors: as open_for_reading.
    explicit FileBytes(const std::filesystem::path& path);
    /// Borrows `bytes`. `name` is the name in errors.
    FileBytes(std::span<const std::byte> bytes, std::string name);

    std::size_t size() const { return size_; }
    const std::string& name() const { return name_; }
    /// Copies the bytes from `at` on, which existed when the file was opened. Throws Error if they no longer exist.
    void read(std::size_t at, std::span<std::byte> out) const;

  private:
    std::string name_;
    std::size_t size_ = 0;
    std::shared_ptr<const OpenFile> file_;     // a regular file
    std::shared_ptr<const std::string> pipe_;  // the bytes of a pipe
    std::span<const std::byte> memory_;        // used if file_ is null
};

}  // namespace macheps::files
