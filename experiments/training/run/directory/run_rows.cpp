// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/run_rows.hpp"

#include <utility>

namespace macheps::training {

void RunRows::open(RunFiles& files) {
    const std::lock_guard lock(mutex_);
    const auto write = [&](auto& list) {
        for (const auto& row : list) files.append(row);
        list = {};
    };
    std::apply([&](auto&... list) { (write(list), ...); }, held_);
    files.flush();
    if (end_) files.end_run(*std::exchange(end_, {}));
    files_ = &files;
}

void RunRows::flush() {
    if (RunFiles* files = files_.load()) files->flush();
}

void RunRows::end_run(const reports::RunRow& row) {
    const std::lock_guard lock(mutex_);
    if (RunFiles* files = files_.load()) {
        files->end_run(row);
    } else {
        end_ = row;
    }
}

}  // namespace macheps::training
