// SPDX-License-Identifier: Apache-2.0
// Folders for tests that write.
#pragma once
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace macheps::test {

/// Where files live in memory, so that syncing them costs nothing; the usual place where there is no such folder.
inline std::filesystem::path memory_folder() {
    const std::filesystem::path shared_memory = "/dev/shm";
    return access(shared_memory.c_str(), W_OK) == 0 ? shared_memory : std::filesystem::temp_directory_path();
}

/// Makes a device like /dev/null at `path`; false where this process may not. A test that writes to a device writes to one
/// of its own: a program that fails it, run by root, would put a file in the place of the machine's.
inline bool make_null_device(const std::filesystem::path& path) {
    return ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) == 0;
}

/// A folder under the system's temporary one, removed at the end.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "macheps-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
        path_ = name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

}  // namespace macheps::test
