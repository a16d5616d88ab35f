// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/sweep/folder.hpp"

#include "core/host/read_file.hpp"
#include "core/text/quote.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/train/task.hpp"
#include "experiments/training/sweep/grow.hpp"
#include "experiments/training/sweep/store/layout.hpp"

#include <fmt/format.h>

namespace macheps::cmd::sweep {

using namespace training;

namespace {

namespace fs = std::filesystem;

void keep(const Costs& costs) {
    try {
        costs.keep();
    } catch (const Error& error) {
        eprint("macheps: cannot save the costs: {}\n", error.what());
    }
}

Error changed_plan(const fs::path& plan, const fs::path& out) {
    return Error({.what = fmt::format("the plan is not the one that {} was made from", out.string()),
                  .where = plan.string(),
                  .fix = fmt::format(
                      "run `macheps sweep plan {} --out {}` once to add the new units, and then run the shards with {}",
                      shell_word(plan.string()), shell_word(out.string()), shell_word(out.string())),
                  .exit = Exit::usage});
}

SweepFolder sweep_of_plan(const fs::path& path, const fs::path& out, PlanChanges changes, FolderIs folder) {
    const PlanFile plan = read_plan_file(path);
    const bool exists = fs::exists(out / sweep_file);
    Sweep before;
    if (exists) before = read_sweep(out);
    if (exists && before.plan_checksum == plan_checksum(plan, policies_of(plan))) return {out, std::move(before)};
    if (exists && changes == PlanChanges::are_refused) throw changed_plan(path, out);
    const fs::path beside = plan.beside("");
    Costs costs(beside.empty() ? "." : beside);
    Grown grown = grow(before, plan, train::train_task, costs, [](const std::string& text) { eprint("{}\n", text); });
    keep(costs);
    if (folder == FolderIs::written) {
        if (exists) {
            write_sweep(grown.sweep, out);
        } else if (!create_sweep(grown.sweep, out)) {
            Sweep theirs = read_sweep(out);
            if (theirs.plan_checksum != grown.sweep.plan_checksum) throw changed_plan(path, out);
            return {out, std::move(theirs)};
        }
    }
    return {out, std::move(grown.sweep), grown.new_units};
}

}  // namespace

SweepFolder open_sweep(const fs::path& path, const fs::path& out, PlanChanges changes, FolderIs folder) {
    if (is_folder(path)) {
        if (!out.empty() && out != path) {
            throw Error({.what = "this is already the folder of a sweep",
                         .where = path.string(),
                         .fix = "remove --out, or name the plan",
                         .exit = Exit::usage});
        }
        return {path, read_sweep(path)};
    }
    if (!is_there(path)) {
        throw Error({.what = "this plan or folder does not exist",
                     .where = path.string(),
                     .fix = "name a .toml file, or the folder of a sweep"});
    }
    fs::path place = out;
    if (place.empty()) {
        place = path;
        place.replace_extension();
        if (place == path) place += ".sweep";
    }
    return sweep_of_plan(path, place, changes, folder);
}

std::string duration_words(double seconds) {
    if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
    if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.{}f} h", seconds / 3600, seconds < 36000 ? 1 : 0);
}

}  // namespace macheps::cmd::sweep
