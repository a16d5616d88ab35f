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
    /// Safe to call after every step: redraws at most ten times a second.
    void show(const training::Progress& progress);
    /// Leaves the cursor on a fresh line.
    void end();

  private:
    bool terminal_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point start_, last_{};
};

}  // namespace macheps::cmd::train
