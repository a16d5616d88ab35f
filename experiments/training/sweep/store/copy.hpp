// SPDX-License-Identifier: Apache-2.0
// Files of an attempt, copied. The standard library's way calls a disk that is full an input/output error, which may pass.
#pragma once
#include <filesystem>

namespace macheps::training {

/// Copies a file onto the disk, in place of what `to` is. What is not there, or goes away meanwhile, is not copied.
/// Errors: Exit::cannot_write, in the system's words.
void copy_onto_disk(const std::filesystem::path& from, const std::filesystem::path& to);

/// The same of each file in a folder, and in the folders in it.
void copy_folder_onto_disk(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace macheps::training
