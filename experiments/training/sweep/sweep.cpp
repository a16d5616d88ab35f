// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/sweep.hpp"

#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/host/version.hpp"
#include "core/text/json.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "experiments/training/sweep/store/unit_recipe.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

constexpr int sweep_schema = 1;
constexpr std::uint64_t max_sweep_bytes = std::uint64_t{1} << 30;

Json json_of(const SweepPolicy& policy) {
    Json sources = Json::array();
    for (const policy::PolicySource& source : policy.sources)
        sources.push_back({{"source", source.name}, {"is_file", source.is_file}, {"toml", source.text}});
    return {{"name", policy.name}, {"xxh64", reports::to_hex(policy.checksum)}, {"sources", sources}};
}

Json json_of(const SweepSetting& setting) {
    Json axes = Json::object();
    for (const auto& [name, value] : setting.axes) axes[name] = value;
    return {{"axes", axes}, {"options", setting.options}, {"data", setting.data}};
}

Json json_of(const SweepCell& cell) {
    return {{"setting", cell.setting}, {"seed", cell.seed}, {"policies", cell.policies}};
}

Json json_of(const SweepUnit& unit) {
    return {{"id", unit.id},
            {"setting", unit.setting},
            {"seed", unit.seed},
            {"policies", unit.policies},
            {"seconds", unit.seconds},
            {"bytes", unit.bytes},
            {"memory_bytes", unit.memory_bytes}};
}

template <class T>
Json list_json(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(json_of(value));
    return list;
}

/// Reads a member of a JSON object. Errors name the member.
template <class T>
void read_member(const Json& json, const char* name, T& out) {
    try {
        json.at(name).get_to(out);
    } catch (const JsonError& error) {
        throw JsonError(json.contains(name) ? fmt::format("{}: {}", name, error.what()) : std::string(error.what()));
    }
}

template <class T>
T member(const Json& json, const char* name) {
    T value{};
    read_member(json, name, value);
    return value;
}

/// Passes each element of a list to `read`. Errors name the element.
template <class Read>
void for_each_in(const Json& json, const char* list, const Read& read) {
    const Json& all = json.at(list);
    if (!all.is_array()) throw JsonError(fmt::format("{}: this is not a list", list));
    for (std::size_t i = 0; i < all.size(); ++i) {
        try {
            read(all[i]);
        } catch (const JsonError& error) {
            throw JsonError(fmt::format("{}[{}]: {}", list, i, error.what()));
        }
    }
}

void require(bool is_right, const char* problem) {
    if (!is_right) throw JsonError(problem);
}

/// Reads the setting, the seed and the policies of a cell or a unit.
template <class Runs>
void read_runs(const Json& json, const Sweep& sweep, Runs& runs) {
    read_member(json, "setting", runs.setting);
    read_member(json, "seed", runs.seed);
    read_member(json, "policies", runs.policies);
    require(runs.setting < sweep.settings.size(), "setting: the index is past the end of the list of settings");
    require(runs.seed >= 0, "seed: it is negative");
    require(!runs.policies.empty(), "policies: the list is empty");
    for (const std::size_t policy : runs.policies)
        require(policy < sweep.policies.size(), "policies: an index is past the end of the list of policies");
    const std::set<std::size_t> distinct(runs.policies.begin(), runs.policies.end());
    require(distinct.size() == runs.policies.size(), "policies: one appears twice");
}

SweepPolicy policy_of(const Json& json) {
    SweepPolicy policy{.name = member<std::string>(json, "name"), .sources = {}};
    for_each_in(json, "sources", [&](const Json& source) {
        policy.sources.push_back({member<std::string>(source, "source"), member<bool>(source, "is_file"),
                                  member<std::string>(source, "toml")});
    });
    require(!policy.sources.empty(), "sources: the list is empty");
    policy.checksum = checksum_of_sources(policy.sources);
    return policy;
}

SweepSetting setting_of(const Json& json) {
    SweepSetting setting{.axes = {}};
    read_member(json, "options", setting.options);
    read_member(json, "data", setting.data);
    const Json& axes = json.at("axes");
    require(axes.is_object(), "axes: this is not an object");
    for (const auto& [name, value] : axes.items())
        setting.axes.emplace_back(name, member<std::string>(axes, name.c_str()));
    return setting;
}

