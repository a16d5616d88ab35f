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
    std::string shown_as{};         ///< argv[0] of the program; if empty: `program`
    bool discards_errors = false;   ///< whether the program's stderr is /dev/null instead of this process's stderr
    bool ends_with_parent = false;  ///< whether the program gets SIGTERM when this process ends
};

/// Starts a program and returns its process id for waitpid(). The stdout of the program is the descriptor `output`, or
/// the stdout of this process if `output` is empty. Errors: throws std::system_error if no process can be started or
/// the program cannot be executed.
pid_t start_program(const ProgramCall& call, std::optional<int> output = {});

struct ProgramEnd {
    std::string output{};  ///< the bytes that the program wrote to stdout
    int status = 0;        ///< the status that waitpid() returned
    bool is_late = false;  ///< whether the program was killed because it ran longer than `limit`

    bool has_succeeded() const;
};

/// Runs a program until it ends, and kills it if it runs longer than `limit`. Errors: as start_program().
ProgramEnd run_program(const ProgramCall& call, std::optional<std::chrono::seconds> limit = {});

}  // namespace macheps
