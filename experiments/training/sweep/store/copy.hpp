// SPDX-License-Identifier: Apache-2.0
// Copies files of an attempt. The standard library's functions are not used: they report a full disk as an input/output
// error, which would be retried.
#pragma once
#include <filesystem>

namespace macheps::training {

/// Copies a file onto the disk and replaces `to`. A file that is missing, or disappears meanwhile, is not copied.
/// Errors: Exit::cannot_write, in the system's words.
void copy_onto_disk(const std::filesystem::path& from, const std::filesystem::path& to);

/// Does the same for each file in a folder and in its subfolders.
void copy_folder_onto_disk(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace macheps::training
