// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/results/unit_rows.hpp"

#include "core/host/read_file.hpp"
#include "experiments/training/run/step.hpp"
#include "experiments/training/sweep/attempt.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

/// A file of rows of one unit, split by run. The rows of each run are contiguous.
class UnitFile {
  public:
    explicit UnitFile(std::string text) : text_(std::move(text)) {
        std::string_view rest = text_;
        header_ = line_of(rest);
        rest.remove_prefix(header_.size());
        if (header_.ends_with('\n')) header_.remove_suffix(1);
        while (!rest.empty()) {
            const std::string_view cell = first_cell(rest);
            const char* const begin = rest.data();
            while (rest.starts_with(cell)) rest.remove_prefix(line_of(rest).size());
            runs_[cell] = {begin, static_cast<std::size_t>(rest.data() - begin)};
        }
    }
    UnitFile(const UnitFile&) = delete;
    UnitFile& operator=(const UnitFile&) = delete;

    std::string_view header() const { return header_; }
    /// Returns the rows of a run, or an empty text if the file has no rows of this run.
    std::string_view rows_of(const std::string& run) const {
        std::string cell;
        reports::csv::append_cell(cell, std::string_view(run));
        const auto found = runs_.find(cell + ',');
        return found == runs_.end() ? std::string_view{} : found->second;
    }
    /// Returns the number of the line that contains the character at `at`. The header is line 1.
    std::uint64_t line_number(const char* at) const {
        return 1 + static_cast<std::uint64_t>(std::count(text_.data(), at, '\n'));
    }

  private:
    static std::string_view line_of(std::string_view text) {
        return text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    }
    /// Returns the first cell of a line, including the comma or line end after it.
    static std::string_view first_cell(std::string_view line) {
        bool is_quoted = false;
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (line[i] == '"') is_quoted = !is_quoted;
            if (!is_quoted && (line[i] == ',' || line[i] == '\n')) return line.substr(0, i + 1);
        }
        return line;
    }

    std::string text_;
    std::string_view header_;
    std::map<std::string_view, std::string_view, std::less<>> runs_;
};

Error altered(const std::string& id, const fs::path& path, std::string what) {
    return Error({.what = fmt::format("unit {}: {}", id, what),
                  .where = path.string(),
                  .fix = fmt::format("remove {} and run its shard again", path.parent_path().string()),
                  .exit = Exit::check_failed});
}

/// Throws Error unless the text of a file matches its mark in `done`.
void check_mark(const std::string& id, const fs::path& path, const std::string& text, const Done& done,
                const std::string& file) {
    const auto mark =
        std::find_if(done.files.begin(), done.files.end(), [&](const RowsMark& one) { return one.name == file; });
    if (mark == done.files.end()) throw altered(id, path, "this file did not exist when the unit was finished");
    if (mark->bytes == text.size() && mark->checksum == reports::checksum_of(text)) return;
    const std::optional<std::uint64_t> line = changed_line(*mark, mark_of_rows(file, text));
    throw altered(
        id, path,
        line ? fmt::format("row {} (line {}) has changed since the unit was finished", *line - 1, *line)
             : fmt::format("the file has changed since the unit was finished: it has {} bytes now and had {} then",
                           text.size(), mark->bytes));
}

std::string program_of(const Done& done) { return fmt::format("{} ({})", done.created_by, done.git); }

/// The files of the units of one cell.
class CellFiles {
  public:
    CellFiles(const Sweep& sweep, const fs::path& out, const std::map<std::size_t, Done>& done,
              const std::vector<std::string_view>& names, FinishedUnits::Trust trust)
        : sweep_(sweep), out_(out), done_(done), names_(names), trust_(trust) {}

