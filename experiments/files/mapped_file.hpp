// SPDX-License-Identifier: Apache-2.0
// A file's bytes without reading them first: mapped where the system can, read where it cannot (a pipe).
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace macheps {

class MappedFile {
  public:
    MappedFile() = default;
    /// Throws Error for what is missing, unreadable, or a directory. A file that another program cuts short while it is
    /// mapped ends this one (SIGBUS), as with every mapping.
    explicit MappedFile(const std::filesystem::path& path);

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::shared_ptr<const void> owner_;  // unmaps, or frees
    std::span<const std::byte> bytes_;
};

}  // namespace macheps
