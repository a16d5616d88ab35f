// SPDX-License-Identifier: Apache-2.0
#include "core/host/publish.hpp"

#include "core/error.hpp"
#include "core/host/file_lock.hpp"
#include "core/host/read_file.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

namespace macheps {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view draft_prefix = ".macheps-", draft_suffix = ".new";
constexpr int max_links = 40;     // the kernel's limit for a chain of symbolic links
constexpr int max_tries = 10000;  // number of names to try for a draft

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

/// Returns the status of the file at `path`, following all links, or nothing if there is none.
std::optional<struct stat> status_of(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return status;
}

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// Follows a chain of symbolic links and returns the path at its end. No file has to exist at that path. Returns
/// nothing if the chain is a cycle.
std::optional<fs::path> behind_links(fs::path path) {
    std::error_code error;
    for (int i = 0; i < max_links; ++i) {
        if (!fs::is_symlink(path, error)) return path;
        const fs::path next = fs::read_symlink(path, error);
        if (error) return path;
        path = path.parent_path() / next;  // an absolute `next` replaces the whole path
    }
    return std::nullopt;
}

/// Returns whether opening `link` gives the same file as opening `target`, the path at the end of the chain of symbolic
/// links that begins with `link`. The files differ, for example, if `link` is a link in /proc to an open file that was
/// removed or replaced. Another process may replace the file between two system calls. The function therefore returns
/// false only if `link` leads to the same file before and after `target` is checked.
bool names_what_is_behind(const fs::path& link, const fs::path& target) {
    constexpr int most_looks = 100;
    std::optional<struct stat> before = status_of(link);
    for (int i = 0; i < most_looks && before; ++i) {
        const std::optional<struct stat> named = status_of(target), after = status_of(link);
        if (named && is_same_file(*before, *named)) return true;
        if (after && is_same_file(*before, *after)) return false;
        before = after;
    }
    return true;
}

bool is_draft(std::string_view name) { return name.starts_with(draft_prefix) && name.ends_with(draft_suffix); }

}  // namespace

void throw_cannot_write(const fs::path& path, int error, std::string_view doing) {
    throw Error({.what = fmt::format("cannot {}: {}", doing, std::strerror(error)),
                 .where = path.string(),
                 .fix = error == ENOSPC || error == EDQUOT || error == EFBIG
                            ? "free some space; existing data is intact"
                            : "check that the folder exists and is writable",
                 .exit = Exit::cannot_write});
}

bool is_written_in_place(const fs::path& path) {
    const std::optional<struct stat> there = status_of(path);
    return there && !S_ISREG(there->st_mode) && !S_ISDIR(there->st_mode);
}

void check_is_replaceable(const fs::path& path) {
    const std::optional<struct stat> there = status_of(path);
    if (!there || S_ISREG(there->st_mode)) return;
    throw Error({.what = "cannot write: this is not a regular file",
                 .where = path.string(),
                 .fix = "remove it, or use another folder",
                 .exit = Exit::cannot_write});
}

void remove_leftover_drafts(const fs::path& folder) try {
    for (const std::string& name : names_in(folder)) {
        if (!is_draft(name)) continue;
        const fs::path path = folder / name;
        const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
        if (file && try_lock(file) == FileLock::taken && is_named(file, path) == true) ::unlink(path.c_str());
    }
} catch (const Error&) {  // the folder cannot be listed: leave its drafts
}

Publication::Publication(const fs::path& path) : path_(path) {
    const std::optional<struct stat> there = status_of(path);
    const std::optional<fs::path> target = behind_links(path);
    if (!target) fail(ELOOP, "open for writing");
    target_ = *target;
    const bool is_named = !there || target_ == path || names_what_is_behind(path, target_);
    if (there && (!S_ISREG(there->st_mode) || !is_named)) {
        const int cut = S_ISREG(there->st_mode) ? O_TRUNC : 0;
        file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | cut));
        if (!file_) fail(errno, "open for writing");
        return;
    }
    remove_leftover_drafts(folder_of(target_));
    open_draft();
    // Some file systems do not support permissions. The file is published anyway.
    if (there && ::fchmod(file_.number(), there->st_mode & 0777) != 0) return;
}

Publication::~Publication() {
    if (!draft_.empty()) ::unlink(draft_.c_str());
}

void Publication::open_draft() {
    static std::atomic<unsigned> drafts{0};
    for (int i = 0; i < max_tries; ++i) {
        fs::path name = folder_of(target_) / fmt::format("{}{}-{}{}", draft_prefix, ::getpid(), drafts++, draft_suffix);
        file_ = Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
        if (!file_ && errno == EEXIST) continue;
        if (!file_) fail(errno, "open for writing");
        draft_.swap(name);  // does not allocate, so it cannot fail
        // Before this process could lock the new draft, another process may have taken it for a leftover, and locked or
        // removed it.
        const bool is_taken = try_lock(file_) == FileLock::held_by_another;
        const std::optional<bool> is_ours = is_taken ? false : is_named(file_, draft_);
        if (is_ours == true) return;
        if (!is_ours) fail(errno, "inspect the temporary file");  // fail() removes the draft
        draft_.clear();
    }
    fail(EEXIST, "create a temporary file");
}

void Publication::fail(int error, std::string_view doing) {
    file_.close();
    if (!draft_.empty()) ::unlink(draft_.c_str());
    draft_.clear();
    throw_cannot_write(path_, error, doing);
}

void Publication::write(std::string_view bytes) {
    if (const int error = file_.write_all(bytes)) fail(error, "write");
}

void Publication::finish() {
    if (const int error = file_.sync()) fail(error, "write to the disk");
    if (!draft_.empty()) {
        // The draft is still locked while it is renamed, so that no process removes it as a leftover.
        if (::rename(draft_.c_str(), target_.c_str()) != 0) fail(errno, "write");
        draft_.clear();
    }
    file_.close();
    // A new name is on the disk only after its folder is synced. A folder that may be written but not read cannot be
    // synced, so it is skipped.
    const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const int error = folder ? folder.sync() : 0;
    if (error != 0) fail(error, "write to the disk");
}

void publish(const fs::path& path, std::string_view text) {
    Publication file(path);
    file.write(text);
    file.finish();
}

}  // namespace macheps
