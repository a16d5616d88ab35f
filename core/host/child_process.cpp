// SPDX-License-Identifier: Apache-2.0
#include "core/host/child_process.hpp"

#include "core/host/descriptor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace macheps {

namespace {

constexpr int could_not_start = 127;

[[noreturn]] void fail(int error, const std::string& program) {
    throw std::system_error(error, std::generic_category(), "cannot start " + program);
}

struct Pipe {
    Descriptor read, write;

    explicit Pipe(const std::string& program) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) fail(errno, program);
        read = Descriptor(ends[0]);
        write = Descriptor(ends[1]);
    }
};

/// Replaces the child process by the program. Only functions that are safe after fork() may be called here. Returns
/// only if the program cannot be executed.
void become(const ProgramCall& call, char* const* words, std::optional<int> output, pid_t parent) {
    if (call.ends_with_parent) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent) ::_exit(could_not_start);  // the parent had ended before prctl()
    }
    if (output) ::dup2(*output, STDOUT_FILENO);
    if (call.discards_errors) {
        const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
    }
    ::execvp(call.program.c_str(), words);
}

int wait_for(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

}  // namespace

pid_t start_program(const ProgramCall& call, std::optional<int> output) {
    std::vector<char*> words{const_cast<char*>((call.shown_as.empty() ? call.program : call.shown_as).c_str())};
    for (const std::string& word : call.arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    Pipe failure(call.program);  // exec closes it; if exec fails, the child writes errno into it
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0) fail(errno, call.program);
    if (child == 0) {
        become(call, words.data(), output, parent);
        const int error = errno;
        (void)!::write(failure.write.number(), &error, sizeof error);
        ::_exit(could_not_start);
    }
    failure.write.close();
    int error = 0;
    ssize_t size = 0;
    while ((size = ::read(failure.read.number(), &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (size == sizeof error) {
        wait_for(child);
        fail(error, call.program);
    }
    return child;
}

bool ProgramEnd::has_succeeded() const { return !is_late && WIFEXITED(status) && WEXITSTATUS(status) == 0; }

ProgramEnd run_program(const ProgramCall& call, std::optional<std::chrono::seconds> limit) {
    using Clock = std::chrono::steady_clock;
    Pipe output(call.program);
    const pid_t child = start_program(call, output.write.number());
    output.write.close();
    ProgramEnd end;
    const auto last = limit ? Clock::now() + *limit : Clock::time_point::max();
    char block[65536];
    while (!end.is_late) {
        pollfd wait{.fd = output.read.number(), .events = POLLIN, .revents = 0};
        const int ready = ::poll(&wait, 1, 200);
        end.is_late = Clock::now() > last;
        if (ready <= 0) continue;
        const ssize_t size = ::read(output.read.number(), block, sizeof block);
        if (size == 0 || (size < 0 && errno != EINTR)) break;
        if (size > 0) end.output.append(block, static_cast<std::size_t>(size));
    }
    if (end.is_late) ::kill(child, SIGKILL);
    end.status = wait_for(child);
    return end;
}

}  // namespace macheps
