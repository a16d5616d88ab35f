// SPDX-License-Identifier: Apache-2.0
// macheps sweep status: the progress of a sweep.
#include "experiments/training/sweep/results/status.hpp"
#include "core/text/shown.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/sweep/folder.hpp"
#include "experiments/cmd/sweep/verbs.hpp"
#include "experiments/training/sweep/shard.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

namespace macheps::cmd::sweep {

using namespace training;

namespace {

constexpr const char* status_help =
    R"(Prints how many units of a sweep are done, begun, failed and missing, shard by shard.

Examples:
  macheps sweep status formats          the shards that are not done, and what failed
  macheps sweep status formats --csv    one line per unit)";

constexpr const char* status_notes = R"(States:
  A unit is `begun` while OUT/work contains an attempt at it: a process is training it, or was
  interrupted.

JSON:
  {"out", "name", "units", "done", "begun", "failed", "missing", "shards": [{"shard", "units",
  "done", "begun", "failed", "missing"}], "failures": [{"unit", "host", "what"}]}

The exit code does not depend on the states.)";

struct StatusArguments {
    std::filesystem::path out;
    int shards = 0;
    bool json = false, csv = false;
};

struct Counts {
    std::map<UnitState, int> of;
    int units = 0;

    void add(UnitState state) { ++of[state], ++units; }
    int operator[](UnitState state) const { return of.contains(state) ? of.at(state) : 0; }
};

constexpr UnitState all_states[] = {UnitState::done, UnitState::begun, UnitState::failed, UnitState::missing};

Json counts_json(const Counts& counts) {
    Json json{{"units", counts.units}};
    for (const UnitState state : all_states) json[std::string(to_string(state))] = counts[state];
    return json;
}

std::string counts_text(const Counts& counts) {
    std::string text = fmt::format("{} unit{}", counts.units, counts.units == 1 ? "" : "s");
    for (const UnitState state : all_states) {
        if (counts[state] > 0) text += fmt::format(", {} {}", counts[state], to_string(state));
    }
    return text;
}

std::string status_csv(const Sweep& sweep, const std::vector<UnitStatus>& all) {
    std::string text = "unit,state,attempts,runs,step,host,what\n";
    for (const UnitStatus& one : all) {
        text += fmt::format("{},{},{},{},{},", sweep.units[one.unit].id, to_string(one.state), one.attempts, one.runs,
                            one.step);
        reports::csv::append_cell(text, std::string_view(one.host));
        text += ',';
        reports::csv::append_cell(text, std::string_view(one.what));
        text += '\n';
    }
    return text;
}

Exit status(const StatusArguments& a) {
    const Sweep sweep = read_sweep(a.out);
    const std::vector<UnitStatus> all = status_of(sweep, a.out);
    if (a.csv) {
        print_text(status_csv(sweep, all));
        return Exit::ok;
    }
    std::map<std::size_t, const UnitStatus*> of_unit;
    Counts total;
    for (const UnitStatus& one : all) of_unit[one.unit] = &one, total.add(one.state);
    const int count = a.shards > 0 ? a.shards : shard_count(a.out);
    Json shards = Json::array(), failures = Json::array();
    std::string lines;
    const std::vector<std::vector<std::size_t>> units = units_of_shards(sweep, count);
    for (int i = 0; i < count; ++i) {
        Counts counts;
        for (const std::size_t unit : units[static_cast<std::size_t>(i)]) counts.add(of_unit.at(unit)->state);
        Json json{{"shard", to_string(Shard{i, count})}};
        json.update(counts_json(counts));
        shards.push_back(std::move(json));
        if (counts[UnitState::done] != counts.units && count > 1)
            lines += fmt::format("shard {}: {}\n", to_string(Shard{i, count}), counts_text(counts));
    }
    for (const UnitStatus& one : all) {
        if (one.state != UnitState::failed) continue;
        const std::string& id = sweep.units[one.unit].id;
        failures.push_back({{"unit", id}, {"host", one.host}, {"what", one.what}});
        lines += fmt::format("failed: {} on {}: {}\n", id, printable(one.host), printable(one.what));
    }
    if (!a.json) {
        print("{}: {}\n", sweep.name, counts_text(total));
        print_text(lines);
        return Exit::ok;
    }
    Json json{{"out", a.out.string()}, {"name", sweep.name}};
    json.update(counts_json(total));
    json["shards"] = std::move(shards);
    json["failures"] = std::move(failures);
    print_json(json);
    return Exit::ok;
}

void describe_status(Command& verb) {
    const auto a = std::make_shared<StatusArguments>();
    verb.option("OUT", a->out, "The folder of a sweep").required().takes(value_kind::folder);
    verb.integer("--shards", a->shards, {0, max_shards}, "Number of shards to report; 0: as many as in the last run")
        .shows_default();
    const Option json = verb.flag("--json", a->json, "Print as JSON");
    verb.flag("--csv", a->csv, "Print one line per unit").excludes(json);
    verb.runs([a] { return status(*a); });
}

}  // namespace

const VerbRow status_verb{"status", status_help, describe_status, status_notes};

}  // namespace macheps::cmd::sweep
