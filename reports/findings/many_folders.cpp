// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/many_folders.hpp"

#include "core/error.hpp"
#include "core/host/float_environment.hpp"
#include "core/host/read_file.hpp"
#include "reports/findings/policy_fold.hpp"
#include "reports/logs/folder_settings.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/row_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <utility>

namespace macheps::reports {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view columns_of_who[] = {"run", "policy", "seed"};

/// Calls take(row) for each complete row of a file. The file may be absent, be empty, or end in the middle of a line.
template <class Row, class Take>
void for_each_row(const fs::path& folder, std::span<const std::string_view> only, const Take& take) {
    const fs::path path = folder / Row::file;
    if (!fs::exists(path)) return;
    const std::string text = read_regular_file(path);
    std::string_view rest = std::string_view(text).substr(0, csv::whole_rows(text));
    if (rest.empty()) return;
    const std::string_view header = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(header.size() + 1);
    RowParser<Row>(header, path, only).parse(rest, take);
}

/// Counts of problems that do not make a directory unreadable. Notes report them.
struct Oddities {
    std::size_t unfinished = 0, failed = 0, repeated = 0, renamed = 0, unpaired = 0, older = 0;
};

/// Reads the runs of one directory, in the order of their rows. A run gets its steps and the figures of its sites.
std::vector<RunLog> runs_in(const fs::path& folder, Oddities& odd) {
    std::vector<RunLog> runs;
    std::map<std::string, std::size_t, std::less<>> index;
    for_each_row<RunRow>(folder, {}, [&](RunRow row) {
        // A resumed run may have two rows. The later row replaces the earlier one.
        const auto [at, is_new] = index.emplace(row.run, runs.size());
        if (is_new) runs.emplace_back();
        runs[at->second].row = std::move(row);
    });
    bool is_older = false;
    for_each_row<StepRow>(folder, {}, [&](StepRow step) {
        if (!step.loss_rounded) read_as_schema_1(step), is_older = true;
        const auto [at, is_new] = index.emplace(step.run, runs.size());
        if (is_new)
            runs.push_back(
                {.row = {.run = step.run, .policy = step.policy, .seed = step.seed, .status = "unfinished"}});
        RunLog& run = runs[at->second];
        if (run.row.status == "unfinished") run.row.steps = step.step, run.row.tokens = step.tokens;
        run.steps.push_back(std::move(step));
    });
    std::vector<std::vector<SiteRow>> sites(runs.size());
    for_each_row<SiteRow>(folder, summary_site_columns, [&](SiteRow row) {
        const auto found = index.find(row.run);
        if (found != index.end()) sites[found->second].push_back(std::move(row));
    });
    for (std::size_t i = 0; i < runs.size(); ++i) {
        runs[i].site_figures = site_figures(sites[i]);
        runs[i].policy = runs[i].row.policy;
        odd.unfinished += runs[i].row.status == "unfinished" ? 1 : 0;
        odd.failed += runs[i].row.status.starts_with("failed") ? 1 : 0;
    }
    odd.older += is_older ? 1 : 0;
    return runs;
}

/// Returns a checksum of all steps and losses of a run, written as text. As text, all NaNs are equal.
std::uint64_t checksum_of_losses(const RunLog& run) {
    Checksum sum;
    std::string text;
    for (const StepRow& step : run.steps) {
        text.clear();
        csv::append_cell(text, step.step);
        text += ' ';
        csv::append_cell(text, step.loss);
        text += '\n';
        sum.update(text);
    }
    return sum.value();
}

/// A cache of the most recently used fp32 runs. They are the baselines of runs whose own directory has no fp32 run.
class Baselines {
  public:
    explicit Baselines(std::span<const fs::path> folders) : folders_(folders) {}

