// SPDX-License-Identifier: Apache-2.0
// macheps report: run directories to a table on stdout, summary.csv and one self-contained HTML page.
#include "experiments/cmd/command.hpp"
#include "reports/csv.hpp"
#include "reports/html.hpp"
#include "reports/summary_table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace macheps {

namespace {

constexpr const char* help =
    "Tables, summary.csv and one self-contained HTML page from run directories.\n\n"
    "Examples:\n"
    "  macheps report runs/001                         table on stdout; summary.csv and report.html into runs/001\n"
    "  macheps report runs/001 runs/002 -o both.html   several directories, joined\n"
    "  macheps report runs/001 --json                  the summary as JSON\n\n"
    "Compares every policy with the fp32 run of its seed. The page needs no network.\n"
    "Exit codes: 3, a folder or file is missing or damaged; 5, the results could not be written.";

struct ReportOptions {
    std::vector<std::filesystem::path> folders;
    std::filesystem::path out;
    bool json = false, csv = false;
};

Exit report(const ReportOptions& options) {
    const Log log = read_runs(options.folders);
    const Summary summary = summarise(log);
    const std::filesystem::path page = options.out.empty() ? options.folders.front() / "report.html" : options.out;
    const std::filesystem::path rows = page.parent_path() / SummaryRow::file;
    write_summary(summary, rows);
    write_page(log, summary, page);
    const std::string text = options.json  ? summary_json(summary)
                             : options.csv ? summary_csv(summary)
                                           : summary_table(summary, colour_for(STDOUT_FILENO));
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        throw Error({.what = "cannot write the table", .where = "stdout", .exit = Exit::cannot_write});
    }
    for (const std::string& note : summary.notes) fmt::print(stderr, "note: {}\n", note);
    fmt::print(stderr, "wrote {} and {}\n", rows.string(), page.string());
    return Exit::ok;
}

}  // namespace

void add_report(CLI::App& app, Verb& chosen) {
    auto options = std::make_shared<ReportOptions>();
    CLI::App* verb = app.add_subcommand("report", help);
    verb->add_option("DIR", options->folders, "Run directories that `macheps train` wrote")->required();
    verb->add_option("-o,--out", options->out,
                     "The page; summary.csv goes beside it; report.html in the first DIR when left out");
    CLI::Option* json = verb->add_flag("--json", options->json, "Print the summary as JSON");
    verb->add_flag("--csv", options->csv, "Print the summary as CSV")->excludes(json);
    verb->callback([options, &chosen] { chosen = [options] { return report(*options); }; });
}

}  // namespace macheps
