// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/eprint.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace macheps::cmd {

namespace {

/// Blocks SIGPIPE in this thread while the object exists. Writing to a pipe without a reader then fails with EPIPE and
/// does not end the program.
class NoPipeSignal {
  public:
    NoPipeSignal() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        is_blocked_ = pthread_sigmask(SIG_BLOCK, &pipe_, &before_) == 0;
    }
    ~NoPipeSignal() {
        if (!is_blocked_) return;
        const timespec at_once{};
        if (!was_pending_) {
            while (sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoPipeSignal(const NoPipeSignal&) = delete;
    NoPipeSignal& operator=(const NoPipeSignal&) = delete;

  private:
    sigset_t pipe_, before_;
    bool was_pending_ = false, is_blocked_ = false;
};

}  // namespace

void eprint_text(std::string_view text) noexcept try {
    if (is_printable_lines(text)) return eprint_raw(text);
    eprint_raw(printable_lines(text));
} catch (...) {
}

void eprint_raw(std::string_view text) noexcept {
    const NoPipeSignal quiet;
    while (!text.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace macheps::cmd
