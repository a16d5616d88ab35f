// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report_sweep.hpp"

#include "core/publish.hpp"
#include "experiments/cmd/json.hpp"
#include "experiments/cmd/tell.hpp"
#include "experiments/sweep/gather.hpp"
#include "experiments/sweep/layout.hpp"
#include "reports/summary_table.hpp"
#include "reports/sweep_page.hpp"

#include <fmt/format.h>

namespace macheps {

bool is_sweep(const std::filesystem::path& folder) {
    std::error_code error;
    return std::filesystem::exists(folder / sweep_file, error);
}

Exit report_sweep(const SweepReport& report) {
    const Sweep sweep = read_sweep(report.folder);
    const FinishedUnits units(sweep, report.folder);
    const SweepSummary summary = gather_sweep(sweep, units, report.folder, report.options);
    const std::string csv = sweep_summary_csv(summary);
    const std::filesystem::path rows = report.page.parent_path() / SummaryRow::file;
    const bool has_rows = !is_written_in_place(report.page);
    if (has_rows) publish(rows, csv);
    publish(report.page, sweep_page_html(summary));
    if (report.json) {
        Json list = Json::array();
        for (const SweepRow& row : summary.rows) {
            Summary one;
            one.policies = {row.policy};
            Json json = Json::parse(summary_json(one)).at("policies").front();
            Json axes = Json::object();
            for (std::size_t i = 0; i < row.values.size(); ++i) axes[summary.axes[i]] = row.values[i];
            json["axes"] = std::move(axes);
            list.push_back(std::move(json));
        }
        print_json({{"sweep", summary.name},
                    {"units", summary.units},
                    {"missing", summary.missing},
                    {"settings", summary.settings},
                    {"runs", summary.runs},
                    {"rows", list},
                    {"notes", summary.notes}});
    } else {
        fmt::print("{}", report.csv ? csv : sweep_summary_text(summary));
    }
    for (const std::string& note : summary.notes) tell("note: {}\n", note);
    tell("wrote {}{}\n", has_rows ? rows.string() + " and " : "", report.page.string());
    return Exit::ok;
}

}  // namespace macheps
