// SPDX-License-Identifier: Apache-2.0
// macheps report: turns run directories into a table on stdout, summary.csv and one self-contained HTML page. It also
// reads the logs of other programs (training_logs.hpp).
#include "core/host/publish.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/policy/import.hpp"
#include "experiments/cmd/report/citation.hpp"
#include "experiments/cmd/report/paper.hpp"
#include "experiments/cmd/report/picture.hpp"
#include "experiments/cmd/report/sweep.hpp"
#include "experiments/cmd/report/training_logs.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/many_folders.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/vendor_peaks.hpp"
#include "reports/pages/drawn.hpp"
#include "reports/pages/html.hpp"
#include "reports/pages/studies/analysis_tables.hpp"
#include "reports/pages/studies/gemm_table.hpp"
#include "reports/rows/columns.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/rows_json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd::report {

using namespace reports;

namespace {

constexpr const char* help = R"(Compares runs: prints a table, and writes summary.csv and one self-contained HTML page.

Examples:
  macheps report runs/001                         a table; summary.csv and report.html in runs/001
  macheps report runs/001 runs/002 -o both.html   several directories, joined
  macheps report runs/001 --diagnose              known problems, and what to change
  macheps report gemm.csv                         matrix products: the rows of `macheps gemm`
  macheps report formats                          the folder of a sweep
  macheps report trainer_state.json               findings in the log of another program
  macheps report runs/001 --json                  the summary as JSON
  macheps report --columns                        the meaning of every column of every CSV file)";