/// Returns whether a setting has a value for each axis of the plan, in the order of the plan. The columns of tables
/// depend on this order.
bool has_axes(const SweepSetting& setting, const std::vector<std::string>& axes) {
    return std::equal(setting.axes.begin(), setting.axes.end(), axes.begin(), axes.end(),
                      [](const auto& one, const std::string& name) { return one.first == name; });
}

SweepUnit unit_of(const Json& json, const Sweep& sweep) {
    SweepUnit unit{.id = member<std::string>(json, "id"), .policies = {}};
    require(is_unit_id(unit.id), "id: this is not the name of a unit");
    read_runs(json, sweep, unit);
    read_member(json, "seconds", unit.seconds);
    read_member(json, "bytes", unit.bytes);
    read_member(json, "memory_bytes", unit.memory_bytes);
    require(std::isfinite(unit.seconds) && unit.seconds >= 0, "seconds: this is not a time");
    require(unit.bytes >= 0 && unit.memory_bytes >= 0, "bytes, memory_bytes: a size is negative");
    return unit;
}

Sweep sweep_of(const Json& json) {
    Sweep sweep;
    read_member(json, "name", sweep.name);
    read_member(json, "created_by", sweep.created_by);
    read_member(json, "git", sweep.git);
    read_member(json, "plan_xxh64", sweep.plan_checksum);
    read_member(json, "plan", sweep.plan_text);
    read_member(json, "axes", sweep.axes);
    const std::set<std::string> axes(sweep.axes.begin(), sweep.axes.end());
    require(axes.size() == sweep.axes.size(), "axes: one appears twice");
    for_each_in(json, "policies", [&](const Json& one) { sweep.policies.push_back(policy_of(one)); });
    for_each_in(json, "settings", [&](const Json& one) { sweep.settings.push_back(setting_of(one)); });
    for_each_in(json, "cells", [&](const Json& one) {
        SweepCell cell;
        read_runs(one, sweep, cell);
        require(has_axes(sweep.settings[cell.setting], sweep.axes), "setting: its axes are not those of the plan");
        sweep.cells.push_back(std::move(cell));
    });
    require(!sweep.cells.empty(), "cells: the list is empty");
    std::unordered_set<std::string> ids;
    for_each_in(json, "units", [&](const Json& one) {
        sweep.units.push_back(unit_of(one, sweep));
        require(ids.insert(sweep.units.back().id).second, "id: two units have the same name");
    });
    return sweep;
}

std::string text_of(const Sweep& sweep) {
    const Json json{{"schema", sweep_schema},
                    {"name", sweep.name},
                    {"created_by", sweep.created_by},
                    {"git", sweep.git},
                    {"plan_xxh64", sweep.plan_checksum},
                    {"plan", sweep.plan_text},
                    {"axes", sweep.axes},
                    {"policies", list_json(sweep.policies)},
                    {"settings", list_json(sweep.settings)},
                    {"cells", list_json(sweep.cells)},
                    {"units", list_json(sweep.units)}};
    return json.dump(1) + '\n';
}

/// Writes the plan and its policies as files for people. sweep.json also contains them.
void write_for_people(const Sweep& sweep, const fs::path& out) {
    make_folders(out / "policies");
    for (const SweepPolicy& policy : sweep.policies) {
        for (const policy::PolicySource& source : policy.sources) {
            if (!source.is_file || !source.name.starts_with("policies/")) continue;
            make_folders((out / source.name).parent_path());
            check_is_replaceable(out / source.name);
            publish(out / source.name, source.text);
        }
    }
    check_is_replaceable(out / "plan.toml");
    publish(out / "plan.toml", sweep.plan_text);
}

}  // namespace

const SweepUnit* Sweep::find_unit(const std::string& id) const {
    const auto found = std::find_if(units.begin(), units.end(), [&](const SweepUnit& unit) { return unit.id == id; });
    return found == units.end() ? nullptr : &*found;
}

