// SPDX-License-Identifier: Apache-2.0
// macheps merge: joins the rows of a sweep's units into one set of files.
#include "experiments/training/sweep/results/merge.hpp"
#include "core/text/quote.hpp"
#include "core/text/shown.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/training/sweep/results/status.hpp"
#include "experiments/training/sweep/shard.hpp"
#include "reports/findings/summary_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

namespace macheps::cmd::merge {

using namespace training;

namespace {

constexpr const char* help =
    R"(Joins the rows of a sweep's units into files that do not depend on the division into shards.

Examples:
  macheps merge formats                     into the folder formats/merged
  macheps merge formats --rows runs,sites   the rows of all runs, and every row of every site
  macheps merge formats --allow-missing     the finished units, while others are missing)";

constexpr const char* notes = R"(Files:
  runs.csv, evals.csv, steps.csv and site-sums.csv, unless --rows selects others. units.csv is always
  written.

Rows:
  Rows are in the order of the plan, and their last column is the name of the unit. units.csv says
  on which host and by which program each unit was trained.

Checks:
  Before anything is written, the files of each unit are compared with the checksums that were
  recorded when the unit was finished, and the fp32 rows of units with the same setting and seed
  are compared with each other.

JSON:
  {"out", "units", "merged", "missing": [{"unit", "shard", "state", "what"}], "not_of_this_plan",
  "programs", "files"}

Exit codes:
  1  units are missing, were altered, disagree, or were trained by different versions of macheps.
     Then nothing is written.)";

struct MergeArguments {
    std::filesystem::path out, to;
    std::vector<std::string> rows;
    bool allow_missing = false, allow_mixed = false, trust = false, json = false;
};

/// A missing unit: its shard, its state, and the reason if it failed.
struct MissingUnit {
    std::string id, shard, what;
    UnitState state = UnitState::missing;
};

std::vector<MissingUnit> missing_units(const Sweep& sweep, const FinishedUnits& units, const std::filesystem::path& out,
                                       int count) {
    std::vector<std::string> shard_of(sweep.units.size());
    const std::vector<std::vector<std::size_t>> shards = units_of_shards(sweep, count);
    for (int i = 0; i < count; ++i) {
        for (const std::size_t unit : shards[static_cast<std::size_t>(i)]) shard_of[unit] = to_string(Shard{i, count});
    }
    std::vector<MissingUnit> missing;
    for (const UnitStatus& status : status_of(sweep, out)) {
        if (!std::binary_search(units.missing().begin(), units.missing().end(), status.unit)) continue;
        missing.push_back({sweep.units[status.unit].id, shard_of[status.unit],
                           status.what.substr(0, status.what.find('\n')), status.state});
    }
    return missing;
}

void tell_missing(const std::vector<MissingUnit>& missing, const std::filesystem::path& out) {
    constexpr std::size_t max_lines = 40;
    for (std::size_t i = 0; i < std::min(missing.size(), max_lines); ++i) {
        eprint("shard {:<9} {} {}{}\n", missing[i].shard, missing[i].id, to_string(missing[i].state),
               missing[i].what.empty() ? "" : ": " + printable(missing[i].what));
    }
    if (missing.size() > max_lines) eprint("and {} more units\n", missing.size() - max_lines);
    std::vector<std::string> shards;
    std::set<std::string> known;
    for (const MissingUnit& unit : missing) {
        if (known.insert(unit.shard).second) shards.push_back(unit.shard);
    }
    const bool has_failed = std::any_of(missing.begin(), missing.end(),
                                        [](const MissingUnit& unit) { return unit.state == UnitState::failed; });
    eprint("To train the rest:\n");
    for (std::size_t i = 0; i < std::min(shards.size(), max_lines); ++i) {
        eprint("  macheps sweep run {}{} --shard {}\n", shell_word(out.string()), has_failed ? " --retry-failed" : "",
               shards[i]);
    }
}

void check_agreement(const FinishedUnits& units, const MergeArguments& a) {
    for (const Failure& conflict : units.conflicts()) {
        throw Error({.what = conflict.what,
                     .where = (a.out / "failed" / (conflict.id + ".json")).string(),
                     .fix = "find the computer that computes wrongly, and remove the folder that it wrote",
                     .exit = Exit::check_failed});
    }
    if (units.programs().size() < 2 || a.allow_mixed) return;
    throw Error(
        {.what = fmt::format("the units were trained by {} versions of the program: {}", units.programs().size(),
                             fmt::join(units.programs(), ", ")),
         .where = a.out.string(),
         .fix =
             "train all units with one version, or pass --allow-mixed; units.csv then names the version of each unit",
         .exit = Exit::check_failed});
}

Exit merge(const MergeArguments& a) {
    const Sweep sweep = read_sweep(a.out);
    const FinishedUnits units(sweep, a.out);
    check_agreement(units, a);
    const std::vector<MissingUnit> missing = missing_units(sweep, units, a.out, shard_count(a.out));
    const bool is_merged = missing.empty() || (a.allow_missing && !units.done().empty());
    std::vector<std::string> files;
    if (is_merged) {
        MergeRequest request{.out = a.out, .to = a.to.empty() ? a.out / "merged" : a.to, .rows = a.rows};
        if (request.rows.empty()) request.rows.assign(std::begin(usual_merge_words), std::end(usual_merge_words));
        if (a.trust) request.trust = FinishedUnits::Trust::is_trusted;
        for (const auto& file : merge_units(sweep, units, request)) files.push_back(file.string());
    }
    if (a.json) {
        Json list = Json::array();
        for (const MissingUnit& unit : missing) {
            list.push_back({{"unit", unit.id},
                            {"shard", unit.shard},
                            {"state", std::string(to_string(unit.state))},
                            {"what", unit.what}});
        }
        print_json({{"out", a.out.string()},
                    {"units", units.done().size() + missing.size()},
                    {"merged", is_merged ? units.done().size() : 0},
                    {"missing", list},
                    {"not_of_this_plan", units.not_of_this_plan()},
                    {"programs", units.programs()},
                    {"files", files}});
    }
    for (const std::string& file : files) eprint("wrote {}\n", file);
    if (units.not_of_this_plan() > 0)
        eprint("note: {} units belong to an earlier version of this plan and were left out\n",
               units.not_of_this_plan());
    if (missing.empty()) return Exit::ok;
    eprint("{} of {} units are missing\n", missing.size(), units.done().size() + missing.size());
    tell_missing(missing, a.out);
    return is_merged ? Exit::ok : Exit::check_failed;
}

void describe(Command& verb) {
    const auto a = std::make_shared<MergeArguments>();
    verb.option("OUT", a->out, "The folder of a sweep").required().takes(value_kind::folder);
    verb.option("-o,--out", a->to, "Folder for the files. Default: OUT/merged").takes(value_kind::folder);
    verb.option("--rows", a->rows, fmt::format("Rows to merge: any of {}", fmt::join(merge_words(), ", ")))
        .list()
        .default_text(fmt::format("{}", fmt::join(usual_merge_words, ",")));
    verb.flag("--allow-missing", a->allow_missing, "Merge the finished units even if others are missing");
    verb.flag("--allow-mixed", a->allow_mixed, "Accept units of several versions of the program");
    verb.flag("--trust", a->trust, "Do not compare the files with their checksums");
    verb.flag("--json", a->json, "Print the result as JSON");
    verb.runs([a] { return merge(*a); });
}

}  // namespace

const VerbRow verb{"merge", help, describe, notes};

}  // namespace macheps::cmd::merge
