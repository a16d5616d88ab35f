// SPDX-License-Identifier: Apache-2.0
#include "core/host/file_lock.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace macheps {

namespace {

FileLock lock(const Descriptor& file, int operation) {
    while (::flock(file.number(), operation) != 0) {
        if (errno == EWOULDBLOCK) return FileLock::held_by_another;
        if (errno != EINTR) return FileLock::unsupported;
    }
    return FileLock::taken;
}

}  // namespace

FileLock try_lock(const Descriptor& file) { return lock(file, LOCK_EX | LOCK_NB); }

FileLock wait_for_lock(const Descriptor& file) { return lock(file, LOCK_EX); }

std::optional<bool> is_named(const Descriptor& file, const std::filesystem::path& path) {
    struct stat held {
    }, there{};
    if (::fstat(file.number(), &held) != 0) return std::nullopt;
    if (::stat(path.c_str(), &there) != 0) return errno == ENOENT ? std::optional(false) : std::nullopt;
    return held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

}  // namespace macheps