    const RunLog* of(std::size_t folder, std::int64_t seed) {
        for (auto at = kept_.begin(); at != kept_.end(); ++at) {
            if (at->folder != folder || at->run.row.seed != seed) continue;
            kept_.splice(kept_.begin(), kept_, at);
            return &kept_.front().run;
        }
        Oddities counted_in_its_own_folder;
        std::optional<RunLog> found;
        for (RunLog& run : runs_in(folders_[folder], counted_in_its_own_folder)) {
            if (run.row.policy == baseline_policy && run.row.seed == seed) found = std::move(run);
        }
        if (!found) return nullptr;
        kept_.push_front({folder, std::move(*found)});
        if (kept_.size() > max_kept) kept_.pop_back();
        return &kept_.front().run;
    }

  private:
    static constexpr std::size_t max_kept = 64;
    struct Kept {
        std::size_t folder;
        RunLog run;
    };
    std::span<const fs::path> folders_;
    std::list<Kept> kept_{};
};

/// Summary and gap curve of the runs of one policy (by its displayed name) in one setting.
struct FoldOfPolicy {
    FoldOfPolicy(const std::string& name, const SummaryOptions& options) : fold(name, options) {}
    PolicyFold fold;
    GapCurve curve{};
};

class FolderGatherer {
  public:
    FolderGatherer(std::span<const fs::path> folders, const SummaryOptions& options, SweepSummary& summary)
        : folders_(folders), options_(options), summary_(summary), baselines_(folders) {}

    void gather() {
        for (std::size_t i = 0; i < folders_.size(); ++i) {
            check_is_run(folders_[i]);
            manifests_.add(folders_[i]);
            for_each_row<RunRow>(folders_[i], columns_of_who, [&](const RunRow& row) {
                if (row.policy == baseline_policy)
                    first_baseline_.emplace(std::pair(manifests_.setting_of(i), row.seed), i);
            });
        }
        const SettingAxes axes = setting_axes(manifests_.settings());
        summary_.axes = axes.names;
        summary_.methods = manifests_.methods();
        std::vector<std::vector<std::size_t>> folders_of(manifests_.settings().size());
        for (std::size_t i = 0; i < folders_.size(); ++i) folders_of[manifests_.setting_of(i)].push_back(i);
        for (std::size_t setting = 0; setting < folders_of.size(); ++setting) {
            for (const std::size_t folder : folders_of[setting]) add(setting, folder);
            end_setting(axes.values[setting]);
        }
        add_notes(axes);
    }

  private:
    void add(std::size_t setting, std::size_t folder) {
        std::vector<RunLog> runs = runs_in(folders_[folder], odd_);
        // If a run differs from an earlier run of the same policy and seed, all runs of that policy in this folder are
        // renamed.
        std::map<std::string, bool> differs;
        std::vector<std::uint64_t> losses;
        for (RunLog& run : runs) {
            run.policy = manifests_.shown(folder, run.row.policy);
            losses.push_back(checksum_of_losses(run));
            const auto known = losses_.find({run.policy, run.row.seed});
            differs[run.policy] |= known != losses_.end() && known->second != losses.back();
        }
        std::map<std::string, std::string> names;
        for (const auto& [policy, is_another] : differs)
            names[policy] = is_another ? name_apart(policy, folder) : policy;
        for (std::size_t i = 0; i < runs.size(); ++i) {
            RunLog& run = runs[i];
            odd_.renamed += differs[run.policy] ? 1 : 0;
            run.policy = names[run.policy];
            if (!losses_.emplace(std::pair(run.policy, run.row.seed), losses[i]).second) {
                ++odd_.repeated;
                continue;
            }
            add(run, baseline_of(setting, runs, run), manifests_.facts_of(folder));
        }
    }

    std::string name_apart(const std::string& policy, std::size_t folder) const {
        std::string name = fmt::format("{}@{}", policy, last_name(folders_[folder]));
        return policies_.contains(name) ? fmt::format("{}@{}", policy, folders_[folder].string()) : name;
    }

    const RunLog* baseline_of(std::size_t setting, const std::vector<RunLog>& runs, const RunLog& run) {
        for (const RunLog& other : runs) {
            if (other.row.policy == baseline_policy && other.row.seed == run.row.seed) return &other;
        }
        const auto elsewhere = first_baseline_.find({setting, run.row.seed});
        return elsewhere == first_baseline_.end() ? nullptr : baselines_.of(elsewhere->second, run.row.seed);
    }

