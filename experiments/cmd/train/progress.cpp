// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/train/progress.hpp"

#include "experiments/cmd/frame/eprint.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace macheps::cmd::train {

using namespace training;

namespace {

std::string clock_time(double seconds) {
    const auto whole = static_cast<long>(seconds);
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

void ProgressBar::show(const Progress& p) {
    const auto now = std::chrono::steady_clock::now();
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    if (p.finished) {
        if (terminal_) redraw("");
        eprint("[{}/{}] {} seed {}: {} after {} steps, loss {:.4f}, {} elapsed\n", p.index + 1, p.runs, p.policy,
               p.seed, p.status, p.step, p.loss, clock_time(elapsed));
        drawn_ = false;
        return;
    }
    if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double done = (static_cast<double>(p.index) + static_cast<double>(p.step) / static_cast<double>(p.steps)) /
                        static_cast<double>(p.runs);
    constexpr int width = 30;
    const int filled = static_cast<int>(done * width);
    const double left = done > 0 ? elapsed / done - elapsed : 0;
    redraw("[{}{}] {:3.0f} %  {} seed {} step {}/{} loss {:.4f}  {} left", std::string(filled, '#'),
           std::string(width - filled, '.'), 100 * done, p.policy, p.seed, p.step, p.steps, p.loss, clock_time(left));
    drawn_ = true;
}

void ProgressBar::end() {
    if (drawn_) eprint("\n");
    drawn_ = false;
}

}  // namespace macheps::cmd::train
