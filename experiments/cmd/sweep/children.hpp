// SPDX-License-Identifier: Apache-2.0
// Processes of this program, some at a time.
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
    std::vector<std::string> words{};  ///< behind the program's name, the same for each
    std::string option{};              ///< and then `option=value`
    std::vector<std::string> values{};
    int at_a_time = 1;
};

/// Runs the program once for each value and tells how each ended. A stop, or the deadline, is handed on to those that run;
/// no more are started then, nor after one that could not write. Returns the gravest end: cannot_write, stopped,
/// check_failed (of any other failure too), ok.
Exit run_each_in_a_child(const ChildrenRequest& request,
                         const std::optional<std::chrono::steady_clock::time_point>& deadline, std::atomic<bool>& stop,
                         const std::function<void(const std::string& value, Exit exit)>& ended);

}  // namespace macheps::cmd::sweep
