// SPDX-License-Identifier: Apache-2.0
// Functions that start the program in a folder without a shell and read the files that it writes.
#pragma once
#include "tests/test.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::test {

namespace fs = std::filesystem;

inline std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// Options for starting the program.
struct Start {
    std::vector<std::string> environment{};  ///< `NAME=value`
    std::function<void()> prepare{};         ///< runs in the child process before the program starts
};

/// Returns the exit code of a process, or 128 plus the number of the signal that ended it.
inline int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }
inline int wait_for(pid_t child) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return exit_code(status);
}

/// Redirects a descriptor in a child process to a file. Does not use stdio, because the buffers that the child inherits
/// contain output of the parent.
inline void redirect(const std::string& file, int flags, int descriptor) {
    const int opened = ::open(file.c_str(), flags, 0666);
    if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(99);
    ::close(opened);
}

/// Starts `macheps WORDS` in `folder` and returns the process without waiting for it. stdout and stderr go to the files
/// `out` and `err` in that folder, which may be the same file.
inline pid_t start_program(const fs::path& folder, std::vector<std::string> words, const std::string& out,
                           const std::string& err, const Start& start = {}) {
    words.insert(words.begin(), "macheps");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child != 0) return child;
    constexpr int anew = O_WRONLY | O_CREAT | O_TRUNC;
    if (::chdir(folder.c_str()) != 0) ::_exit(99);
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(out, out == err ? anew | O_APPEND : anew, STDOUT_FILENO);
    redirect(err, out == err ? O_WRONLY | O_APPEND : anew, STDERR_FILENO);
    for (const std::string& variable : start.environment) {
        const std::size_t equals = variable.find('=');
        ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    if (start.prepare) start.prepare();
    ::execv(MACHEPS_PROGRAM, argv.data());
    ::_exit(98);
}

/// Returns a CSV table without the columns that have these names.
inline std::string without_columns(const std::string& text, std::initializer_list<std::string_view> names) {
    std::istringstream lines(text);
    std::string out;
    std::vector<bool> is_left_out;
    for (std::string line; std::getline(lines, line); out += '\n') {
        std::istringstream cells(line);
        std::size_t i = 0;
        for (std::string cell; std::getline(cells, cell, ','); ++i) {
            if (is_left_out.size() == i)
                is_left_out.push_back(std::find(names.begin(), names.end(), cell) != names.end());
            if (!is_left_out[i]) out += cell + ",";
        }
    }
    return out;
}

}  // namespace macheps::test
