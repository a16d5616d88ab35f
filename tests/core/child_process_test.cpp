// SPDX-License-Identifier: Apache-2.0
#include "core/host/child_process.hpp"
#include "tests/test.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace child_process_test {

using namespace macheps;
using namespace std::chrono_literals;

namespace {

ProgramEnd shell(const std::string& script, std::vector<std::string> words = {},
                 std::optional<std::chrono::seconds> limit = {}) {
    words.insert(words.begin(), {"-c", script, "sh"});
    return run_program({.program = "sh", .arguments = std::move(words)}, limit);
}

/// Returns true if the process ends or becomes a zombie within 10 s.
bool ends(pid_t process) {
    for (int i = 0; i < 1000; ++i) {
        if (::kill(process, 0) != 0 || ::waitpid(process, nullptr, WNOHANG) == process) return true;
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

}  // namespace

TEST_CASE("a program receives its arguments unchanged, and its output and exit code are returned", "[core][process]") {
    for (const char* word : {"", "a b", "$HOME `id` \"'\\", "two\nlines", "-n"}) {
        CAPTURE(word);
        const ProgramEnd end = shell("printf '%s|' \"$@\"", {word, "last"});
        CHECK(end.has_succeeded());
        CHECK(end.output == std::string(word) + "|last|");
    }
    const ProgramEnd failed = shell("echo said; exit 3");
    CHECK_FALSE(failed.has_succeeded());
    CHECK(WEXITSTATUS(failed.status) == 3);
    CHECK(failed.output == "said\n");
    CHECK(shell("head -c 3000000 /dev/zero").output == std::string(3000000, '\0'));
    CHECK(run_program({.program = "sh", .arguments = {"-c", "echo $0"}, .shown_as = "another"}).output == "another\n");
}

TEST_CASE("starting a program that cannot be started throws an error with the reason", "[core][process]") {
    for (const auto& [program, reason] : {std::pair{"no-such-program-anywhere", ENOENT}, {"/dev/null", EACCES}}) {
        CAPTURE(program);
        try {
            run_program({.program = program});
            FAIL("it was started");
        } catch (const std::system_error& error) {
            CHECK(error.code().value() == reason);
            CHECK(std::string(error.what()).find(program) != std::string::npos);
        }
    }
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child process is left
}

TEST_CASE("a program is killed when its time limit expires", "[core][process]") {
    const auto start = std::chrono::steady_clock::now();
    const ProgramEnd end = shell("echo first; exec sleep 100", {}, 1s);
    CHECK(end.is_late);
    CHECK_FALSE(end.has_succeeded());
    CHECK(end.output == "first\n");
    CHECK(std::chrono::steady_clock::now() - start < 60s);
}

TEST_CASE("stderr is passed on or discarded, as requested", "[core][process]") {
    for (const bool discards : {false, true}) {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const int own = ::dup(STDERR_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        const ProgramEnd end = run_program(
            {.program = "sh", .arguments = {"-c", "echo wrong >&2; echo right"}, .discards_errors = discards});
        ::dup2(own, STDERR_FILENO);
        ::close(own);
        ::close(ends[1]);
        char text[100];
        const ssize_t size = ::read(ends[0], text, sizeof text);
        ::close(ends[0]);
        CHECK(end.output == "right\n");
        CHECK(std::string(text, static_cast<std::size_t>(size)) == (discards ? "" : "wrong\n"));
    }
}

TEST_CASE("a program ends with its parent if requested", "[core][process]") {
    int ends_of_pipe[2];
    REQUIRE(::pipe(ends_of_pipe) == 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        const pid_t child = start_program({.program = "sleep", .arguments = {"100"}, .ends_with_parent = true});
        (void)!::write(ends_of_pipe[1], &child, sizeof child);
        ::pause();
        ::_exit(0);
    }
    pid_t child = 0;
    REQUIRE(::read(ends_of_pipe[0], &child, sizeof child) == sizeof child);
    CHECK(::kill(child, 0) == 0);
    ::kill(parent, SIGKILL);
    CHECK(ends(parent));
    CHECK(ends(child));
    for (const int each : ends_of_pipe) ::close(each);
}

}  // namespace child_process_test
