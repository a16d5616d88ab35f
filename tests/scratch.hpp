// SPDX-License-Identifier: Apache-2.0
// Folders for tests that write much.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace macheps::test {

/// Where files live in memory, so that syncing them costs nothing; the usual place where there is no such folder.
inline std::filesystem::path memory_folder() {
    const std::filesystem::path shared_memory = "/dev/shm";
    return access(shared_memory.c_str(), W_OK) == 0 ? shared_memory : std::filesystem::temp_directory_path();
}

}  // namespace macheps::test