    const std::vector<std::unique_ptr<UnitFile>>& of(std::size_t unit) {
        const auto [at, is_new] = files_.try_emplace(unit);
        if (!is_new) return at->second;
        const std::string& id = sweep_.units[unit].id;
        for (const std::string_view name : names_) {
            const fs::path path = path_of(unit, name);
            std::optional<std::string> text = read_if_there(path);
            if (!text) check_absent(unit, id, path, name);
            if (text && trust_ == FinishedUnits::Trust::is_checked)
                check_mark(id, path, *text, done_.at(unit), std::string(name));
            at->second.push_back(std::make_unique<UnitFile>(std::move(text).value_or("")));
        }
        return at->second;
    }
    /// Reads a file again, and throws Error if the file does not match its mark.
    void check_again(std::size_t unit, std::string_view name) const {
        const fs::path path = path_of(unit, name);
        check_mark(sweep_.units[unit].id, path, read_regular_file(path), done_.at(unit), std::string(name));
    }
    fs::path path_of(std::size_t unit, std::string_view name) const {
        return unit_folder(out_, sweep_.units[unit].id) / name;
    }

  private:
    void check_absent(std::size_t unit, const std::string& id, const fs::path& path, std::string_view name) const {
        for (const RowsMark& mark : done_.at(unit).files) {
            if (mark.name == name) throw altered(id, path, "this file is missing");
        }
    }

    const Sweep& sweep_;
    const fs::path& out_;
    const std::map<std::size_t, Done>& done_;
    const std::vector<std::string_view>& names_;
    FinishedUnits::Trust trust_;
    std::map<std::size_t, std::vector<std::unique_ptr<UnitFile>>> files_;
};

/// Checks that all units of a cell have equal fp32 rows. If they differ, one of the machines that trained the units
/// computed wrongly.
void check_baselines(const Sweep& sweep, const SweepCell& cell, const std::set<std::size_t>& units, CellFiles& files,
                     const std::map<std::size_t, Done>& done, const std::vector<std::string_view>& names) {
    const std::string run = run_name(std::string(reports::baseline_policy), cell.seed);
    const std::size_t first = *units.begin();
    for (const std::size_t unit : units) {
        for (std::size_t i = 0; i < names.size() && unit != first; ++i) {
            const UnitFile &mine = *files.of(unit)[i], &theirs = *files.of(first)[i];
            const std::string_view a = theirs.rows_of(run), b = mine.rows_of(run);
            const bool has_times = names[i] == reports::RunRow::file;
            const bool same = has_times ? without_times(std::string(theirs.header()) + "\n" + std::string(a)) ==
                                              without_times(std::string(mine.header()) + "\n" + std::string(b))
                                        : a == b;
            if (same || a.empty() || b.empty()) continue;
            // If one of the files was altered or misread, the rows differ although no machine computed wrongly.
            // check_again() reports this case.
            for (const std::size_t one : {first, unit}) files.check_again(one, names[i]);
            const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
            const auto line = mine.line_number(b.data() + (differ.second - b.begin()));
            throw Error(
                {.what = fmt::format("fp32 has different rows in two units of the same setting and seed: {} on {} and "
                                     "{} on {}; they differ first in {}, row {}",
                                     sweep.units[first].id, done.at(first).host, sweep.units[unit].id,
                                     done.at(unit).host, names[i], line - 1),
                 .where = files.path_of(unit, names[i]).string(),
                 .fix = "find out which of these machines computes wrongly, remove its units and train them elsewhere",
                 .exit = Exit::check_failed});
        }
    }
}

}  // namespace

