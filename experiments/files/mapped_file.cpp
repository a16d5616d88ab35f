// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/mapped_file.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace macheps {

namespace {

struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) close(fd);
    }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
    const auto fail = [&] {
        throw Error({.what = fmt::format("cannot read it: {}", std::strerror(errno)),
                     .where = path.string(),
                     .fix = "check the path and the permissions"});
    };
    const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    if (file.fd < 0 || fstat(file.fd, &status) != 0) fail();
    if (S_ISDIR(status.st_mode)) {
        throw Error({.what = "this is a directory", .where = path.string(), .fix = "name a file"});
    }
    if (S_ISREG(status.st_mode)) {
        const auto size = static_cast<std::size_t>(status.st_size);
        if (size == 0) return;
        void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
        if (memory == MAP_FAILED) fail();
        owner_ = std::shared_ptr<const void>(memory, [size](const void* p) { munmap(const_cast<void*>(p), size); });
        bytes_ = {static_cast<const std::byte*>(memory), size};
        return;
    }
    const auto content = std::make_shared<std::vector<std::byte>>();
    for (;;) {
        constexpr std::size_t piece = 1 << 20;
        const std::size_t size = content->size();
        content->resize(size + piece);
        const ssize_t got = read(file.fd, content->data() + size, piece);
        content->resize(size + static_cast<std::size_t>(got > 0 ? got : 0));
        if (got < 0 && errno != EINTR) fail();
        if (got == 0) break;
    }
    bytes_ = *content;
    owner_ = content;
}

}  // namespace macheps
