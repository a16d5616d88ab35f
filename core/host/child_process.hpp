// SPDX-License-Identifier: Apache-2.0
// Starts other programs, without a shell. Host only.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace macheps {

struct ProgramCall {
    std::string program;  ///< a path, or a name that is looked for on PATH
    std::vector<std::string> arguments{};
    std::string shown_as{};         ///< its argv[0]; empty: `program`
    bool discards_errors = false;   ///< whether its stderr goes to /dev/null, or to that of this process
    bool ends_with_parent = false;  ///< whether it gets SIGTERM when this process is killed
};

/// Starts a program, and returns its process id for waitpid(). Its stdout is the descriptor `output`, or that of this process.
/// Errors: throws std::system_error if the system grants no process, or the program cannot be executed.
pid_t start_program(const ProgramCall& call, std::optional<int> output = {});

struct ProgramEnd {
    std::string output{};  ///< the bytes that it wrote to stdout
    int status = 0;        ///< as waitpid() gives it
    bool is_late = false;  ///< it was killed after `limit`

    bool has_succeeded() const;
};

/// Runs a program to its end. Errors: as start_program().
ProgramEnd run_program(const ProgramCall& call, std::optional<std::chrono::seconds> limit = {});

}  // namespace macheps
