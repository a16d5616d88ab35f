// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/scratch.hpp"

#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "experiments/training/sweep/store/copy.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

constexpr auto scratch_files = files_of(std::type_identity<reports::TrainingRows>{});

/// Completes the file `to`, a copy of the beginning of the file `from`, by appending the missing bytes.
void append_tail(const fs::path& from, const fs::path& to) {
    std::error_code error;
    if (!fs::exists(from, error)) return;
    const std::uint64_t have = fs::exists(to, error) ? fs::file_size(to, error) : 0;
    const OpenFile source = open_regular_file(from);
    // `to` may be longer than `from` if its rows were copied from another attempt and training resumed at an earlier
    // point. In this case, the file is copied again from its beginning.
    if (have > source.bytes) reports::csv::cut_back(to, 0);
    if (::lseek(source.descriptor.number(), static_cast<off_t>(have > source.bytes ? 0 : have), SEEK_SET) < 0)
        throw_cannot_write(from, errno, "read");
    const Descriptor target(::open(to.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (!target) throw_cannot_write(to, errno, "open for writing");
    read_blocks(source, from, any_bytes, [&](std::string_view block) {
        if (const int failed = target.write_all(block)) throw_cannot_write(to, failed, "write");
    });
    if (const int failed = target.sync()) throw_cannot_write(to, failed, "write onto the disk");
}

/// Creates a new folder. Never uses an existing folder, because it may belong to another process, or be left over from
/// another sweep, from a killed process, or from another container with the same process number.
fs::path make_scratch(const fs::path& scratch, const Attempt& attempt) {
    make_folders(scratch);
    const std::string name = attempt.folder.filename().string();
    for (int i = 0;; ++i) {
        fs::path folder = scratch / fmt::format("{}-{}-{}", name, ::getpid(), i);
        if (::mkdir(folder.c_str(), 0777) == 0) return folder;
        if (errno != EEXIST) throw_cannot_write(folder, errno, "make the folder");
    }
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& scratch, const Attempt& attempt)
    : home_(attempt.folder), folder_(scratch.empty() ? home_ : make_scratch(scratch, attempt)) {
    if (!is_elsewhere()) return;
    if (attempt.has_rows) copy_folder_onto_disk(home_, folder_);
    std::error_code error;
    fs::remove(folder_ / attempt_file, error);
}

ScratchFolder::~ScratchFolder() {
    if (is_elsewhere()) remove_folder(folder_);
}

void ScratchFolder::append_rows() const {
    for (const std::string_view file : scratch_files) append_tail(folder_ / file, home_ / file);
}

/// Publishes the manifest only once. Processes that copy this attempt conclude from a replaced manifest that rows were
/// removed.
void ScratchFolder::publish_manifest() const {
    std::error_code error;
    if (!fs::exists(home_ / "manifest.json", error))
        publish(home_ / "manifest.json", read_regular_file(folder_ / "manifest.json"));
}

void ScratchFolder::copy_checkpoints() const {
    if (!is_elsewhere()) return;
    std::vector<std::string> names = names_in(folder_ / "checkpoints");
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("run-"); });
    if (names.empty()) return;
    std::sort(names.begin(), names.end());
    if (names.back() == newest_) return;
    std::string text;
    try {
        text = read_regular_file(folder_ / "checkpoints" / names.back());
    } catch (const Error&) {
        return;  // a newer checkpoint has just replaced it; the next call copies the newer one
    }
    append_rows();
    publish_manifest();
    make_folders(home_ / "checkpoints");
    publish(home_ / "checkpoints" / names.back(), text);
    newest_ = names.back();
    for (const std::string& old : names_in(home_ / "checkpoints")) {
        if (old.starts_with("run-") && std::find(names.begin(), names.end(), old) == names.end())
            remove_folder(home_ / "checkpoints" / old);
    }
}

void ScratchFolder::copy_all(bool is_finished) const {
    if (!is_elsewhere()) return;
    append_rows();
    publish_manifest();
    if (is_finished) {
        remove_folder(home_ / "checkpoints");
    } else {
        copy_checkpoints();
    }
}

void ScratchFolder::clear() const {
    if (!is_elsewhere()) return;
    for (const std::string& name : names_in(folder_)) remove_folder(folder_ / name);
}

}  // namespace macheps::training
