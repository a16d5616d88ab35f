// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/process.hpp"

#include "core/error.hpp"
#include "core/host/float_environment.hpp"
#include "experiments/cmd/frame/eprint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

namespace macheps::cmd {

namespace {

/// Writes a text as one line of visible characters. If the text needs no change, no memory is allocated.
void tell_line(std::string_view text) noexcept {
    try {
        if (is_printable_lines(text) && text.find('\n') == text.npos && text.size() <= longest_error)
            return eprint_text(text);
        eprint_text(shown(text, longest_error));
    } catch (...) {  // no memory for the escaped text
    }
}

/// Writes a line in pieces. Joining the pieces needs memory, and the error to report may be a lack of memory.
void say(std::string_view what, std::string_view fix = {}) noexcept {
    eprint_text("macheps: ");
    tell_line(what);
    eprint_text(fix);
    eprint_text("\n");
}

/// Returns whether the error is about writing a file, and not about finding or reading it.
bool is_about_writing(const std::error_code& code) {
    for (const int error : {ENOSPC, EDQUOT, EFBIG, EROFS}) {
        if (code == std::error_code(error, std::generic_category())) return true;
    }
    return false;
}

/// Handles failures that no handler in main can catch: failures before main, and failures in the handlers themselves.
[[noreturn]] void end_program() noexcept {
    if (std::current_exception() != nullptr) _exit(explain_current_exception());
    say("an exception could not be handled", " (this is a defect: please report it)");
    _exit(defect_exit);
}

/// Runs before the constructors of all other global objects. Their computations then use the default floating-point
/// modes, and if an allocation in one of them fails, the program ends with an error message.
[[gnu::constructor(101)]] void begin_program() {
    std::set_terminate(end_program);
    set_default_float_modes();
}

}  // namespace

int explain_current_exception() noexcept {
    try {
        throw;
    } catch (const Error& error) {
        say(error.what());
        return static_cast<int>(error.exit());
    } catch (const std::bad_alloc&) {
        say("out of memory", " (choose a smaller model or batch, or raise the process's limit: ulimit -v)");
        return static_cast<int>(Exit::bad_input);
    } catch (const std::filesystem::filesystem_error& error) {
        eprint_text("macheps: ");
        if (!error.path1().empty()) tell_line(error.path1().native()), eprint_text(": ");
        try {
            eprint_text(error.code().message());
        } catch (...) {  // no memory for the message
        }
        eprint_text(" (check the path and the permissions)\n");
        return static_cast<int>(is_about_writing(error.code()) ? Exit::cannot_write : Exit::bad_input);
    } catch (const std::system_error& error) {
        say(error.what(), " (check the limits of this process, such as ulimit -u)");
        return static_cast<int>(is_about_writing(error.code()) ? Exit::cannot_write : Exit::bad_input);
    } catch (const std::exception& error) {
        say(error.what(), " (this is a defect: please report it)");
        return defect_exit;
    } catch (...) {
        say("an exception of an unknown type", " (this is a defect: please report it)");
        return defect_exit;
    }
}

void settle_process() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
        // open() returns the lowest free number, which is `descriptor`, because all lower descriptors are open by now.
        // Standard input is opened only for writing, and the other two only for reading, so that reading or writing
        // them still fails.
        (void)!::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
    std::signal(SIGXFSZ, SIG_IGN);
    set_default_float_modes();
}

}  // namespace macheps::cmd