std::vector<SweepRun> runs_of(const Sweep& sweep) {
    std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::size_t>> units;
    for (std::size_t i = 0; i < sweep.units.size(); ++i)
        units[{sweep.units[i].setting, sweep.units[i].seed}].push_back(i);
    std::vector<SweepRun> runs;
    for (std::size_t i = 0; i < sweep.cells.size(); ++i) {
        const SweepCell& cell = sweep.cells[i];
        const std::vector<std::size_t>& here = units[{cell.setting, cell.seed}];
        const auto unit_with = [&](std::size_t policy) {
            return std::find_if(here.begin(), here.end(), [&](std::size_t unit) {
                const std::vector<std::size_t>& has = sweep.units[unit].policies;
                return std::find(has.begin(), has.end(), policy) != has.end();
            });
        };
        const std::size_t first = runs.size();
        for (const std::size_t policy : cell.policies) {
            if (const auto unit = unit_with(policy); unit != here.end()) runs.push_back({i, policy, *unit});
        }
        // Every unit trains fp32. The fp32 run is taken from a unit that another policy needs anyway, so that no unit
        // is needed for fp32 alone.
        std::size_t least = sweep.units.size();
        for (std::size_t k = first + 1; k < runs.size(); ++k) least = std::min(least, runs[k].unit);
        if (first < runs.size() && runs[first].policy == cell.policies.front() && least < sweep.units.size())
            runs[first].unit = least;
    }
    return runs;
}

Experiment unit_experiment(const Sweep& sweep, const SweepUnit& unit, const TaskOf& task_of) {
    Experiment experiment = task_of(sweep.settings[unit.setting].options);
    experiment.seeds = {unit.seed};
    experiment.policies.clear();
    for (const std::size_t policy : unit.policies)
        experiment.policies.push_back(policy::parse_policy(sweep.policies[policy].sources));
    if (const std::string id = unit_id(experiment); id != unit.id) {
        const std::string now = fmt::format("macheps {} ({})", version(), git_revision()),
                          then = fmt::format("{} ({})", sweep.created_by, sweep.git);
        throw Error({.what = fmt::format("the unit would now train {}, which is not the recipe that was planned", id),
                     .where = fmt::format("unit {}", unit.id),
                     .fix = now == then ? "restore its data, which has changed, or plan again"
                                        : fmt::format("it was planned by {}, and this is {}: use that version, or "
                                                      "restore its data if it has changed",
                                                      then, now)});
    }
    return experiment;
}

std::string setting_words(const SweepSetting& setting) {
    std::string words;
    for (const auto& [name, value] : setting.axes)
        words += fmt::format("{}{}={}", words.empty() ? "" : " ", name, value);
    return words;
}

Sweep read_sweep(const fs::path& out) {
    const fs::path path = out / sweep_file;
    if (!fs::exists(path)) {
        throw Error(
            {.what = "there is no sweep.json in this folder",
             .where = out.string(),
             .fix = "name the folder of a sweep, or the plan; `macheps sweep plan PLAN --out OUT` makes a folder"});
    }
    const auto bad = [&](std::string what) {
        return Error({.what = std::move(what),
                      .where = path.string(),
                      .fix = "restore it, or plan again into the same folder: finished units keep their names"});
    };
    const Json json = Json::parse_or_null(read_regular_file(path, max_sweep_bytes));
    if (!json.is_object()) throw bad("this is not a JSON object");
    try {
        const auto schema = member<std::int64_t>(json, "schema");
        require(schema >= 1, "schema: it is less than 1");
        if (schema > sweep_schema) {
            throw Error({.what = fmt::format("schema {} is newer than this program's {}", schema, sweep_schema),
                         .where = path.string(),
                         .fix = "use a newer macheps"});
        }
        return sweep_of(json);
    } catch (const JsonError& error) {
        throw bad(fmt::format("it is damaged: {}", error.what()));
    }
}

void write_sweep(const Sweep& sweep, const fs::path& out) {
    write_for_people(sweep, out);
    publish(out / sweep_file, text_of(sweep));
}

bool create_sweep(const Sweep& sweep, const fs::path& out) {
    make_folders(out);
    // Creating a link fails if sweep.json exists, so only one process can succeed. A rename would replace the
    // sweep.json of another process.
    const fs::path draft = out / fmt::format("{}.{}-{}", sweep_file, host_name(), ::getpid());
    publish(draft, text_of(sweep));
    const int error = ::link(draft.c_str(), (out / sweep_file).c_str()) == 0 ? 0 : errno;
    ::unlink(draft.c_str());
    if (error == EEXIST) return false;
    if (error != 0) publish(out / sweep_file, text_of(sweep));  // the file system has no links
    write_for_people(sweep, out);
    return true;
}

}  // namespace macheps::training
