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
    bool discards_errors = false;   ///< whether its stderr goes to /dev/null instead of that of this process
    bool ends_with_parent = false;  ///< whether it gets SIGTERM when this process ends
};

/// Starts a program and returns its process id for waitpid(). Its stdout is the descriptor `output`, or that of this
/// process if there is no `output`. Errors: throws std::system_error if no process can be started or the program cannot
/// be executed.
pid_t start_program(const ProgramCall& call, std::optional<int> output = {});

struct ProgramEnd {
    std::string output{};  ///< the bytes that the program wrote to stdout
    int status = 0;        ///< the status that waitpid() returned
    bool is_late = false;  ///< whether it was killed because it ran longer than `limit`

    bool has_succeeded() const;
};

/// Runs a program until it ends, and kills it if it runs longer than `limit`. Errors: as start_program().
ProgramEnd run_program(const ProgramCall& call, std::optional<std::chrono::seconds> limit = {});

}  // namespace macheps
