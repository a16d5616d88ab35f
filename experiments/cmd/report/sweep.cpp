// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/sweep.hpp"

#include "core/host/publish.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/training/sweep/results/gather.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/many_folders.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/pages/sweep_page.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

namespace macheps::cmd::report {

using namespace reports;

using namespace training;

namespace {

/// Returns a number, or its name if it is not finite.
Json json_number(double x) { return std::isfinite(x) ? Json(x) : Json(two_digits(x)); }

Json best_json(const SweepSummary& summary, const BestValues& best) {
    Json list = Json::array();
    for (const BestValue& row : best.rows) {
        Json axes = Json::object();
        for (std::size_t i = 0, other = 0; i < summary.axes.size(); ++i) {
            if (i != *best.axis) axes[summary.axes[i]] = row.others[other++];
        }
        Json object = {{"axis", summary.axes[*best.axis]},
                       {"policy", row.policy},
                       {"axes", axes},
                       {"value", row.value.empty() ? Json(nullptr) : Json(row.value)},
                       {"place", row.value.empty() ? Json(nullptr) : Json(place_words(row.place))},
                       {"loss", json_number(row.loss)},
                       {"fp32_value", row.fp32_value.empty() ? Json(nullptr) : Json(row.fp32_value)},
                       {"fp32_loss", json_number(row.fp32_loss)},
                       {"gap", nullptr},
                       {"gap_ci_low", nullptr},
                       {"gap_ci_high", nullptr}};
        const PairedMean gap = paired_mean(row.seed_gaps);
        if (!row.seed_gaps.empty()) object["gap"] = json_number(gap.mean);
        if (gap.half_width_95) {
            object["gap_ci_low"] = json_number(gap.mean - *gap.half_width_95);
            object["gap_ci_high"] = json_number(gap.mean + *gap.half_width_95);
        }
        list.push_back(std::move(object));
    }
    return list;
}

/// Adds the fields that both kinds of study have in common.
void append_study_json(Json& json, const SweepSummary& summary) {
    Json list = Json::array();
    for (const SweepRow& row : summary.rows) {
        Summary one;
        one.policies = {row.policy};
        Json object = Json::parse(summary_json(one)).at("policies").front();
        Json axes = Json::object();
        for (std::size_t i = 0; i < row.values.size(); ++i) axes[summary.axes[i]] = row.values[i];
        object["axes"] = std::move(axes);
        list.push_back(std::move(object));
    }
    json["settings"] = summary.settings;
    json["runs"] = summary.runs;
    json["rows"] = std::move(list);
    const BestValues best = best_values(summary);
    json["best"] = best_json(summary, best);
    json["notes"] = summary.notes;
    json["warnings"] = sweep_warnings(summary, best);
}

SweepSummary study_of(const StudyReport& report, Json& json) {
    if (!is_sweep(report.folders)) {
        SweepSummary summary = gather_folders(report.folders, report.options);
        json["directories"] = summary.units;
        return summary;
    }
    const std::filesystem::path& folder = report.folders.front();
    const Sweep sweep = read_sweep(folder);
    const FinishedUnits units(sweep, folder);
    SweepSummary summary = gather_sweep(sweep, units, folder, report.options);
    json["sweep"] = summary.name;
    json["units"] = summary.units;
    json["missing"] = summary.missing;
    return summary;
}

/// Diagnoses the finished runs of a sweep, one setting at a time. The name of a policy is followed by the setting.
Verdicts diagnose_sweep(const std::filesystem::path& folder) {
    const Sweep sweep = read_sweep(folder);
    const FinishedUnits units(sweep, folder);
    std::map<std::size_t, std::vector<std::filesystem::path>> runs;  // by setting
    for (const auto& [index, done] : units.done())
        runs[sweep.units[index].setting].push_back(unit_folder(folder, sweep.units[index].id));
    Verdicts all;
    for (const auto& [setting, folders] : runs) {
        Verdicts one = diagnose(read_runs(folders, Keep::summary));
        const std::string words = setting_words(sweep.settings[setting]);
        const auto named = [&](const std::string& policy) {
            return words.empty() ? policy : fmt::format("{} ({})", policy, words);
        };
        for (const std::string& policy : one.policies) all.policies.push_back(named(policy));
        for (Diagnosed& finding : one.findings) {
            finding.policy = named(finding.policy);
            all.findings.push_back(std::move(finding));
        }
        for (Unseen& unseen : one.unseen) {
            unseen.policy = named(unseen.policy);
            all.unseen.push_back(std::move(unseen));
        }
    }
    return all;
}

}  // namespace

bool is_sweep(const std::vector<std::filesystem::path>& folders) {
    std::error_code error;
    return folders.size() == 1 && std::filesystem::exists(folders.front() / sweep_file, error);
}

bool is_study(const std::vector<std::filesystem::path>& folders) {
    return folders.size() > max_joined_folders || is_sweep(folders);
}

Exit report_study(const StudyReport& report) {
    Json json = Json::object();
    const SweepSummary summary = study_of(report, json);
    const std::string csv = sweep_summary_csv(summary);
    const std::filesystem::path rows = report.page.parent_path() / SummaryRow::file;
    const bool has_rows = !is_written_in_place(report.page);
    const PaperContents paper = paper_of(summary);
    write_texts(report.paper, paper);
    if (has_rows) check_is_replaceable(rows), publish(rows, csv);
    publish(report.page, sweep_page_html(summary));
    if (report.json) {
        append_study_json(json, summary);
        if (report.diagnose) json["diagnosis"] = diagnosis_json(diagnose_sweep(report.folders.front()));
        print_json(json);
    } else {
        print_text(report.csv ? csv : sweep_summary_text(summary));
        if (report.diagnose) print_text("\n" + diagnosis_text(diagnose_sweep(report.folders.front())));
    }
    for (const std::string& note : summary.notes) eprint("note: {}\n", note);
    eprint("wrote {}{}\n", has_rows ? rows.string() + " and " : "", report.page.string());
    if (!report.charts.empty()) {
        for (const auto& file : write_figures(chart_request(report.charts, report.paper), paper))
            eprint("wrote {}\n", file.string());
    }
    return Exit::ok;
}

}  // namespace macheps::cmd::report
