// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/store/copy.hpp"

#include "core/host/descriptor.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "experiments/training/sweep/store/layout.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace macheps::training {

namespace fs = std::filesystem;

void copy_onto_disk(const fs::path& from, const fs::path& to) {
    struct stat status {};
    const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!source) {
        if (errno == ENOENT) return;
        throw_cannot_write(from, errno, "read the files to copy");
    }
    if (::fstat(source.number(), &status) != 0) throw_cannot_write(from, errno, "read the files to copy");
    if (!S_ISREG(status.st_mode)) return void(open_regular_file(from));  // throws
    const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!target) throw_cannot_write(to, errno, "open for writing");
    std::string block(std::size_t{1} << 16, '\0');
    for (;;) {
        const ssize_t count = ::read(source.number(), block.data(), block.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw_cannot_write(from, errno, "read the files to copy");
        if (count == 0) break;
        const std::string_view bytes(block.data(), static_cast<std::size_t>(count));
        if (const int failed = target.write_all(bytes)) throw_cannot_write(to, failed, "write");
    }
    if (const int failed = target.sync()) throw_cannot_write(to, failed, "write onto the disk");
}

void copy_folder_onto_disk(const fs::path& from, const fs::path& to) {
    make_folders(to);
    for (const std::string& name : names_in(from)) {
        std::error_code error;
        if (fs::is_directory(from / name, error)) {
            copy_folder_onto_disk(from / name, to / name);
        } else {
            copy_onto_disk(from / name, to / name);
        }
    }
}

}  // namespace macheps::training
