// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/sweep.hpp"

#include "core/json.hpp"
#include "core/publish.hpp"
#include "core/read_file.hpp"
#include "experiments/sweep/layout.hpp"
#include "experiments/sweep/unit_recipe.hpp"
#include "experiments/version.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

namespace macheps {

namespace {

namespace fs = std::filesystem;

constexpr int sweep_schema = 1;
constexpr std::uint64_t most_sweep_bytes = std::uint64_t{1} << 30;

Json json_of(const SweepPolicy& policy) {
    Json sources = Json::array();
    for (const PolicySource& source : policy.sources)
        sources.push_back({{"source", source.name}, {"is_file", source.is_file}, {"toml", source.text}});
    return {{"name", policy.name}, {"xxh64", to_hex(policy.checksum)}, {"sources", sources}};
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
    return {{"id", unit.id},           {"setting", unit.setting}, {"seed", unit.seed},
            {"policies", unit.policies}, {"seconds", unit.seconds}, {"bytes", unit.bytes},
            {"memory_bytes", unit.memory_bytes}};
}

template <class T>
Json list_json(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(json_of(value));
    return list;
}

void check_index(std::size_t index, std::size_t size) {
    if (index >= size) throw JsonError("a number points behind its list");
}

Sweep sweep_of(const Json& json) {
    Sweep sweep;
    json.at("name").get_to(sweep.name);
    json.at("created_by").get_to(sweep.created_by);
    json.at("git").get_to(sweep.git);
    json.at("plan_xxh64").get_to(sweep.plan_checksum);
    json.at("plan").get_to(sweep.plan_text);
    json.at("axes").get_to(sweep.axes);
    for (const Json& one : json.at("policies")) {
        SweepPolicy policy{.name = one.at("name").get<std::string>(), .sources = {}};
        for (const Json& source : one.at("sources")) {
            policy.sources.push_back({source.at("source").get<std::string>(), source.at("is_file").get<bool>(),
                                      source.at("toml").get<std::string>()});
        }
        policy.checksum = checksum_of_sources(policy.sources);
        sweep.policies.push_back(std::move(policy));
    }
    for (const Json& one : json.at("settings")) {
        SweepSetting setting{.axes = {},
                             .options = one.at("options").get<std::vector<std::string>>(),
                             .data = one.at("data").get<std::string>()};
        for (const auto& [name, value] : one.at("axes").items())
            setting.axes.emplace_back(name, value.get<std::string>());
        sweep.settings.push_back(std::move(setting));
    }
    const auto read_indices = [&](const Json& one, std::size_t& setting, std::int64_t& seed,
                                  std::vector<std::size_t>& policies) {
        one.at("setting").get_to(setting);
        one.at("seed").get_to(seed);
        one.at("policies").get_to(policies);
        check_index(setting, sweep.settings.size());
        for (const std::size_t policy : policies) check_index(policy, sweep.policies.size());
    };
    for (const Json& one : json.at("cells")) {
        SweepCell cell;
        read_indices(one, cell.setting, cell.seed, cell.policies);
        sweep.cells.push_back(std::move(cell));
    }
    std::set<std::string> ids;
    for (const Json& one : json.at("units")) {
        SweepUnit unit{.id = one.at("id").get<std::string>(), .policies = {}};
        read_indices(one, unit.setting, unit.seed, unit.policies);
        one.at("seconds").get_to(unit.seconds);
        one.at("bytes").get_to(unit.bytes);
        one.at("memory_bytes").get_to(unit.memory_bytes);
        if (!is_unit_id(unit.id) || !ids.insert(unit.id).second) throw JsonError("two units have one name, or no name");
        sweep.units.push_back(std::move(unit));
    }
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

/// The plan and its policies, which sweep.json has too.
void write_for_people(const Sweep& sweep, const fs::path& out) {
    make_folders(out / "policies");
    for (const SweepPolicy& policy : sweep.policies) {
        for (const PolicySource& source : policy.sources) {
            if (!source.is_file || !source.name.starts_with("policies/")) continue;
            make_folders((out / source.name).parent_path());
            publish(out / source.name, source.text);
        }
    }
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
        // fp32 stands in every unit: it is taken from one that is needed for another policy anyway.
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
        experiment.policies.push_back(parse_policy(sweep.policies[policy].sources));
    if (const std::string id = unit_id(experiment); id != unit.id) {
        const std::string now = fmt::format("macheps {} ({})", version(), git_revision()),
                          then = fmt::format("{} ({})", sweep.created_by, sweep.git);
        throw Error({.what = fmt::format("what would be trained is {}, another recipe than was planned", id),
                     .where = fmt::format("unit {}", unit.id),
                     .fix = now == then ? "its data is not what it was: put that back, or plan anew"
                                        : fmt::format("it was planned by {}, and this is {}: take that version, or put "
                                                      "its data back where that has changed",
                                                      then, now)});
    }
    return experiment;
}

std::string setting_words(const SweepSetting& setting) {
    std::string words;
    for (const auto& [name, value] : setting.axes) words += fmt::format("{}{}={}", words.empty() ? "" : " ", name, value);
    return words;
}

Sweep read_sweep(const fs::path& out) {
    const fs::path path = out / sweep_file;
    if (!fs::exists(path)) {
        throw Error({.what = "there is no sweep.json in this folder",
                     .where = out.string(),
                     .fix = "name the folder of a sweep, or the plan: `macheps sweep plan PLAN --out OUT` makes one"});
    }
    const auto bad = [&](std::string what) {
        return Error({.what = std::move(what),
                      .where = path.string(),
                      .fix = "restore it, or plan again into the same folder: finished units keep their names"});
    };
    const Json json = Json::parse_or_null(read_file(path, most_sweep_bytes));
    if (!json.is_object()) throw bad("not a JSON object");
    try {
        const auto schema = json.at("schema").get<std::int64_t>();
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
    // A link is made by one process alone; a rename would put one sweep in the place of another.
    const fs::path draft = out / fmt::format("{}.{}-{}", sweep_file, host_name(), ::getpid());
    publish(draft, text_of(sweep));
    const int error = ::link(draft.c_str(), (out / sweep_file).c_str()) == 0 ? 0 : errno;
    ::unlink(draft.c_str());
    if (error == EEXIST) return false;
    if (error != 0) publish(out / sweep_file, text_of(sweep));  // no links here
    write_for_people(sweep, out);
    return true;
}

}  // namespace macheps
