// SPDX-License-Identifier: Apache-2.0
// Functions that run the program in a scratch folder, through a shell.
#pragma once
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace macheps::test {

namespace fs = std::filesystem;

struct Outcome {
    int code = -1;
    std::string out, err;
};

inline std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// Returns the scratch folder of this process, and creates it if necessary. Each test that uses the folder empties it.
inline fs::path scratch() {
    const fs::path path = disk_folder() / "program";
    fs::create_directories(path);
    return path;
}

/// Runs `macheps ARGUMENTS` in the scratch folder. If MACHEPS_RUN_BY is set, it is a command that runs the program,
/// such as an emulator of another CPU.
inline Outcome run(const std::string& arguments, const std::string& environment = "") {
    const fs::path folder = scratch();
    const std::string command = "cd '" + folder.string() + "' && GITHUB_ACTIONS= " + environment +
                                " $MACHEPS_RUN_BY '" MACHEPS_PROGRAM "' " + arguments +
                                " >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out.txt"),
            contents(folder / "err.txt")};
}

inline void write(const std::string& name, const std::string& text) {
    std::ofstream(scratch() / name, std::ios::binary) << text;
}

inline constexpr const char* quick =
    "train --steps 2 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --warmup 1 ";

}  // namespace macheps::test
