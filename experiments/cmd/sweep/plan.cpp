// SPDX-License-Identifier: Apache-2.0
// macheps sweep plan: the size and cost of a plan, before anything is trained.
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/sweep/folder.hpp"
#include "experiments/cmd/sweep/verbs.hpp"
#include "experiments/training/sweep/shard.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

namespace macheps::cmd::sweep {

using namespace training;

namespace {

constexpr const char* plan_help =
    R"(Prints the size of a plan: settings, units, runs, processor time, bytes, and the longest shard.

Examples:
  macheps sweep plan formats.toml                  its size; writes only costs.csv, next to the plan
  macheps sweep plan formats.toml --out formats    also makes the folder, or adds the new units
  macheps sweep plan formats --csv                 one line per unit of a folder: name, axes, cost)";

constexpr const char* plan_notes = R"(Cost:
  Each policy is checked against each model. A run of each policy and model is timed once, for a
  second or less, and the time is kept in costs.csv.

JSON:
  {"name", "settings", "units", "new_units", "runs", "seconds", "bytes", "memory_bytes", "shards":
  [{"count", "longest_seconds"}]}

Exit codes:
  2 and 3  the plan cannot be trained
  5        the folder could not be written)";

struct Totals {
    std::size_t settings = 0, units = 0, runs = 0, policies = 0, seeds = 0;
    double seconds = 0;
    std::int64_t bytes = 0, memory_bytes = 0;
};

constexpr int shard_counts[] = {4, 16, 64};

Totals totals_of(const Sweep& sweep) {
    Totals totals;
    std::set<std::size_t> settings, policies, units;
    std::set<std::int64_t> seeds;
    for (const SweepCell& cell : sweep.cells) {
        settings.insert(cell.setting);
        seeds.insert(cell.seed);
        policies.insert(cell.policies.begin(), cell.policies.end());
        totals.runs += cell.policies.size();
    }
    for (const SweepRun& run : runs_of(sweep)) units.insert(run.unit);
    for (const std::size_t unit : units) {
        totals.seconds += sweep.units[unit].seconds;
        totals.bytes += sweep.units[unit].bytes;
        totals.memory_bytes = std::max(totals.memory_bytes, sweep.units[unit].memory_bytes);
    }
    totals.settings = settings.size(), totals.units = units.size();
    totals.policies = policies.size(), totals.seeds = seeds.size();
    return totals;
}

double longest_shard(const Sweep& sweep, int count) {
    double longest = 0;
    for (const std::vector<std::size_t>& shard : units_of_shards(sweep, count)) {
        double seconds = 0;
        for (const std::size_t unit : shard) seconds += sweep.units[unit].seconds;
        longest = std::max(longest, seconds);
    }
    return longest;
}

std::string plan_text(const Sweep& sweep, const Totals& t, std::size_t new_units) {
    const std::string axes = sweep.axes.empty() ? "" : fmt::format(" of {}", fmt::join(sweep.axes, " x "));
    std::string text = format_shown("sweep     {}\nsettings  {}{}\n", sweep.name, t.settings, axes);
    text += fmt::format("runs      {}: {} polic{} and {} seed{}\n", t.runs, t.policies, t.policies == 1 ? "y" : "ies",
                        t.seeds, t.seeds == 1 ? "" : "s");
    text += fmt::format("units     {}{}\n", t.units, new_units > 0 ? fmt::format(", {} of them new", new_units) : "");
    text += fmt::format("time      about {} of processor time\n", duration_words(t.seconds));
    text += fmt::format("rows      about {}\n", bytes_text(static_cast<double>(t.bytes)));
    text += fmt::format("memory    about {} per unit\n", bytes_text(static_cast<double>(t.memory_bytes)));
    for (const int count : shard_counts)
        text += fmt::format("{:<9} the longest takes {}\n", fmt::format("{} shards", count),
                            duration_words(longest_shard(sweep, count)));
    return text;
}

std::string units_csv(const Sweep& sweep) {
    std::string text = "unit";
    for (const std::string& axis : sweep.axes) text += ',', reports::csv::append_cell(text, axis);
    text += ",seed,policies,seconds,bytes,memory_bytes\n";
    std::set<std::size_t> wanted;
    for (const SweepRun& run : runs_of(sweep)) wanted.insert(run.unit);
    for (const std::size_t index : wanted) {
        const SweepUnit& unit = sweep.units[index];
        text += unit.id;
        for (const auto& [name, value] : sweep.settings[unit.setting].axes)
            text += ',', reports::csv::append_cell(text, value);
        std::vector<std::string> names;
        for (const std::size_t policy : unit.policies) names.push_back(sweep.policies[policy].name);
        text += fmt::format(",{},", unit.seed);
        reports::csv::append_cell(text, fmt::format("{}", fmt::join(names, " ")));
        text += fmt::format(",{:.6g},{},{}\n", unit.seconds, unit.bytes, unit.memory_bytes);
    }
    return text;
}

struct PlanArguments {
    std::filesystem::path path, out;
    bool json = false, csv = false;
};

Exit plan(const PlanArguments& a) {
    const SweepFolder folder =
        open_sweep(a.path, a.out, PlanChanges::are_taken, a.out.empty() ? FolderIs::left_alone : FolderIs::written);
    const Totals t = totals_of(folder.sweep);
    if (a.csv) {
        print_text(units_csv(folder.sweep));
        return Exit::ok;
    }
    if (!a.json) {
        print_text(plan_text(folder.sweep, t, folder.new_units));
        return Exit::ok;
    }
    Json shards = Json::array();
    for (const int count : shard_counts)
        shards.push_back({{"count", count}, {"longest_seconds", json_number(longest_shard(folder.sweep, count))}});
    print_json({{"name", folder.sweep.name},
                {"settings", t.settings},
                {"units", t.units},
                {"new_units", folder.new_units},
                {"runs", t.runs},
                {"seconds", json_number(t.seconds)},
                {"bytes", t.bytes},
                {"memory_bytes", t.memory_bytes},
                {"shards", shards}});
    return Exit::ok;
}

void describe_plan(Command& verb) {
    const auto a = std::make_shared<PlanArguments>();
    verb.option("PLAN", a->path, "A plan, or the folder of a sweep").required().takes(value_kind::file);
    verb.option("-o,--out", a->out, "Make this folder from the plan, or add its new units to it. Default: none")
        .takes(value_kind::folder);
    const Option json = verb.flag("--json", a->json, "Print as JSON");
    verb.flag("--csv", a->csv, "Print one line per unit").excludes(json);
    verb.runs([a] { return plan(*a); });
}

}  // namespace

const VerbRow plan_verb{"plan", plan_help, describe_plan, plan_notes};

}  // namespace macheps::cmd::sweep
