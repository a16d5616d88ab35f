// SPDX-License-Identifier: Apache-2.0
// What the verbs of sweeps share: the sweep that a command line names, by its folder or by its plan.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <filesystem>
#include <string>

namespace macheps::cmd::sweep {

/// What may be done where the plan is not the one that the folder was made of.
enum class PlanChanges { are_refused, are_taken };
/// Whether a folder that is not there yet is made, and one whose plan has changed is grown; or all of it is only computed.
enum class FolderIs { written, left_alone };

struct SweepFolder {
    std::filesystem::path out{};
    training::Sweep sweep{};
    std::size_t new_units = 0;
};

/// `path` is the folder of a sweep, or a plan; of a plan the folder is `out`, or stands beside it under its name.
/// Errors: Exit::usage where `out` contradicts `path`, and for a change that is refused; as grow().
SweepFolder open_sweep(const std::filesystem::path& path, const std::filesystem::path& out, PlanChanges changes,
                       FolderIs folder = FolderIs::written);

/// `1.3 h`, `12 min`, `4.2 s`.
std::string duration_words(double seconds);

}  // namespace macheps::cmd::sweep
