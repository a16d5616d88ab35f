// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/scratch_folder.hpp"

#include "core/error.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace macheps::cmd::report {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "macheps-picture-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
        throw Error({.what = "cannot create a folder for pictures",
                     .where = name,
                     .fix = "check the free space and TMPDIR",
                     .exit = Exit::cannot_write});
    }
    try {
        path_ = name;
    } catch (...) {
        ::rmdir(name.c_str());  // the destructor does not run if the constructor throws
        throw;
    }
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

void make_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error) return;
    throw Error({.what = fmt::format("cannot create the folder: {}", error.message()),
                 .where = folder.string(),
                 .fix = "choose another folder",
                 .exit = Exit::cannot_write});
}

}  // namespace macheps::cmd::report