    void add(const RunLog& run, const RunLog* baseline, const ManifestFacts& facts) {
        const auto [at, is_new] = policies_.try_emplace(run.policy, run.policy, options_);
        if (is_new) order_.push_back(run.policy);
        at->second.fold.add(run, baseline, facts);
        summary_.methods.add_run(run.policy, run.row);
        if (baseline != nullptr && baseline != &run) at->second.curve.add(run.steps, baseline->steps, run.row.steps);
        summary_.seconds += run.row.seconds;
        ++summary_.runs;
    }

    void end_setting(const std::vector<std::string>& values) {
        if (order_.empty()) return;
        std::stable_partition(order_.begin(), order_.end(),
                              [](const std::string& name) { return name == baseline_policy; });
        for (const std::string& name : order_) {
            FoldOfPolicy& one = policies_.at(name);
            SweepRow row{
                .values = values, .setting = summary_.settings, .policy = one.fold.summary(), .curve = one.curve};
            const auto seeds = static_cast<std::size_t>(row.policy.row.seeds);
            if (row.policy.row.verdict != verdicts::baseline) odd_.unpaired += seeds - row.policy.seed_gaps.size();
            summary_.rows.push_back(std::move(row));
        }
        ++summary_.settings;
        policies_.clear(), order_.clear(), losses_.clear();
    }

    void add_notes(const SettingAxes& axes) {
        const auto note = [this](std::size_t count, std::string_view one, std::string_view many) {
            if (count > 0) summary_.notes.push_back(fmt::format("{} {}", count, count == 1 ? one : many));
        };
        summary_.notes.insert(summary_.notes.end(), axes.notes.begin(), axes.notes.end());
        note(manifests_.without_manifest(), "directory has no manifest.json, so its settings are unknown",
             "directories have no manifest.json, so their settings are unknown");
        if (manifests_.programs() > 1)
            summary_.notes.push_back(
                fmt::format("the runs were made by {} versions of the program", manifests_.programs()));
        note(odd_.older, "directory has schema 1, in which `loss` is the policy's own loss, rounded as the policy says",
             "directories have schema 1, in which `loss` is the policy's own loss, rounded as the policy says");
        note(odd_.unfinished, "run is not finished", "runs are not finished");
        note(odd_.failed, "run failed", "runs failed");
        note(odd_.repeated, "run has the same losses as a run of an earlier directory and is shown only once",
             "runs have the same losses as runs of an earlier directory and are shown only once");
        note(odd_.renamed,
             "run differs from another one of the same policy, seed and setting and is shown as policy@directory",
             "runs differ from others of the same policy, seed and setting and are shown as policy@directory");
        note(odd_.unpaired, "run has no fp32 run of the same seed and setting to compare with",
             "runs have no fp32 run of the same seed and setting to compare with");
    }

    std::span<const fs::path> folders_;
    const SummaryOptions& options_;
    SweepSummary& summary_;
    Baselines baselines_;
    FolderManifests manifests_{};
    std::map<std::pair<std::size_t, std::int64_t>, std::size_t> first_baseline_{};  // folder index by setting and seed
    std::map<std::pair<std::string, std::int64_t>, std::uint64_t> losses_{};        // checksum by policy and seed
    std::map<std::string, FoldOfPolicy> policies_{};
    std::vector<std::string> order_{};
    Oddities odd_{};
};

}  // namespace

SweepSummary gather_folders(std::span<const fs::path> folders, const SummaryOptions& options) {
    const DefaultFloatModes modes;
    SweepSummary summary{.name = fmt::format("{} and {} more", last_name(folders.front()), folders.size() - 1),
                         .parts = {"run directory", "run directories"},
                         .units = folders.size(),
                         .margin = options.margin};
    FolderGatherer(folders, options, summary).gather();
    if (summary.rows.empty()) {
        throw Error({.what = "none of these directories has a run with a finished step",
                     .where = folders.front().string(),
                     .fix = "wait until a run has finished its first step"});
    }
    return summary;
}

}  // namespace macheps::reports
