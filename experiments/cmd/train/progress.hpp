// SPDX-License-Identifier: Apache-2.0
// Progress on stderr: one bar that redraws itself on a terminal, one line per run elsewhere.
#pragma once
#include "experiments/training/run/experiment.hpp"

#include <chrono>
#include <string>

namespace macheps::cmd::train {

class ProgressBar {
  public:
    ProgressBar();
    /// Redraws at most ten times a second, so that it may be called after every step.
    void show(const training::Progress& progress);
    /// Moves the cursor to a new line.
    void end();

  private:
    bool terminal_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point start_, last_{};
};

}  // namespace macheps::cmd::train
