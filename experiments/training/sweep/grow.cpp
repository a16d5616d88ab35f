// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/grow.hpp"

#include "core/host/version.hpp"
#include "experiments/training/sweep/store/unit_recipe.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace macheps::training {

namespace {

constexpr std::size_t max_settings = 100000, max_runs = 10000000;

/// Appends an option with its value, as one word of a command line. Appends nothing for a switch that is off.
void append_words(const std::string& name, const PlanValue& value, std::vector<std::string>& words) {
    if (!value.is_switch) {
        words.push_back(fmt::format("--{}={}", name, value.text));
    } else if (value.text == "true") {
        words.push_back("--" + name);
    }
}

/// Checksums of data files by path, so that each file is read only once.
using DataChecksums = std::map<std::string, std::string>;

/// Adds an option to a setting. Paths of data files are made absolute, because a shard may start in any folder.
void append_option(const PlanFile& plan, const std::string& name, PlanValue value, SweepSetting& setting,
                   DataChecksums& checksums) {
    if (is_data_option(name)) {
        value.text = std::filesystem::absolute(plan.beside(value.text)).lexically_normal().string();
        const auto [known, is_new] = checksums.try_emplace(value.text);
        if (is_new) known->second = reports::to_hex(reports::csv::mark_of(value.text).checksum);
        if (!setting.data.empty()) setting.data += ' ';
        setting.data += known->second;
    }
    append_words(name, value, setting.options);
}

/// Returns a setting for each combination of values of the axes. The first axis varies slowest.
std::vector<SweepSetting> settings_of(const PlanFile& plan) {
    SweepSetting first;
    DataChecksums checksums;
    for (const PlanOption& option : plan.train)
        append_option(plan, option.name, option.values.front(), first, checksums);
    std::vector<SweepSetting> settings{first};
    for (const PlanOption& axis : plan.axes) {
        std::vector<SweepSetting> next;
        if (settings.size() * axis.values.size() > max_settings) {
            throw Error({.what = fmt::format("the axes have more than {} combinations", max_settings),
                         .where = axis.where,
                         .fix = "use fewer values, or several plans"});
        }
        for (const SweepSetting& setting : settings) {
            for (const PlanValue& value : axis.values) {
                next.push_back(setting);
                next.back().axes.emplace_back(axis.name, value.text);
                append_option(plan, axis.name, value, next.back(), checksums);
            }
        }
        settings = std::move(next);
    }
    return settings;
}

SweepPolicy policy_of(const std::string& name, const std::filesystem::path& folder) {
    const policy::Policy policy = as_in_sweep(policy::load_policy(name), folder);
    return {.name = policy.name, .sources = policy.sources, .checksum = checksum_of_sources(policy.sources)};
}

/// Decides which runs are excluded, and checks that each exclusion excludes something.
class Exclusions {
  public:
    explicit Exclusions(const PlanFile& plan) : plan_(plan), used_(plan.exclusions.size(), false) {}

    bool take(const SweepSetting& setting, std::int64_t seed, const std::string& policy) {
        bool is_out = false;
        for (std::size_t i = 0; i < plan_.exclusions.size(); ++i) {
            const PlanExclusion& exclusion = plan_.exclusions[i];
            const bool meets = std::all_of(exclusion.patterns.begin(), exclusion.patterns.end(), [&](const auto& one) {
                const std::string value = value_of(one.axis, setting, seed, policy);
                return std::any_of(one.globs.begin(), one.globs.end(),
                                   [&](const std::string& glob) { return policy::glob_match(glob, value); });
            });
            if (meets) used_[i] = true;
            is_out = is_out || meets;
        }
        return is_out;
    }
    void check() const {
        for (std::size_t i = 0; i < used_.size(); ++i) {
            if (used_[i]) continue;
            throw Error({.what = "this exclusion has no effect",
                         .where = plan_.exclusions[i].where,
                         .fix = "compare its values with the axes, or remove it"});
        }
    }

  private:
    static std::string value_of(const std::string& axis, const SweepSetting& setting, std::int64_t seed,
                                const std::string& policy) {
        if (axis == policy_axis) return policy;
        if (axis == seeds_axis) return fmt::format("{}", seed);
        for (const auto& [name, value] : setting.axes) {
            if (name == axis) return value;
        }
        return {};
    }

