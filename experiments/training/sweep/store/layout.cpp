// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/store/layout.hpp"

#include "core/host/descriptor.hpp"
#include "core/host/publish.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <system_error>

namespace macheps::training {

namespace fs = std::filesystem;

bool is_unit_id(std::string_view text) {
    return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

fs::path unit_folder(const fs::path& out, const std::string& id) { return out / "units" / id.substr(0, 2) / id; }

fs::path attempt_folder(const fs::path& out, const std::string& id, int attempt) {
    return out / "work" / fmt::format("{}.{}", id, attempt);
}

fs::path failure_path(const fs::path& out, const std::string& id) { return out / "failed" / (id + ".json"); }

void make_folders(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw_cannot_write(folder, error.value(), "make the folder");
}

void remove_folder(const fs::path& folder) {
    // Another process that still works in the folder may create a file during the removal, so the removal is tried
    // three times.
    for (int i = 0; i < 3; ++i) {
        std::error_code error;
        fs::remove_all(folder, error);
        if (!error) return;
    }
}

void sync_folder(const fs::path& folder) {
    const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (open) (void)open.sync();
}

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace macheps::training