constexpr const char* notes = R"(More examples:
  macheps report runs/001 --margin 0.1            a narrower margin of equivalence, in percent
  macheps report runs/001 --gpu b200              the peak speed of the policies' formats on another GPU
  macheps report runs/001 --png page.png          the page as a picture (needs Chromium or Chrome)
  macheps report runs/001 --charts figures        a picture of each chart: figures/loss.png, ...
  macheps report runs/001 --latex table.tex       the table for a paper, in LaTeX
  macheps report runs/001 --methods methods.tex   how the runs were made, as a paragraph for a paper
  macheps report runs/001 --charts figures --as svg --paper   figures for a paper, and their captions
  macheps report --bibtex                         a BibTeX entry for macheps
  macheps report solve.csv steps.csv              linear systems: verdicts over the condition, errors over steps
  macheps report sum.csv eval.csv points.csv      sums and formulas: errors over terms, bits of error over x
  macheps report runs/* -o study.html             also for more than 200 directories
  macheps report run.log --vocabulary 50257       more certain findings about the first loss
  macheps report wandb.csv --column loss=my_loss  a column whose name macheps does not know

Runs:
  Each policy is compared with the fp32 run of the same seed. If runs of the same policy and seed
  have different losses in two directories, the later policy is shown as policy@directory. The
  page needs no network.

Sweeps:
  The report on a sweep shows settings x policies, the best learning rate of each policy with its
  gap to fp32 at the best learning rate of fp32, and warnings. A report on more than 200 directories
  has the same form. Its axes are the settings that differ. The options for papers also write a
  sweep: --latex, --methods and --charts with --paper.

Pictures:
  Without a browser on PATH (or in MACHEPS_BROWSER), use the button next to each chart of the page
  to save it as PNG.

Papers:
  The table of --latex needs the LaTeX packages booktabs, graphicx, siunitx and textcomp. It has the
  digits of the table on stdout, whose notes are below it. With --paper, the figures have no title,
  a white background and text as text. They are drawn without a browser. rsvg-convert (Debian and
  Ubuntu: librsvg2-bin) makes PDF and PNG files. captions.tex contains a `figure` environment for
  each. A file name such as gap.pdf instead of a folder draws one figure for a paper.

Diagnosis:
  The option --diagnose reports the known problems that the rows show (overflow cascade, lost
  updates, ...), and the diagnoses that could not be checked. The page contains the same report.
  For a sweep, each policy is diagnosed in each setting, and the page has no findings. The exit code
  is 0 whatever is found.

CSV files:
  Files of gemm, sum, solve, eval, solve --steps and eval --points-out are recognised by their
  first columns, and in a folder also by their usual names. Each kind adds a section: error growth
  with both bounds, the map of verdicts, bits of error over x.

Logs of other programs:
  Transformers (trainer_state.json, console), ms-swift, Axolotl, DeepSpeed, Megatron-LM, GPT-NeoX,
  nanoGPT, llm.c, torchtitan, torchtune, LitGPT, Lightning (metrics.csv), and CSV files of wandb and
  TensorBoard. The kind is recognised from the content. Each finding is `certain`, `likely` or
  `possible`. Diagnoses that need other columns are listed as not looked for. The option --csv
  prints the columns of the logs.

JSON:
  {"schema", "policies": [one object per row of summary.csv, with "sentence" and "range"],
  "notes": [...], "warnings": [...]}; null: not measured
  With CSV files also "gemm", "sum", "solve", "solve_steps", "eval", "eval_points": [one object
  per row].
  With --diagnose also "diagnosis": {"looked_for", "findings": [{"id", "policy", "seed", "seeds",
  "of_seeds", "step", "site", "figures", "sentence", "remedy"}], "not_looked_for": [{"id",
  "policy", "why"}]}.
  For a sweep: {"sweep", "units", "missing", "settings", "runs", "rows": [objects like those of
  policies, with "axes"], "best": [{"axis", "policy", "axes", "value", "place", "loss", "fp32_value",
  "fp32_loss", "gap", "gap_ci_low", "gap_ci_high"}], "notes", "warnings"}. For more than 200
  directories, "directories" replaces "sweep", "units" and "missing".
  For logs of other programs: {"schema", "logs": [{"file", "kind", "counts", "rows", "first_step",
  "last_step", "other_lines", "columns", "notes", "findings": [{"id", "certainty", "step",
  "sentence", "remedy", "remarks"}], "not_looked_for": [{"id", "why"}],
  "steps": [one object per row]}]}.

Exit codes:
  3  a folder or file is missing or damaged
  5  the results could not be written)";

struct ReportOptions {
    std::vector<std::filesystem::path> folders;
    std::filesystem::path out, png, charts;
    bool json = false, csv = false, dark = false, diagnose = false, columns = false, small = false, top = false;
    bool bibtex = false;
    PaperOptions paper{};
    double margin = 100 * DivergenceRules::equivalence_margin;  ///< in percent
    TrainingLogOptions log{};
    std::vector<std::string> log_columns{}, log_config{};
    policies::ImportChoice import{};
};

/// Returns the path of the page: --out, else report.html in the first folder, or the path of the first file with the
/// ending .html.
std::filesystem::path page_of(const ReportOptions& options) {
    if (!options.out.empty()) return options.out;
    const std::filesystem::path& first = options.folders.front();
    const std::filesystem::path page = std::filesystem::is_directory(first)
                                           ? first / "report.html"
                                           : std::filesystem::path(first).replace_extension(".html");
    check_is_replaceable(page);
    return page;
}

/// Adds a list for each kind of row that the log contains. Its key is the name of the file with these rows, up to the
/// first dot.
void put_measured_rows(Json& all, const Log& log) {
    const auto put = [&]<class Row>(const Log::Kind<Row>& kind) {
        const std::vector<Row>& rows = log.*kind.rows;
        const std::string_view file = Row::file;
        if (!rows.empty()) all[std::string(file.substr(0, file.find('.')))] = rows_of_json(std::span<const Row>(rows));
    };
    std::apply([&](const auto&... kind) { (put(kind), ...); }, Log::kinds);
}

/// Returns the text for stdout: the tables of runs, of matrix products and of other measurements.
std::string text_of(const Log& log, const Summary& summary, const ReportOptions& options) {
    const bool has_runs = !log.folders.empty();
    if (options.json) {
        if (log.row_files.empty() && !options.diagnose) return summary_json(summary);
        Json all = Json::parse(summary_json(summary));
        put_measured_rows(all, log);
        if (options.diagnose) all["diagnosis"] = diagnosis_json(diagnose(log));
        return json_text(all);
    }
    if (options.csv) return summary_csv(summary);
    std::string text = has_runs ? summary_table(summary, colour_for(STDOUT_FILENO)) : "";
    if (has_runs && options.diagnose) text += "\n" + diagnosis_text(diagnose(log));
    const std::string tables[] = {gemm_table(log.gemm),
                                  table_of(std::span<const SumRow>(log.sums)).text(),
                                  table_of(std::span<const SolveRow>(log.systems)).text(),
                                  table_of(std::span<const SolveStepRow>(log.system_steps)).text(),
                                  table_of(std::span<const FormulaRow>(log.formulas)).text(),
                                  table_of(std::span<const FormulaPointRow>(log.formula_points)).text()};
    for (const std::string& table : tables) text += (text.empty() || table.empty() ? "" : "\n") + table;
    return text;
}

/// Throws Error (usage) for options that do not fit a study. Its page has no scripts, heat maps or runs, so there is
/// nothing to draw. The runs of a sweep are diagnosed, but not more than max_joined_folders other runs. Figures for a
/// paper are not drawn from the page.
void check_fits_a_study(const ReportOptions& options) {
    if (!options.charts.empty() && !chart_request(options.charts, options.paper).is_paper) {
        throw usage_error("the charts of the page of a sweep cannot be drawn as files", "--charts",
                          "add --paper, which draws the figures of the sweep for a paper");
    }
    const std::pair<bool, const char*> others[] = {{!options.png.empty(), "--png"},
                                                   {options.small, "--small"},
                                                   {options.diagnose && !is_sweep(options.folders), "--diagnose"}};
    for (const auto& [is_given, name] : others) {
        if (!is_given) continue;
        throw Error({.what = fmt::format("this option is not available for {}",
                                         is_sweep(options.folders)
                                             ? std::string("a sweep")
                                             : fmt::format("more than {} directories", max_joined_folders)),
                     .where = name,
                     .fix = fmt::format("remove it, or pass at most {} run directories; a finished unit of a sweep "
                                        "also counts as a run directory",
                                        max_joined_folders),
                     .exit = Exit::usage});
    }
}

/// Draws the pictures of the page that the options ask for. Needs a browser.
void draw_page(const ReportOptions& options, const std::filesystem::path& page, bool with_charts) {
    if (options.png.empty() && !with_charts) return;
    const Browser browser(options.png.empty() ? "--charts" : "--png");
    if (!options.png.empty()) {
        browser.picture_of_page(page, options.png, options.top ? PageExtent::top : PageExtent::whole, options.dark);
        eprint("wrote {}\n", options.png.string());
    }
    if (with_charts) {
        for (const auto& file : browser.pictures_of_charts(page, options.charts, options.dark))
            eprint("wrote {}\n", file.string());
    }
}

/// Draws the pictures of the page and the figures for a paper that the options ask for.
void draw_pictures(const ReportOptions& options, const std::filesystem::path& page, const Log& log,
                   const Summary& summary) {
    const bool has_charts = !options.charts.empty();
    const ChartRequest request = has_charts ? chart_request(options.charts, options.paper) : ChartRequest{};
    if (request.is_paper) {
        for (const auto& file : write_figures(request, paper_of(log, summary))) eprint("wrote {}\n", file.string());
    }
    draw_page(options, page, has_charts && !request.is_paper);
}

/// Throws Error (usage) for options that only a report of logs of other programs has.
void check_has_no_log_options(const ReportOptions& options, const Command& verb) {
    const std::set<std::string_view> of_logs{"--vocabulary", "--gas", "--column", "--config"};
    for (const std::string& name : verb.given()) {
        const auto& of_configs = options.import.names;
        if (name == "--gpu") continue;  // also selects the peak speeds of runs
        if (!of_logs.contains(name) && std::find(of_configs.begin(), of_configs.end(), name) == of_configs.end())
            continue;
        throw usage_error("this option is only for logs of other programs", name,
                          "remove it, or pass a log that another program wrote");
    }
}

/// Throws Error (usage) for options without an effect on a report of logs of other programs. Without a config, only the
/// versions of packages have an effect: they select the faults of releases that the report names.
void check_fits_logs(const ReportOptions& options, const Command& verb) {
    const std::set<std::string_view> of_runs{"--margin", "--small", "--top", "--latex", "--methods", "--paper"};
    const auto refuse = [](const std::string& name) {
        throw usage_error("this option is not for logs of other programs", name,
                          "remove it, or pass run directories that `macheps train` wrote");
    };
    for (const std::string& name : verb.given()) {
        if (of_runs.contains(name)) refuse(name);
    }
    const bool has_charts = !options.charts.empty();
    if (has_charts && chart_request(options.charts, options.paper).is_paper) refuse("--charts");  // --charts gap.pdf
    if (!options.log_config.empty()) return;
    std::vector<std::string> of_configs = options.import.given(verb);
    std::erase_if(of_configs,
                  [](const std::string& name) { return name == "--framework-version" || name == "--requirements"; });
    policies::refuse_without_config(of_configs);
}

/// Throws Error (usage) if a version has no name. Without a config, the package is then unknown.
void check_versions_have_names(const LogReport& logs) {
    if (!logs.config.empty() || !logs.config_options.versions.contains("")) return;
    throw usage_error(
        fmt::format("{} is a version without the name of a package", to_string(logs.config_options.versions.at(""))),
        "--framework-version", "pass a name and a version, such as deepspeed=0.16.5, or pass a config with --config");
}

/// Returns the GPU whose peak speeds the report uses, or an empty text for the GPUs that the policies' machines name.
std::string peak_gpu(const ReportOptions& options, const Command& verb) {
    const std::vector<std::string> given = verb.given();
    if (std::find(given.begin(), given.end(), "--gpu") == given.end()) return {};
    if (find_vendor_gpu(options.import.device) != nullptr) return options.import.device;
    throw usage_error(fmt::format("the peak speeds of '{}' are not known", options.import.device), "--gpu",
                      fmt::format("use one of {}", fmt::join(names_of(vendor_gpus()), ", ")));
}

Exit report(const ReportOptions& options, const Command& verb) {
    if (options.columns) {
        print_now(columns_markdown());
        return Exit::ok;
    }
    if (options.bibtex) {
        print_now(bibtex());
        return Exit::ok;
    }
    if (!options.charts.empty()) chart_request(options.charts, options.paper);  // reports wrong options first
    if (options.folders.empty()) {
        throw Error(
            {.what = "DIR is required",
             .where = "macheps report",
             .fix =
                 "pass a folder that `macheps train` wrote, a CSV file of `macheps gemm`, sum, solve or eval, or a log "
                 "of another program",
             .exit = Exit::usage});
    }
    if (!(options.margin > 0) || options.margin > 100) {
        throw Error({.what = fmt::format("{} % is not a valid margin", options.margin),
                     .where = "--margin",
                     .fix = "pass a percentage of the fp32 loss above 0 and at most 100, such as 0.25",
                     .exit = Exit::usage});
    }
    if (are_training_logs(options.folders)) {
        check_fits_logs(options, verb);
        LogReport logs{.files = options.folders,
                       .page = page_of(options),
                       .options = options.log,
                       .config = options.log_config,
                       .config_options = options.import.options(verb),
                       .json = options.json,
                       .csv = options.csv};
        check_versions_have_names(logs);
        add_columns(options.log_columns, logs.options);
        report_training_logs(logs);
        draw_page(options, logs.page, !options.charts.empty());
        return Exit::ok;
    }
    check_has_no_log_options(options, verb);
    const std::string gpu = peak_gpu(options, verb);
    if (is_study(options.folders)) {
        check_fits_a_study(options);
        return report_study({.folders = options.folders,
                             .page = page_of(options),
                             .options = {.margin = options.margin / 100, .gpu = gpu},
                             .paper = options.paper,
                             .charts = options.charts,
                             .json = options.json,
                             .csv = options.csv,
                             .diagnose = options.diagnose});
    }
    Log log = read_runs(options.folders, Keep::summary);
    Summary summary = summarise(log, {.margin = options.margin / 100, .gpu = gpu});
    std::vector<std::string> drawn;
    for (const PolicySummary& policy : drawn_of(summary).policies) drawn.push_back(policy.row.policy);
    for (std::string& note : read_samples(log, drawn)) summary.notes.push_back(std::move(note));
    write_texts(options.paper, paper_of(log, summary));
    const std::filesystem::path page = page_of(options);
    const std::filesystem::path rows = page.parent_path() / SummaryRow::file;
    // summary.csv belongs in the folder of the page. It is not written if the page is a device file or a pipe, because
    // the folder (such as /dev) is then no place for other files.
    const bool has_rows = !log.folders.empty() && !is_written_in_place(page);
    if (has_rows) write_summary(summary, rows);
    write_page(log, summary, page, options.small ? PageSize::small : PageSize::full);
    print_coloured(text_of(log, summary, options));
    for (const std::string& note : summary.notes) eprint("note: {}\n", note);
    eprint("wrote {}{}\n", has_rows ? rows.string() + " and " : "", page.string());
    draw_pictures(options, page, log, summary);
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<ReportOptions>();
    verb.group("What to report");
    verb.option("DIR", a->folders,
                "Run directories that `macheps train` wrote, the folder of a sweep, CSV files "
                "that `macheps gemm`, sum, solve or eval wrote, or logs of other training programs")
        .takes(value_kind::folder);
    verb.option("--margin", a->margin, "Margin of equivalence, in percent of the fp32 loss").shows_default();
    a->import.add_gpu_option(verb,
                             "GPU whose peak speeds the column `peak` uses; if left out, for each policy the GPU that "
                             "its machines name. For a log of another program: device that its config runs on");
    const Option diagnose = verb.flag("--diagnose", a->diagnose,
                                      "Report known problems: where they are, their figures, and what to change");
    verb.flag("--columns", a->columns,
              "Print the meaning of every column of every CSV file, in Markdown. Reads nothing");
    verb.group("Logs of other programs");
    verb.integer("--vocabulary", a->log.vocabulary, {2, std::int64_t{1} << 40},
                 "Number of tokens in the vocabulary. The first loss of a language model is about its logarithm. "
                 "Default: not known");
    verb.integer("--gas", a->log.gas, {1, std::int64_t{1} << 20},
                 "Number of micro-batches in a step. Default: not known");
    verb.option(
            "--column", a->log_columns,
            "The name of a quantity in the log, such as loss=train/loss. For CSV files, JSON lines and dictionaries. "
            "Default: the names that programs usually give it")
        .takes("QUANTITY=NAME")
        .repeats();
    verb.option("--config", a->log_config,
                "Files and key=value overrides of the config of the run. A finding then names the causes that the "
                "config has. Default: none")
        .takes(value_kind::file)
        .list();
    a->import.add_options_of_config(verb);
    verb.group("Output");
    verb.option("-o,--out", a->out,
                "Write the page to this file, and summary.csv next to it (except next to a device or a pipe). "
                "Default: report.html in the first DIR, or the first file's name with the ending .html")
        .takes(value_kind::file);
    verb.flag("--small", a->small,
              "Make a page of a few hundred kB. It has fewer points, and sites and exponents of only one seed");
    const Option json = verb.flag("--json", a->json, "Print the summary as JSON");
    verb.flag("--csv", a->csv, "Print the summary as CSV").excludes(json).excludes(diagnose);
    verb.group("Pictures");
    const Option png =
        verb.option("--png", a->png,
                    "Also draw the page into this PNG file. Needs Chromium or Chrome. Default: no picture")
            .takes(value_kind::file);
    verb.flag("--top", a->top, "Draw only the part of the page above its curves").needs(png);
    const Option charts =
        verb.option("--charts", a->charts,
                    "Draw each chart into a PNG file in this folder. Needs Chromium or Chrome, except with --paper. A "
                    "file such as gap.pdf, gap.svg or gap.png is one figure for a paper. Default: no pictures")
            .takes(value_kind::folder);
    const Option dark = verb.flag("--dark", a->dark, "Draw pictures in the dark theme");
    verb.group("Papers");
    verb.option("--latex", a->paper.latex, "Write the table as LaTeX, with its notes. Default: not written")
        .takes(value_kind::file);
    verb.option("--methods", a->paper.methods,
                "Write a paragraph in LaTeX about how the runs were made. Default: not written")
        .takes(value_kind::file);
    verb.flag("--paper", a->paper.is_paper,
              "Draw the --charts for a paper: no titles, a white background, text as text, and their captions in "
              "captions.tex. Needs no browser")
        .needs(charts)
        .excludes(dark);
    verb.option("--as", a->paper.formats,
                "Formats of the --charts: pdf, svg and png. The first two need --paper. Default: png")
        .one_of({"pdf", "svg", "png"})
        .list()
        .needs(charts);
    verb.flag("--bibtex", a->bibtex, "Print a BibTeX entry for macheps. Reads nothing");
    verb.runs([a, &verb] { return report(*a, verb); });
}

}  // namespace

const VerbRow verb{"report", help, describe, notes};

}  // namespace macheps::cmd::report