    const PlanFile& plan_;
    std::vector<bool> used_;
};

/// Returns the index of `value` in `list`. If `value` is missing, appends it first.
template <class T, class Same>
std::size_t index_in(std::vector<T>& list, const T& value, const Same& same) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const T& one) { return same(one, value); });
    if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
    list.push_back(value);
    return list.size() - 1;
}

/// Returns the policies that are not excluded. fp32, the first policy, is kept if any other policy is kept.
std::vector<std::size_t> left_policies(const std::vector<SweepPolicy>& policies, const SweepSetting& setting,
                                       std::int64_t seed, Exclusions& exclusions) {
    std::vector<std::size_t> left;
    const bool has_others = policies.size() > 1;
    for (std::size_t i = has_others ? 1 : 0; i < policies.size(); ++i) {
        if (!exclusions.take(setting, seed, policies[i].name)) left.push_back(i);
    }
    if (has_others && !left.empty()) left.insert(left.begin(), 0);
    return left;
}

/// Returns the experiment of a setting with those elements of `policies` whose indices are in `which`. Errors name the
/// setting.
Experiment experiment_of(const SweepSetting& setting, const std::vector<SweepPolicy>& policies,
                         const std::vector<std::size_t>& which, const PlanFile& plan, const TaskOf& task_of) {
    try {
        std::vector<std::string> options = setting.options;
        // Without this option, all policies of the demo would be read. They are replaced below.
        options.push_back(fmt::format("--policy={}", reports::baseline_policy));
        Experiment experiment = task_of(options);
        experiment.policies.clear();
        for (const std::size_t i : which) experiment.policies.push_back(policy::parse_policy(policies[i].sources));
        validate(experiment);
        return experiment;
    } catch (const Error& error) {
        const std::string words = setting_words(setting);
        throw Error({.what = error.what(),
                     .where = plan.path.string() + (words.empty() ? "" : " (" + words + ")"),
                     .exit = error.exit()});
    }
}

/// Data that is shared by the cells of one setting that have the same policies.
struct CellGroup {
    const Experiment& experiment;
    const SharedInputs& inputs;
    std::vector<const CostRow*> costs{};  ///< of each policy
    std::map<std::vector<std::size_t>, UnitIds> ids{};

    /// Returns the names of the units that train the policies in `part`, one for each seed.
    const UnitIds& ids_of(const std::vector<std::size_t>& part) {
        if (const auto known = ids.find(part); known != ids.end()) return known->second;
        Experiment some = experiment;
        some.policies.clear();
        std::vector<policy::ResolvedPolicy> resolved;
        for (const std::size_t i : part) {
            some.policies.push_back(experiment.policies[i]);
            resolved.push_back(inputs.policies[i]);
        }
        return ids.try_emplace(part, std::move(some), resolved, inputs.data->describe()).first->second;
    }
};

/// Makes units for those policies of a cell that are not yet in any unit. Divides the policies into units that each
/// take about PlanFile::minutes.
class CellUnits {
  public:
    CellUnits(const PlanFile& plan, Sweep& sweep) : plan_(plan), sweep_(sweep) {
        for (const SweepUnit& unit : sweep.units) adds(unit);
    }

    std::size_t add(const SweepCell& cell, CellGroup& group) {
        const std::set<std::size_t> covered = covered_[{cell.setting, cell.seed}];
        const std::size_t before = sweep_.units.size();
        std::vector<std::size_t> part;  // indices into cell.policies
        double seconds = 0;
        const auto cost = [&](std::size_t i) { return group.costs[i]->seconds; };
        const auto close = [&] {
            if (!part.empty()) make(cell, group, part);
            part.clear();
        };
        for (std::size_t i = 0; i < cell.policies.size(); ++i) {
            if (covered.contains(cell.policies[i]) || (i == 0 && cell.policies.size() > 1)) continue;
            if (!part.empty() && seconds + cost(i) > 60 * plan_.minutes) close();
            if (part.empty()) seconds = i == 0 ? 0 : cost(0);
            if (part.empty() && i != 0) part.push_back(0);
            part.push_back(i);
            seconds += cost(i);
        }
        close();
        return sweep_.units.size() - before;
    }

