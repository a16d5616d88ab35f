// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/results/merge.hpp"

#include "core/host/publish.hpp"
#include "experiments/training/sweep/results/site_sums.hpp"
#include "experiments/training/sweep/results/status.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/row_parser.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

/// A file of a run directory whose rows are merged without changes to their columns, and the word that selects the file
/// in `--rows`.
struct MergedFile {
    std::string_view word, file;
};
constexpr MergedFile merged_files[] = {{"runs", reports::RunRow::file},
                                       {"evals", reports::EvalRow::file},
                                       {"steps", reports::StepRow::file},
                                       {"sites", reports::SiteRow::file},
                                       {"exponents", reports::ExponentRow::file}};
constexpr std::string_view sums_word = "site-sums";

/// A file that is being merged. Its header is written once.
class MergedRows {
  public:
    explicit MergedRows(const fs::path& path) : file_(path) {}

    void header(const std::string& text) {
        if (!std::exchange(has_header_, true)) text_ += text + ",unit\n";
    }
    /// Appends complete lines, and adds the unit's name at the end of each line.
    void append(std::string_view rows, const std::string& unit) {
        while (!rows.empty()) {
            const std::size_t end = rows.find('\n');
            text_.append(rows.substr(0, end)).append(",").append(unit) += '\n';
            rows.remove_prefix(std::min(end, rows.size() - 1) + 1);
        }
        if (text_.size() >= max_waiting) flush();
    }
    void finish() {
        flush();
        file_.finish();
    }

  private:
    static constexpr std::size_t max_waiting = 1 << 20;
    void flush() {
        file_.write(text_);
        text_.clear();
    }

    Publication file_;
    std::string text_;
    bool has_header_ = false;
};

/// Returns the values of a setting's axes as CSV cells, each with a comma in front.
std::string axes_cells(const SweepSetting& setting) {
    std::string text;
    for (const auto& [name, value] : setting.axes)
        text += ',', reports::csv::append_cell(text, std::string_view(value));
    return text;
}

std::string axes_header(const Sweep& sweep) {
    std::string text;
    for (const std::string& axis : sweep.axes) text += ',', reports::csv::append_cell(text, std::string_view(axis));
    return text;
}

/// The file site-sums.csv, written setting by setting. All cells of one setting must be added one after the other,
/// because the sums of a setting are written as soon as a cell of another setting is added.
class SumsFile {
  public:
    SumsFile(const Sweep& sweep, const fs::path& path) : sweep_(sweep), file_(path) {
        text_ = reports::csv::header<SiteSumRow>() + axes_header(sweep) + "\n";
    }
    void add(const CellRowsText& cell, std::size_t file) {
        if (setting_ && *setting_ != cell.cell.setting) end_setting();
        setting_ = cell.cell.setting;
        if (cell.headers[file].empty()) return;
        reports::RowParser<reports::SiteRow> parser(cell.headers[file], reports::SiteRow::file, needed);
        for (const RunRowsText& run : cell.runs)
            parser.parse(run.rows[file], [this](const reports::SiteRow& row) { sums_.add(row); });
    }
    void finish() {
        if (setting_) end_setting();
        file_.write(text_);
        file_.finish();
    }

  private:
    static constexpr std::string_view needed[] = {"policy",    "site",         "format",   "count",     "zero_in",
                                                  "underflow", "to_subnormal", "overflow", "saturated", "nan_in",
                                                  "inf_in",    "amax",         "amin_nz"};
    void end_setting() {
        const std::string axes = axes_cells(sweep_.settings[*setting_]);
        for (const SiteSumRow& row : sums_.take()) {
            reports::csv::append_line(text_, row);
            text_.pop_back();
            text_ += axes + "\n";
        }
        file_.write(text_);
        text_.clear();
    }

    const Sweep& sweep_;
    Publication file_;
    std::string text_;
    SiteSums sums_;
    std::optional<std::size_t> setting_;
};

