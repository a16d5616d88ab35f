// SPDX-License-Identifier: Apache-2.0
// Folders and devices for tests that write files.
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

/// Makes a device like /dev/null at `path`. Returns false if this process lacks the permission. Tests do not use
/// /dev/null itself, because a faulty program that runs as root could replace it by a regular file.
inline bool make_null_device(const std::filesystem::path& path) {
    return ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) == 0;
}

/// A new folder. The destructor removes it, but only in the process that created it and not in forked children.
class TemporaryFolder {
  public:
    explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
        std::string name = (parent / "macheps-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
        path_ = name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        if (::getpid() == owner_) std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
    pid_t owner_ = ::getpid();
};

/// Returns this process's folder on the disk. Tests write only to this folder, to memory_folder() and to objects of
/// TemporaryFolder. Any number of test programs can therefore run on a machine at the same time.
inline const std::filesystem::path& disk_folder() {
    static const TemporaryFolder folder;
    return folder.path();
}

/// Returns this process's folder in memory, where syncing a file costs nothing. If the machine has no /dev/shm, the
/// folder is on the disk.
inline const std::filesystem::path& memory_folder() {
    static const TemporaryFolder folder(::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                                                        : std::filesystem::temp_directory_path());
    return folder.path();
}

}  // namespace macheps::test