  private:
    void make(const SweepCell& cell, CellGroup& group, const std::vector<std::size_t>& part) {
        SweepUnit unit{.setting = cell.setting, .seed = cell.seed, .policies = {}};
        for (const std::size_t i : part) {
            unit.policies.push_back(cell.policies[i]);
            const CostRow& row = *group.costs[i];
            unit.seconds += row.seconds;
            unit.bytes += row.row_bytes;
            unit.memory_bytes = std::max(unit.memory_bytes, row.memory_bytes);
        }
        unit.id = group.ids_of(part).of_seed(cell.seed);
        if (!adds(unit)) {
            throw Error({.what = fmt::format("the setting {} trains the same as another setting", words_of(cell)),
                         .where = plan_.path.string(),
                         .fix = "remove an axis, or a value, that has no effect"});
        }
        sweep_.units.push_back(std::move(unit));
    }
    /// Records a unit. Returns whether it is the first unit with its name.
    bool adds(const SweepUnit& unit) {
        covered_[{unit.setting, unit.seed}].insert(unit.policies.begin(), unit.policies.end());
        return ids_.insert(unit.id).second;
    }
    std::string words_of(const SweepCell& cell) const { return setting_words(sweep_.settings[cell.setting]); }

    const PlanFile& plan_;
    Sweep& sweep_;
    std::unordered_set<std::string> ids_;
    // Policies that already have a unit, by setting and seed.
    std::map<std::pair<std::size_t, std::int64_t>, std::set<std::size_t>> covered_;
};

/// Returns a text that identifies a setting: two settings have equal keys only if they are equal.
std::string key_of(const SweepSetting& setting) {
    std::string key = setting.data + '\n';
    for (const std::string& option : setting.options) key += option + '\0';
    key += '\n';
    for (const auto& [name, value] : setting.axes) key += name + '\0' + value + '\0';
    return key;
}

/// Reports the progress of planning, once a second. If it reported anything, it also reports the end.
class PlanProgress {
  public:
    PlanProgress(std::size_t cells, const std::function<void(const std::string&)>& note) : cells_(cells), note_(note) {}

    void report(std::size_t cells) {
        const auto now = std::chrono::steady_clock::now();
        const bool is_end = has_reported_ && cells == cells_;
        if (!note_ || (now < next_ && !is_end)) return;
        next_ = now + std::chrono::seconds(1);
        has_reported_ = true;
        note_(fmt::format("planned {} of {} combinations of settings and seeds", cells, cells_));
    }

  private:
    std::size_t cells_;
    bool has_reported_ = false;
    const std::function<void(const std::string&)>& note_;
    std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

void add_cells(Sweep& sweep, const PlanFile& plan, const std::vector<SweepPolicy>& policies) {
    Exclusions exclusions(plan);
    sweep.cells.clear();
    std::unordered_map<std::string, std::size_t> settings;
    for (std::size_t i = 0; i < sweep.settings.size(); ++i) settings.emplace(key_of(sweep.settings[i]), i);
    std::size_t runs = 0;
    for (const SweepSetting& setting : settings_of(plan)) {
        std::optional<std::size_t> index;
        for (const std::int64_t seed : plan.seeds) {
            std::vector<std::size_t> left = left_policies(policies, setting, seed, exclusions);
            if (left.empty()) continue;
            if (!index) {
                const auto [known, is_new] = settings.emplace(key_of(setting), sweep.settings.size());
                if (is_new) sweep.settings.push_back(setting);
                index = known->second;
            }
            for (std::size_t& policy : left) {
                policy = index_in(sweep.policies, policies[policy], [](const SweepPolicy& a, const SweepPolicy& b) {
                    return a.name == b.name && a.checksum == b.checksum;
                });
            }
            if ((runs += left.size()) > max_runs) {
                throw Error({.what = fmt::format("the plan has more than {} runs", max_runs),
                             .where = plan.path.string(),
                             .fix = "split it into several plans"});
            }
            sweep.cells.push_back({*index, seed, std::move(left)});
        }
    }
    exclusions.check();
    if (!sweep.cells.empty()) return;
    throw Error({.what = "nothing is left to train: every run is excluded",
                 .where = plan.path.string(),
                 .fix = "exclude less"});
}

}  // namespace