/// Returns the text of units.csv, which records the host and the program that finished each unit. The other merged
/// files do not depend on hosts and programs.
std::string units_text(const Sweep& sweep, const FinishedUnits& units, const fs::path& out) {
    std::string text = "unit" + axes_header(sweep) + ",seed,policies,status,attempts,host,seconds,program\n";
    for (const UnitStatus& status : status_of(sweep, out)) {
        const SweepUnit& unit = sweep.units[status.unit];
        std::vector<std::string> policies;
        for (const std::size_t policy : unit.policies) policies.push_back(sweep.policies[policy].name);
        text += unit.id + axes_cells(sweep.settings[unit.setting]) + fmt::format(",{},", unit.seed);
        reports::csv::append_cell(text, std::string_view(fmt::format("{}", fmt::join(policies, " "))));
        text += fmt::format(",{},", to_string(status.state));
        const auto found = units.done().find(status.unit);
        if (found == units.done().end()) {
            text += fmt::format("{},", status.attempts);
            reports::csv::append_cell(text, std::string_view(status.host));
            text += ",,\n";
            continue;
        }
        const Done& done = found->second;
        text += fmt::format("{},", done.attempt + 1);
        reports::csv::append_cell(text, std::string_view(done.host));
        text += fmt::format(",{:.3f},", done.seconds);
        reports::csv::append_cell(text, std::string_view(fmt::format("{} ({})", done.created_by, done.git)));
        text += '\n';
    }
    return text;
}

}  // namespace

std::vector<std::string_view> merge_words() {
    std::vector<std::string_view> words;
    for (const MergedFile& one : merged_files) words.push_back(one.word);
    words.push_back(sums_word);
    return words;
}

std::vector<fs::path> merge_units(const Sweep& sweep, const FinishedUnits& units, const MergeRequest& request) {
    make_folders(request.to);
    std::vector<std::string_view> files;
    std::vector<fs::path> paths;
    std::vector<std::unique_ptr<MergedRows>> merged;
    std::optional<SumsFile> sums;
    const std::vector<std::string_view> words = merge_words();
    for (const std::string& word : request.rows) {
        if (std::find(words.begin(), words.end(), word) == words.end()) {
            throw Error({.what = fmt::format("there are no rows '{}'", word),
                         .where = "--rows",
                         .fix = fmt::format("use one of {}", fmt::join(words, ", ")),
                         .exit = Exit::usage});
        }
        for (const MergedFile& one : merged_files) {
            if (one.word != word || std::find(files.begin(), files.end(), one.file) != files.end()) continue;
            files.push_back(one.file);
            paths.push_back(request.to / one.file);
            check_is_replaceable(paths.back());
            merged.push_back(std::make_unique<MergedRows>(paths.back()));
        }
    }
    const bool has_sums = std::find(request.rows.begin(), request.rows.end(), sums_word) != request.rows.end();
    std::size_t sites = files.size();
    if (has_sums) {
        sites = static_cast<std::size_t>(std::find(files.begin(), files.end(), reports::SiteRow::file) - files.begin());
        if (sites == files.size()) files.push_back(reports::SiteRow::file);
        paths.push_back(request.to / SiteSumRow::file);
        check_is_replaceable(paths.back());
        sums.emplace(sweep, paths.back());
    }
    units.for_each_cell(files, request.trust, [&](const CellRowsText& cell) {
        for (std::size_t i = 0; i < merged.size(); ++i) {
            if (cell.headers[i].empty()) continue;
            merged[i]->header(cell.headers[i]);
            for (const RunRowsText& run : cell.runs) merged[i]->append(run.rows[i], sweep.units[run.unit].id);
        }
        if (sums) sums->add(cell, sites);
    });
    paths.push_back(request.to / "units.csv");
    check_is_replaceable(paths.back());
    Publication units_file(paths.back());
    units_file.write(units_text(sweep, units, request.out));
    for (const auto& file : merged) file->finish();
    if (sums) sums->finish();
    units_file.finish();
    return paths;
}

}  // namespace macheps::training