FinishedUnits::FinishedUnits(const Sweep& sweep, fs::path out)
    : sweep_(sweep), out_(std::move(out)), runs_(runs_of(sweep)) {
    std::set<std::size_t> wanted;
    for (const SweepRun& run : runs_) wanted.insert(run.unit);
    for (const std::size_t unit : wanted) {
        const std::string& id = sweep.units[unit].id;
        if (!is_done(out_, id)) {
            missing_.push_back(unit);
            continue;
        }
        Done done = read_done(unit_folder(out_, id));
        const std::string program = program_of(done);
        if (std::find(programs_.begin(), programs_.end(), program) == programs_.end()) programs_.push_back(program);
        done_.emplace(unit, std::move(done));
    }
    take_finished_baselines();
    // If a finished unit has a failure record, it was usually trained a second time, and its rows then differed.
    for (const std::string& name : names_in(out_ / "failed")) {
        const std::string id = name.substr(0, name.find('.'));
        if (!is_unit_id(id) || !is_done(out_, id)) continue;
        auto conflict = read_failure(out_, id);
        // Otherwise, the record is about an error of one process, after which another process finished the unit.
        const bool is_conflict = conflict && conflict->exit == static_cast<int>(Exit::check_failed);
        if (is_conflict && has_finished_attempt(out_, id)) conflicts_.push_back(std::move(*conflict));
    }
    for (std::size_t i = 0; i < sweep.units.size(); ++i) not_of_this_plan_ += wanted.contains(i) ? 0 : 1;
}

void FinishedUnits::take_finished_baselines() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        SweepRun& run = runs_[i];
        if (sweep_.policies[run.policy].name != reports::baseline_policy || done_.contains(run.unit)) continue;
        for (std::size_t k = i + 1; k < runs_.size() && runs_[k].cell == run.cell; ++k) {
            if (!done_.contains(runs_[k].unit)) continue;
            run.unit = runs_[k].unit;
            break;
        }
    }
}

void FinishedUnits::for_each_cell(const std::vector<std::string_view>& files, Trust trust,
                                  const std::function<void(const CellRowsText&)>& take) const {
    std::vector<std::string> headers(files.size());
    for (std::size_t at = 0; at < runs_.size();) {
        const std::size_t cell = runs_[at].cell;
        std::size_t end = at;
        while (end < runs_.size() && runs_[end].cell == cell) ++end;
        CellFiles open(sweep_, out_, done_, files, trust);
        std::set<std::size_t> units;
        for (std::size_t i = at; i < end; ++i) {
            if (done_.contains(runs_[i].unit)) units.insert(runs_[i].unit);
        }
        for (const std::size_t unit : units) {
            for (std::size_t i = 0; i < files.size(); ++i) {
                const std::string_view header = open.of(unit)[i]->header();
                if (headers[i].empty()) headers[i] = header;
                if (header.empty() || header == headers[i]) continue;
                throw Error({.what = fmt::format("unit {}: the columns of {} differ from those of earlier units",
                                                 sweep_.units[unit].id, files[i]),
                             .where = open.path_of(unit, files[i]).string(),
                             .fix = "remove the unit and run its shard again: another version of macheps wrote it",
                             .exit = Exit::check_failed});
            }
        }
        if (units.size() > 1) check_baselines(sweep_, sweep_.cells[cell], units, open, done_, files);
        CellRowsText rows{.cell = sweep_.cells[cell], .headers = headers, .runs = {}};
        for (std::size_t i = at; i < end; ++i) {
            const SweepRun& run = runs_[i];
            if (!units.contains(run.unit)) continue;
            RunRowsText text{.policy = run.policy, .unit = run.unit, .rows = {}};
            const std::string name = run_name(sweep_.policies[run.policy].name, sweep_.cells[cell].seed);
            for (std::size_t k = 0; k < files.size(); ++k) {
                text.rows.push_back(open.of(run.unit)[k]->rows_of(name));
                if (files[k] != reports::RunRow::file || !text.rows.back().empty()) continue;
                throw Error({.what = fmt::format("unit {} has no row of run {}", sweep_.units[run.unit].id, name),
                             .where = open.path_of(run.unit, files[k]).string(),
                             .fix = "plan again into the same folder, or remove the unit and run its shard again: "
                                    "sweep.json or the unit is damaged"});
            }
            rows.runs.push_back(std::move(text));
        }
        take(rows);
        at = end;
    }
}

}  // namespace macheps::training
