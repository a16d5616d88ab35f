// SPDX-License-Identifier: Apache-2.0
// Publishes files so that readers never see a partial one. Host only.
#pragma once
#include "core/host/descriptor.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace macheps {

/// A file that is being written. The bytes go into a draft, a temporary file in the same folder. finish() syncs the
/// draft to the disk and renames it to `path`. Readers of `path` therefore see either the old or the new file at any
/// time, even after a crash. Any number of processes may publish the same file at once. Each process has its own draft,
/// and the last process to finish wins.
///
/// Symbolic links are followed: the file that they name is replaced (or created) and keeps its permissions. If `path`
/// exists but is not a regular file (a device, a pipe, a terminal), it is written in place.
///
/// A draft is called `.macheps-PROCESS-NUMBER.new`. It is always a new file, never an existing file or link. The writer
/// holds a lock on it. Publishing into a folder removes the drafts in this folder that no process has locked.
///
/// Errors: Error, Exit::cannot_write. Until the rename, `path` is unchanged.
class Publication {
  public:
    explicit Publication(const std::filesystem::path& path);
    /// Removes the draft unless finish() succeeded.
    ~Publication();
    Publication(const Publication&) = delete;
    Publication& operator=(const Publication&) = delete;

    void write(std::string_view bytes);
    void finish();

  private:
    void open_draft();
    [[noreturn]] void fail(int error, std::string_view doing);

    std::filesystem::path path_;    // as given; used in error messages
    std::filesystem::path target_;  // after all links are followed
    std::filesystem::path draft_;   // empty if the file is written in place
    Descriptor file_;
};

/// Publishes a file that contains `text`.
void publish(const std::filesystem::path& path, std::string_view text);

/// Returns true if `path` exists and is neither a regular file nor a folder (for example /dev/stdout). The caller
/// cannot write other files next to such a path.
bool is_written_in_place(const std::filesystem::path& path);

/// Throws Error, Exit::cannot_write, if `path` is a pipe, a device or a folder. Used for files whose names the program
/// chooses. The user did not ask to write into a pipe, and writing into a pipe would wait for a reader.
void check_is_replaceable(const std::filesystem::path& path);

/// Removes the drafts in `folder` whose writers no longer exist. On a file system without locks, removes nothing.
void remove_leftover_drafts(const std::filesystem::path& folder);

/// Throws Error, Exit::cannot_write. `doing` names the action that failed, such as `write`, and `error` is its errno.
[[noreturn]] void throw_cannot_write(const std::filesystem::path& path, int error, std::string_view doing);

}  // namespace macheps
