// SPDX-License-Identifier: Apache-2.0
// Functions that the verbs of sweeps share, such as opening the sweep that a command line names by its folder or plan.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <filesystem>
#include <string>

namespace macheps::cmd::sweep {

/// What happens if the plan differs from the plan in the folder: it is refused, or it replaces the plan in the folder.
enum class PlanChanges { are_refused, are_taken };
/// Tells open_sweep() whether to write the folder. `written`: the folder is created, or extended by the new units of a
/// changed plan. `left_alone`: the units of the sweep are computed, but nothing is written.
enum class FolderIs { written, left_alone };

struct SweepFolder {
    std::filesystem::path out{};
    training::Sweep sweep{};
    std::size_t new_units = 0;
};

/// Opens a sweep. `path` is the folder of a sweep or a plan. The folder of a plan is `out`. If `out` is empty, the
/// folder is the plan's path without its ending, or with the ending `.sweep` if the path has no ending. Errors: throws
/// Error (usage) if `path` is a folder and `out` is a different folder, or if a changed plan is refused. Throws as
/// grow() does for other errors.
SweepFolder open_sweep(const std::filesystem::path& path, const std::filesystem::path& out, PlanChanges changes,
                       FolderIs folder = FolderIs::written);

/// Returns a duration in words: `1.3 h`, `12 min`, `4.2 s`.
std::string duration_words(double seconds);

}  // namespace macheps::cmd::sweep
