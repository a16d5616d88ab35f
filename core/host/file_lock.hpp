// SPDX-License-Identifier: Apache-2.0
// Locks files (flock). A process holds a lock until it closes the file or ends, even if it is killed. Host only.
#pragma once
#include "core/host/descriptor.hpp"

#include <filesystem>
#include <optional>

namespace macheps {

/// Result of a lock operation. `unsupported` means that the file system has no locks (some network file systems), so it
/// is unknown whether another process uses the file.
enum class FileLock { taken, held_by_another, unsupported };

/// Tries to lock an open file exclusively. Does not wait.
FileLock try_lock(const Descriptor& file);
/// Locks an open file exclusively. Waits while another process holds the lock. Returns `taken` or `unsupported`.
FileLock wait_for_lock(const Descriptor& file);

/// Returns whether `path` still names the open file. Returns nothing if the system call fails; errno then gives the
/// reason.
std::optional<bool> is_named(const Descriptor& file, const std::filesystem::path& path);

}  // namespace macheps
