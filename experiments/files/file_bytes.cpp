// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/file_bytes.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace macheps::files {

namespace {

/// Contents of the pipes that this process has read. A pipe gives its bytes only once, and opening a named pipe again
/// waits for a writer.
class KnownPipes {
  public:
    /// Returns the contents of the pipe `path`. Returns null if `path` is not a pipe, or if this process has not read
    /// it.
    std::shared_ptr<const std::string> find(const std::filesystem::path& path) {
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return nullptr;
        const std::lock_guard lock(mutex_);
        const auto known = texts_.find({path.string(), status.st_dev, status.st_ino});
        return known == texts_.end() ? nullptr : known->second;
    }

    std::shared_ptr<const std::string> read(const OpenFile& pipe, const std::filesystem::path& path) {
        auto text = std::make_shared<std::string>();
        read_blocks(pipe, path, any_bytes, [&](std::string_view block) { *text += block; });
        const std::lock_guard lock(mutex_);
        return texts_[{path.string(), pipe.device, pipe.id}] = std::move(text);
    }

  private:
    using Name = std::tuple<std::string, std::uint64_t, std::uint64_t>;
    std::mutex mutex_;
    std::map<Name, std::shared_ptr<const std::string>> texts_;
};

KnownPipes& known_pipes() {
    static KnownPipes pipes;
    return pipes;
}

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& path) : name_(path.string()) {
    pipe_ = known_pipes().find(path);
    if (!pipe_) {
        auto file = std::make_shared<OpenFile>(open_for_reading(path));
        if (!file->is_pipe) {
            size_ = static_cast<std::size_t>(file->bytes);
            file_ = std::move(file);
            return;
        }
        pipe_ = known_pipes().read(*file, path);
    }
    memory_ = std::as_bytes(std::span(*pipe_));
    size_ = memory_.size();
}

FileBytes::FileBytes(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)), size_(bytes.size()), memory_(bytes) {}

void FileBytes::read(std::size_t at, std::span<std::byte> out) const {
    if (!file_) {
        std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
        return;
    }
    for (std::size_t done = 0; done < out.size();) {
        const ssize_t n =
            ::pread(file_->descriptor.number(), out.data() + done, out.size() - done, static_cast<off_t>(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            throw Error({.what = n < 0 ? fmt::format("cannot read this file: {}", std::strerror(errno))
                                       : fmt::format("this file was cut short while it was in use: it had {} bytes, "
                                                     "and byte {} no longer exists",
                                                     size_, at + done),
                         .where = name_,
                         .fix = "restore the file"});
        }
        done += static_cast<std::size_t>(n);
    }
}

}  // namespace macheps::files