std::vector<SweepPolicy> policies_of(const PlanFile& plan) {
    const std::filesystem::path folder = plan.path.parent_path();
    std::vector<std::string> names;
    for (const std::string& word : plan.policies) {
        const bool is_file = word.find('/') != word.npos || word.ends_with(".toml");
        if (is_file) {
            names.push_back(plan.beside(word).string());
            if (names.back().find('/') == std::string::npos) names.back().insert(0, "./");
            continue;
        }
        const std::size_t before = names.size();
        if (word.find_first_of("*?{") == word.npos) {
            names.push_back(word);
        } else {
            for (const std::string_view preset : policy::preset_names()) {
                if (policy::glob_match(word, preset)) names.emplace_back(preset);
            }
        }
        if (names.size() > before) continue;
        throw Error({.what = fmt::format("'{}' matches no preset", word),
                     .where = plan.where_policies,
                     .fix = "run `macheps policy list` to list the presets"});
    }
    std::vector<SweepPolicy> policies{policy_of(std::string(reports::baseline_policy), folder)};
    for (const std::string& name : names) {
        SweepPolicy policy;
        try {
            policy = policy_of(name, folder);
        } catch (const Error& error) {
            throw Error({.what = error.what(), .where = plan.where_policies, .exit = error.exit()});
        }
        const auto same = std::find_if(policies.begin(), policies.end(),
                                       [&](const SweepPolicy& one) { return one.name == policy.name; });
        if (same == policies.end()) {
            policies.push_back(std::move(policy));
        } else if (same->checksum != policy.checksum) {
            throw Error({.what = fmt::format("two policies are called '{}'", policy.name),
                         .where = plan.where_policies,
                         .fix = "give your own policies different names"});
        }
    }
    return policies;
}

std::string plan_checksum(const PlanFile& plan, const std::vector<SweepPolicy>& policies) {
    reports::Checksum sum;
    sum.update(plan.text);
    for (const SweepPolicy& policy : policies) sum.update(reports::to_hex(policy.checksum));
    for (const SweepSetting& setting : settings_of(plan)) sum.update(setting.data);
    return reports::to_hex(sum.value());
}

Grown grow(const Sweep& before, const PlanFile& plan, const TaskOf& task_of, Costs& costs,
           const std::function<void(const std::string&)>& note) {
    Grown grown{.sweep = before};
    Sweep& sweep = grown.sweep;
    const std::vector<SweepPolicy> policies = policies_of(plan);
    if (sweep.created_by.empty()) sweep.created_by = "macheps " + version(), sweep.git = git_revision();
    sweep.name = plan.name;
    sweep.plan_text = plan.text;
    sweep.plan_checksum = plan_checksum(plan, policies);
    sweep.axes.clear();
    for (const PlanOption& axis : plan.axes) sweep.axes.push_back(axis.name);
    add_cells(sweep, plan, policies);

    CellUnits units(plan, sweep);
    PlanProgress progress(sweep.cells.size(), note);
    for (std::size_t i = 0; i < sweep.cells.size();) {
        // Cells of one setting with the same policies share the resolved inputs.
        const SweepCell& first = sweep.cells[i];
        const Experiment experiment =
            experiment_of(sweep.settings[first.setting], sweep.policies, first.policies, plan, task_of);
        std::optional<SharedInputs> inputs;
        try {
            inputs.emplace(experiment);
        } catch (const Error& error) {
            throw Error(
                {.what = error.what(),
                 .where = fmt::format("{} ({})", plan.path.string(), setting_words(sweep.settings[first.setting])),
                 .exit = error.exit()});
        }
        std::vector<const SweepPolicy*> rows;
        for (const std::size_t policy : first.policies) rows.push_back(&sweep.policies[policy]);
        costs.measure(experiment, rows, note);
        CellGroup group{.experiment = experiment, .inputs = *inputs};
        const std::string task = cost_task(experiment);
        for (const SweepPolicy* row : rows) group.costs.push_back(costs.find(task, *row));
        std::size_t end = i;
        while (end < sweep.cells.size() && sweep.cells[end].setting == first.setting &&
               sweep.cells[end].policies == first.policies) {
            grown.new_units += units.add(sweep.cells[end++], group);
            progress.report(end);
        }
        i = end;
    }
    grown.is_changed = grown.new_units > 0 || sweep.plan_checksum != before.plan_checksum;
    return grown;
}

}  // namespace macheps::training
