// SPDX-License-Identifier: Apache-2.0
#include "core/host/read_file.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

namespace macheps {

namespace {

constexpr std::size_t block_bytes = 1 << 16;
constexpr std::uint64_t max_unsized_bytes = std::uint64_t{64} << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, std::string what, std::string fix) {
    throw Error({.what = std::move(what), .where = path.string(), .fix = std::move(fix)});
}

[[noreturn]] void throw_cannot_read(const std::filesystem::path& path, int error) {
    refuse(path, fmt::format("cannot read this file: {}", std::strerror(error)),
           error == ENOENT || error == ENOTDIR ? "check the name" : "check the path and its permissions");
}

[[noreturn]] void throw_cannot_list(const std::filesystem::path& folder, int error) {
    refuse(folder, fmt::format("cannot list this folder: {}", std::strerror(error)),
           error == ENOENT || error == ENOTDIR ? "check the name" : "check the path and its permissions");
}

/// Returns nothing if `path` does not exist or is a link to a file that does not exist.
std::optional<struct stat> status_of_path(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return status;
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return std::nullopt;
    throw_cannot_read(path, errno);
}

void check_kind(const std::filesystem::path& path, const struct stat& status) {
    if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode)) return;
    if (S_ISDIR(status.st_mode)) refuse(path, "this is a directory", "pass a file");
    refuse(path, "this is neither a regular file nor a pipe", "pass a regular file or a pipe");
}

void check_is_regular(const std::filesystem::path& path, const struct stat& status) {
    if (S_ISFIFO(status.st_mode)) refuse(path, "this is a pipe", "restore the original file, or remove the pipe");
    check_kind(path, status);
}

OpenFile open_file(const std::filesystem::path& path, void (*check)(const std::filesystem::path&, const struct stat&),
                   int flags) {
    struct stat status {};
    // The kind is checked before the file is opened, because opening some devices has side effects.
    if (::stat(path.c_str(), &status) != 0) throw_cannot_read(path, errno);
    check(path, status);
    OpenFile file{.descriptor = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags))};
    if (!file.descriptor || ::fstat(file.descriptor.number(), &status) != 0) throw_cannot_read(path, errno);
    check(path, status);
    file.is_pipe = S_ISFIFO(status.st_mode);
    file.bytes = static_cast<std::uint64_t>(status.st_size);
    file.device = status.st_dev;
    file.id = status.st_ino;
    return file;
}

std::string read_all(const OpenFile& file, const std::filesystem::path& path, std::uint64_t most) {
    const auto refuse_size = [&] {
        refuse(path, fmt::format("this file is larger than {} bytes, the limit for files of this kind", most),
               "check that it is the right file");
    };
    if (file.bytes > most) refuse_size();
    std::string text;
    text.reserve(file.bytes);
    read_blocks(file, path, most < any_bytes ? most + 1 : most, [&](std::string_view block) { text += block; });
    if (text.size() > most) refuse_size();
    return text;
}

}  // namespace

void check_has_end(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw_cannot_read(path, errno);
    check_kind(path, status);
}

OpenFile open_for_reading(const std::filesystem::path& path) { return open_file(path, check_kind, 0); }

OpenFile open_regular_file(const std::filesystem::path& path) {
    // With O_NONBLOCK, open() does not wait if a pipe has replaced the file between the two checks.
    return open_file(path, check_is_regular, O_NONBLOCK);
}

void read_blocks(const OpenFile& file, const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take) {
    std::string block(block_bytes, '\0');
    // A growing file is read up to the size that it had when it was opened. Files of /proc report a size of 0.
    const bool has_size = !file.is_pipe && file.bytes > 0;
    if (has_size) most = std::min(most, file.bytes);
    for (std::uint64_t done = 0; done < most;) {
        if (!file.is_pipe && !has_size && done >= max_unsized_bytes) {
            refuse(path,
                   fmt::format("this file reports a size of 0 but contains more than {} bytes", max_unsized_bytes),
                   "copy the part that you need into a regular file");
        }
        if (file.is_pipe && done >= max_pipe_bytes) {
            refuse(path, fmt::format("this pipe delivers more than {} bytes", max_pipe_bytes),
                   "write the data to a file, and pass that file");
        }
        const std::size_t wanted = std::min<std::uint64_t>(block.size(), most - done);
        const ssize_t n = ::read(file.descriptor.number(), block.data(), wanted);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_cannot_read(path, errno);
        if (n == 0) return;
        take(std::string_view(block).substr(0, static_cast<std::size_t>(n)));
        done += static_cast<std::uint64_t>(n);
    }
}

void read_blocks(const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take) {
    read_blocks(open_for_reading(path), path, most, take);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t most) {
    return read_all(open_for_reading(path), path, most);
}

std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most) {
    return read_all(open_regular_file(path), path, most);
}

std::optional<std::string> read_if_there(const std::filesystem::path& path, std::uint64_t most) {
    struct stat status {};
    const auto is_missing = [&] { return ::stat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR); };
    if (is_missing()) return std::nullopt;
    try {
        return read_regular_file(path, most);
    } catch (const Error&) {
        if (is_missing()) return std::nullopt;
        throw;
    }
}

bool is_there(const std::filesystem::path& path) { return status_of_path(path).has_value(); }

bool is_folder(const std::filesystem::path& path) {
    const std::optional<struct stat> status = status_of_path(path);
    return status && S_ISDIR(status->st_mode);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
    std::vector<std::string> names;
    if (!open) {
        if (errno == ENOENT) return names;
        throw_cannot_list(folder, errno);
    }
    while (true) {
        errno = 0;
        const dirent* entry = ::readdir(open.get());
        if (entry == nullptr && errno != 0) throw_cannot_list(folder, errno);
        if (entry == nullptr) return names;
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
}

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
    if (struct stat status{}; ::stat(folder.c_str(), &status) != 0) throw_cannot_list(folder, errno);
    std::vector<std::filesystem::path> files, folders{folder};
    while (!folders.empty()) {
        const std::filesystem::path at = std::move(folders.back());
        folders.pop_back();
        for (const std::string& name : names_in(at)) {
            std::filesystem::path path = at / name;
            struct stat status {};
            if (::lstat(path.c_str(), &status) != 0) {
                if (errno == ENOENT) continue;  // removed since it was listed
                throw_cannot_list(at, errno);
            }
            if (S_ISDIR(status.st_mode)) {
                folders.push_back(std::move(path));
            } else if (S_ISREG(status.st_mode) ||
                       (S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode))) {
                files.push_back(std::move(path));
            }
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace macheps
