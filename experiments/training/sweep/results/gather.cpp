// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/results/gather.hpp"

#include "core/host/float_environment.hpp"
#include "core/text/json.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/findings/policy_fold.hpp"
#include "reports/logs/manifest_facts.hpp"
#include "reports/logs/manifest_text.hpp"
#include "reports/rows/row_parser.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

namespace macheps::training {

namespace {

const std::vector<std::string_view> gathered_files{reports::RunRow::file, reports::StepRow::file,
                                                   reports::SiteRow::file};

/// Summary and curve of the loss gap of one policy in one setting.
struct PolicyOfSetting {
    explicit PolicyOfSetting(const std::string& name, const reports::SummaryOptions& options) : fold(name, options) {}
    reports::PolicyFold fold;
    reports::GapCurve curve;
};

class Gatherer {
  public:
    Gatherer(const Sweep& sweep, const std::filesystem::path& out, const reports::SummaryOptions& options,
             reports::SweepSummary& summary)
        : sweep_(sweep), out_(out), options_(options), summary_(summary) {}

    void add(const CellRowsText& cell) {
        if (setting_ && *setting_ != cell.cell.setting) end_setting();
        setting_ = cell.cell.setting;
        if (cell.runs.empty()) return;
        std::optional<reports::RunLog> baseline;
        for (const RunRowsText& text : cell.runs) {
            reports::RunLog run = read(cell, text);
            const bool is_baseline = run.row.policy == reports::baseline_policy;
            if (is_baseline) baseline = std::move(run);
            reports::RunLog& here = is_baseline ? *baseline : run;
            PolicyOfSetting& policy = policies_.try_emplace(text.policy, here.row.policy, options_).first->second;
            if (std::find(order_.begin(), order_.end(), text.policy) == order_.end()) order_.push_back(text.policy);
            policy.fold.add(here, baseline ? &*baseline : nullptr, facts_of(text, here.row.policy));
            summary_.methods.add_run(here.row.policy, here.row);
            if (baseline && !is_baseline) policy.curve.add(here.steps, baseline->steps, here.row.steps);
            summary_.seconds += here.row.seconds;
            ++summary_.runs;
        }
    }
    void end_setting() {
        if (!policies_.empty()) ++summary_.settings;
        for (const std::size_t policy : order_) {
            PolicyOfSetting& one = policies_.at(policy);
            reports::SweepRow row{
                .values = {}, .setting = summary_.settings - 1, .policy = one.fold.summary(), .curve = one.curve};
            for (const auto& [name, value] : sweep_.settings[*setting_].axes) row.values.push_back(value);
            summary_.rows.push_back(std::move(row));
        }
        policies_.clear();
        order_.clear();
        facts_.clear();
    }

  private:
    /// Returns the facts about the policy of a run in this setting. They are read from the first unit that has the
    /// policy.
    const reports::ManifestFacts& facts_of(const RunRowsText& text, const std::string& policy) {
        const auto [facts, is_new] = facts_.try_emplace(text.policy);
        if (is_new) {
            const std::filesystem::path folder = unit_folder(out_, sweep_.units[text.unit].id);
            const Json manifest = Json::parse_or_null(reports::read_manifest_text(folder / "manifest.json"));
            facts->second = reports::manifest_facts(manifest);
            summary_.methods.add(manifest);
            summary_.methods.add_policy(policy, policy, manifest);
        }
        return facts->second;
    }
    reports::RunLog read(const CellRowsText& cell, const RunRowsText& text) const {
        reports::RunLog run;
        const std::filesystem::path folder = unit_folder(out_, sweep_.units[text.unit].id);
        reports::RowParser<reports::RunRow>(cell.headers[0], folder / reports::RunRow::file)
            .parse(text.rows[0], [&](reports::RunRow row) { run.row = std::move(row); });
        reports::RowParser<reports::StepRow>(cell.headers[1], folder / reports::StepRow::file)
            .parse(text.rows[1], [&](reports::StepRow row) { run.steps.push_back(std::move(row)); });
        if (!cell.headers[2].empty()) {
            std::vector<reports::SiteRow> sites;
            reports::RowParser<reports::SiteRow>(cell.headers[2], folder / reports::SiteRow::file,
                                                 reports::summary_site_columns)
                .parse(text.rows[2], [&](reports::SiteRow row) { sites.push_back(std::move(row)); });
            run.site_figures = reports::site_figures(sites);
        }
        run.policy = run.row.policy;
        return run;
    }

    const Sweep& sweep_;
    const std::filesystem::path& out_;
    const reports::SummaryOptions& options_;
    reports::SweepSummary& summary_;
    std::optional<std::size_t> setting_;
    std::map<std::size_t, reports::ManifestFacts> facts_;  ///< by the index of a policy
    std::map<std::size_t, PolicyOfSetting> policies_;
    std::vector<std::size_t> order_;
};

}  // namespace

reports::SweepSummary gather_sweep(const Sweep& sweep, const FinishedUnits& units, const std::filesystem::path& out,
                                   const reports::SummaryOptions& options) {
    const DefaultFloatModes modes;
    reports::SweepSummary summary{.name = sweep.name,
                                  .axes = sweep.axes,
                                  .units = units.done().size(),
                                  .missing = units.missing().size(),
                                  .margin = options.margin};
    if (units.done().empty()) {
        throw Error({.what = "no unit of this sweep is finished yet",
                     .where = out.string(),
                     .fix = "run `macheps sweep status` to see its progress"});
    }
    if (summary.missing > 0)
        summary.notes.push_back(fmt::format("{} of {} units are missing: seeds, policies or settings may lack runs",
                                            summary.missing, summary.missing + summary.units));
    for (const Failure& conflict : units.conflicts()) summary.notes.push_back(conflict.what);
    if (units.programs().size() > 1)
        summary.notes.push_back(fmt::format("the units come from {} versions of the program", units.programs().size()));
    Gatherer gatherer(sweep, out, options, summary);
    units.for_each_cell(gathered_files, FinishedUnits::Trust::is_checked,
                        [&](const CellRowsText& cell) { gatherer.add(cell); });
    gatherer.end_setting();
    return summary;
}

}  // namespace macheps::training
