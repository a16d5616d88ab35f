// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/sweep/children.hpp"

#include "core/host/child_process.hpp"

#include <sys/wait.h>

#include <csignal>
#include <map>
#include <system_error>
#include <thread>

namespace macheps::cmd::sweep {

namespace {

/// Starts a child. If the system cannot start a process now, returns nothing if other children are running, and
/// otherwise throws Error.
std::optional<pid_t> start_child(const ChildrenRequest& request, const std::string& value, bool has_others) {
    // If the parent is killed, its children get SIGTERM. They then stop after their current step, and their trainings
    // can be resumed.
    ProgramCall call{
        .program = "/proc/self/exe", .arguments = request.words, .shown_as = "macheps", .ends_with_parent = true};
    call.arguments.push_back(request.option + "=" + value);
    try {
        return start_program(call);
    } catch (const std::system_error& error) {
        if (has_others) return std::nullopt;
        throw Error({.what = error.what(), .where = "--jobs", .fix = "run fewer units at a time"});
    }
}

/// Returns the exit code of a child: ok, stopped or cannot_write. Returns check_failed for any other code, and if a
/// signal ended the child.
Exit exit_of(int status) {
    if (!WIFEXITED(status)) return Exit::check_failed;
    for (const Exit exit : {Exit::ok, Exit::stopped, Exit::cannot_write}) {
        if (WEXITSTATUS(status) == static_cast<int>(exit)) return exit;
    }
    return Exit::check_failed;
}

using Clock = std::chrono::steady_clock;

struct Child {
    std::string value{};
    Clock::time_point start{};
};

int gravity(Exit exit) {
    return exit == Exit::cannot_write ? 3 : exit == Exit::stopped ? 2 : exit == Exit::check_failed ? 1 : 0;
}

}  // namespace

Exit run_each_in_a_child(const ChildrenRequest& request,
                         const std::optional<std::chrono::steady_clock::time_point>& deadline, std::atomic<bool>& stop,
                         const std::function<void(const ChildEnd& end)>& ended) {
    std::map<pid_t, Child> running;
    std::size_t next = 0;
    Exit worst = Exit::ok;
    bool is_told = false;
    while (true) {
        if (deadline && Clock::now() >= *deadline) stop = true;
        const bool may_start = !stop && worst != Exit::cannot_write && next < request.values.size();
        if (may_start && running.size() < static_cast<std::size_t>(request.at_a_time)) {
            const std::string& value = request.values[next];
            if (const auto child = start_child(request, value, !running.empty())) {
                running.emplace(*child, Child{.value = value, .start = Clock::now()});
                ++next;
                continue;
            }
        }
        if (running.empty()) break;
        if (stop && !is_told) {
            for (const auto& [child, its] : running) ::kill(child, SIGTERM);
            is_told = true;
        }
        int status = 0;
        const pid_t child = ::waitpid(-1, &status, WNOHANG);
        const auto found = child > 0 ? running.find(child) : running.end();
        if (found == running.end()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            continue;
        }
        const Exit exit = exit_of(status);
        if (gravity(exit) > gravity(worst)) worst = exit;
        ended({.value = found->second.value,
               .exit = exit,
               .seconds = std::chrono::duration<double>(Clock::now() - found->second.start).count()});
        running.erase(found);
    }
    if (stop && next < request.values.size() && gravity(worst) < gravity(Exit::stopped)) worst = Exit::stopped;
    return worst;
}

}  // namespace macheps::cmd::sweep
