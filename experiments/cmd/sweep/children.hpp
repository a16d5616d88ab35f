// SPDX-License-Identifier: Apache-2.0
// Runs this program in several processes, a limited number at a time.
#pragma once
#include "core/error.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::sweep {

struct ChildrenRequest {
    std::vector<std::string> words{};  ///< arguments that all processes have in common
    std::string option{};              ///< name of the last argument, which is `option=value`
    std::vector<std::string> values{};
    int at_a_time = 1;
};

/// The end of a process: its value, its exit code, and the time from its start to its end.
struct ChildEnd {
    std::string value{};
    Exit exit = Exit::ok;
    double seconds = 0;
};

/// Runs the program once for each value, and calls `ended` when it has ended. After a stop or the deadline, running
/// processes are asked to stop and no more processes are started. No more processes are started if one of them cannot
/// write.
/// Returns the most serious exit code, in this order: cannot_write, stopped, check_failed (any other failure), ok.
Exit run_each_in_a_child(const ChildrenRequest& request,
                         const std::optional<std::chrono::steady_clock::time_point>& deadline, std::atomic<bool>& stop,
                         const std::function<void(const ChildEnd& end)>& ended);

}  // namespace macheps::cmd::sweep
