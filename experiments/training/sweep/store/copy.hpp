// SPDX-License-Identifier: Apache-2.0
// Copies files of an attempt. The copy functions of the standard library are not used, because they report a full disk
// as an input/output error. Shards would then retry the copy, because they take such errors for transient ones.
#pragma once
#include <filesystem>

namespace macheps::training {

/// Copies a file to `to`, which is replaced, and waits until the copy is on the disk. A missing file is skipped,
/// because another process may have removed it. Errors: Exit::cannot_write, with the system's message.
void copy_onto_disk(const std::filesystem::path& from, const std::filesystem::path& to);

/// Calls copy_onto_disk() for each file in a folder and in its subfolders.
void copy_folder_onto_disk(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace macheps::training
