// SPDX-License-Identifier: Apache-2.0
// Files that appear whole: the one door through which the program publishes a file. Host only.
#pragma once
#include "core/host/descriptor.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace macheps {

/// A file in the making. Its bytes go into a draft beside it, which finish() puts onto the disk and renames: whoever
/// reads `path` meanwhile, and whatever crashes, sees the old file or the new one. Any number of processes may publish
/// the same file at once: each has a draft of its own, and the last one to finish stays.
///
/// Symbolic links are followed: the file that they name is replaced (or made), with the permissions that it had. What is
/// there and no regular file (a device, a pipe, a terminal) is written in place.
///
/// A draft is `.macheps-PROCESS-NUMBER.new`, made anew (never through a name or a link that stands there), and locked
/// while its writer lives. Publishing into a folder removes the drafts there that nobody holds.
/// Errors: Error, Exit::cannot_write; until the rename `path` is what it was before.
class Publication {
  public:
    explicit Publication(const std::filesystem::path& path);
    /// Removes the draft unless finish() was done.
    ~Publication();
    Publication(const Publication&) = delete;
    Publication& operator=(const Publication&) = delete;

    void write(std::string_view bytes);
    void finish();

  private:
    void open_draft();
    [[noreturn]] void fail(int error, std::string_view doing);

    std::filesystem::path path_;    // as it was given, for errors
    std::filesystem::path target_;  // behind all links
    std::filesystem::path draft_;   // empty: written in place
    Descriptor file_;
};

/// Publishes a file of `text`.
void publish(const std::filesystem::path& path, std::string_view text);

/// True where `path` stands for something that is no regular file, and so has no place beside it.
bool is_written_in_place(const std::filesystem::path& path);

/// For a file whose name the program chose: throws Error, Exit::cannot_write, if a pipe, a device or a folder has that name.
/// The user did not ask for a pipe, and writing into it would wait for a reader.
void check_is_replaceable(const std::filesystem::path& path);

/// Removes the drafts in `folder` whose writers are gone. On a file system without locks they stay.
void remove_leftover_drafts(const std::filesystem::path& folder);

/// Throws Error, Exit::cannot_write: `doing` (`write`) failed with `error`, an errno.
[[noreturn]] void throw_cannot_write(const std::filesystem::path& path, int error, std::string_view doing);

}  // namespace macheps
