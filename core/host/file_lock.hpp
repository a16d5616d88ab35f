// SPDX-License-Identifier: Apache-2.0
// Locks on files (flock) that a process holds until it closes the file or ends, however it ends. Host only.
#pragma once
#include "core/host/descriptor.hpp"

#include <filesystem>
#include <optional>

namespace macheps {

/// `unsupported`: the file system has no locks (some network file systems), so nothing is known.
enum class FileLock { taken, held_by_another, unsupported };

/// Tries to lock an open file for this process alone. Does not wait.
FileLock try_lock(const Descriptor& file);
/// Waits while another process holds the lock. Returns `taken` or `unsupported`.
FileLock wait_for_lock(const Descriptor& file);

/// Returns whether `path` still names the open file. Returns nothing if the system call fails; errno then gives the
/// reason.
std::optional<bool> is_named(const Descriptor& file, const std::filesystem::path& path);

}  // namespace macheps
