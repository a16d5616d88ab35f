// SPDX-License-Identifier: Apache-2.0
#include "reports/training_logs/training_log.hpp"

#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/colour_codes.hpp"
#include "core/text/shown.hpp"
#include "reports/rows/csv.hpp"
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_diagnosis.hpp"
#include "reports/training_logs/named_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace macheps::reports {

namespace {

constexpr std::size_t shown_forms = 3;

/// Splits a text at its line ends. A progress bar that a program redraws ends with CR, so CR ends a line as well.
std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
        if (end > 0) lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// Removes blanks and line ends, then `c`, from the front of `text`. Returns false if another character is there.
bool take_after_blanks(std::string_view& text, char c) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
}

/// Returns the text from the bracket of the list `log_history` on, or an empty text if there is no such list.
std::string_view history_text(std::string_view text) {
    constexpr std::string_view name = "\"log_history\"";
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
        std::string_view rest = text.substr(at + name.size());
        if (take_after_blanks(rest, ':') && take_after_blanks(rest, '['))
            return text.substr(text.size() - rest.size() - 1);
    }
    return {};
}

/// Returns the objects in a history_text(). The last object may be incomplete; it is then left out.
std::vector<std::string_view> history_of(std::string_view text) {
    std::vector<std::string_view> objects;
    while (!text.empty()) {
        text.remove_prefix(1);
        const std::size_t at = text.find_first_not_of(" \t\r\n,");
        if (at == std::string_view::npos || text[at] != '{') break;
        text.remove_prefix(at);
        const std::string_view object = text;
        if (!take_named_values(text)) break;
        objects.push_back(object.substr(0, object.size() - text.size()));
    }
    return objects;
}

/// Returns the rank that wrote a line: `[rank3]:` and `[default3]:` of torchrun in front of the line, or `Rank 3` of
/// DeepSpeed. Returns nothing if the line does not name a rank.
std::optional<std::int64_t> rank_of(std::string_view line) {
    for (const std::string_view word : {"[rank", "[default", "[trainer"}) {
        if (!line.starts_with(word)) continue;
        return log_integer(line.substr(word.size(), line.find(']') - word.size()));
    }
    for (const std::string_view word : {"[Rank ", "OVERFLOW! Rank "}) {
        const std::size_t at = line.find(word);
        if (at == std::string_view::npos) continue;
        const std::string_view rest = line.substr(at + word.size());
        return log_integer(rest.substr(0, rest.find_first_of("] ")));
    }
    return std::nullopt;
}

/// The number of lines that fit a form, and the number of lines that contain its mark.
struct Fit {
    const LineForm* form = nullptr;
    std::size_t rows = 0, marks = 0;
};

std::vector<Fit> fits_of(std::span<const std::string_view> lines, const TrainingLogOptions& options) {
    std::vector<Fit> fits;
    for (const LineForm& form : line_forms()) {
        LogBuilder scratch(options);
        Fit fit{.form = &form};
        for (const std::string_view line : lines) {
            fit.rows += form.read(line, scratch) ? 1 : 0;
            fit.marks += line.find(form.mark) != std::string_view::npos ? 1 : 0;
        }
        fits.push_back(fit);
    }
    std::stable_sort(fits.begin(), fits.end(), [](const Fit& a, const Fit& b) {
        return std::pair(a.rows, a.marks) > std::pair(b.rows, b.marks);
    });
    return fits;
}

/// Returns the form with the most lines. Messages of DeepSpeed are read in logs of every form, so another form with
/// enough lines comes first.
const LineForm& best_of(std::span<const Fit> fits) {
    const auto other = std::find_if(fits.begin(), fits.end(), [](const Fit& fit) {
        return fit.form != &deepspeed_form && fit.rows >= min_training_rows;
    });
    return other == fits.end() ? *fits.front().form : *other->form;
}

/// Leaves out the lines of the given kind that other ranks wrote than the lowest rank with such a line. Returns the
/// number of lines that were left out.
template <class IsOfKind>
std::size_t leave_out_other_ranks(std::vector<std::string_view>& lines, IsOfKind is_of_kind, std::string_view what,
                                  std::vector<std::string>& notes) {
    std::optional<std::int64_t> lowest;
    for (const std::string_view line : lines) {
        const auto rank = rank_of(line);
        if (rank && *rank < lowest.value_or(*rank + 1) && is_of_kind(line)) lowest = rank;
    }
    if (!lowest) return 0;
    const std::size_t count = std::erase_if(
        lines, [&](std::string_view line) { return rank_of(line).value_or(*lowest) != *lowest && is_of_kind(line); });
    if (count > 0) {
        notes.push_back(fmt::format("{} {}{} of other ranks than {} {} left out", count, what, count == 1 ? "" : "s",
                                    *lowest, count == 1 ? "is" : "are"));
    }
    return count;
}

/// Leaves out the rows of a form and the messages about skipped steps that other ranks wrote than the lowest one. The
/// rows may come from another rank than the messages: Megatron-LM writes its rows on the last rank.
std::size_t leave_out_other_ranks(std::vector<std::string_view>& lines, const LineForm& form,
                                  const TrainingLogOptions& options, std::vector<std::string>& notes) {
    LogBuilder scratch(options);
    const auto is_message = [&](std::string_view line) { return read_skip_message(line, scratch); };
    const auto is_row = [&](std::string_view line) { return !is_message(line) && form.read(line, scratch); };
    const std::size_t rows = leave_out_other_ranks(lines, is_row, "line", notes);
    return rows + leave_out_other_ranks(lines, is_message, "overflow message", notes);
}

TrainingLog read_lines(std::span<const std::string_view> lines, const LineForm& form,
                       const TrainingLogOptions& options) {
    LogBuilder builder(options);
    std::size_t others = 0;
    for (const std::string_view line : lines) {
        others += form.read(line, builder) || read_skip_message(line, builder) ? 0 : 1;
    }
    TrainingLog log = std::move(builder).finish();
    log.form = &form;
    log.other_lines = others;
    return log;
}

/// Throws Error (usage) if the user chose a name that no line of the form has. Does nothing if no line has names.
void check_chosen_names(std::span<const std::string_view> lines, const LineForm& form,
                        const std::filesystem::path& path, const TrainingLogOptions& options) {
    if (options.columns.empty() || !form.has_names) return;
    LogBuilder scratch(options);
    for (const std::string_view line : lines) form.read(line, scratch);
    const auto& seen = scratch.seen_names();
    if (seen.empty()) return;
    for (const auto& [quantity, name] : options.columns) {
        if (seen.contains(name)) continue;
        throw usage_error(fmt::format("no row of {} has the name '{}'", path.string(), shown(name)), "--column",
                          "use one of: " + shown_list(seen, 40));
    }
}

/// Says how many more rows a report needs, and what the rows of a short log show without them.
std::string words_about_short_log(const TrainingLog& log, std::size_t rows, const TrainingLogOptions& options) {
    std::string words = fmt::format(", and a report needs {} more", min_training_rows - rows);
    if (log.rows.empty()) return words;
    std::string_view before = "; these rows show ";
    for (const LogFinding& finding : diagnose_log(log, options).findings) {
        words += fmt::format("{}{} ({}, {}): {}", std::exchange(before, "; "), finding.diagnosis->id,
                             word_of(finding.seen.certainty), finding_place(log, finding), finding.seen.sentence);
    }
    return words;
}

[[noreturn]] void throw_too_few(std::string what, std::span<const LineForm* const> nearest,
                                const std::filesystem::path& path) {
    std::string forms;
    for (const LineForm* form : nearest) {
        forms += fmt::format("{}{}: `{}`", forms.empty() ? "" : "; ", form->name, form->example);
    }
    throw Error({.what = std::move(what),
                 .where = path.string(),
                 .fix = fmt::format("pass a log with at least {} lines of one form, or a CSV file of `macheps gemm`, "
                                    "sum, solve or eval; the nearest forms are {}",
                                    min_training_rows, forms)});
}

TrainingLog read_best_form(std::string_view text, const std::filesystem::path& path,
                           const TrainingLogOptions& options) {
    std::vector<std::string> notes;
    std::vector<std::string_view> lines = lines_of(text);
    std::vector<Fit> fits = fits_of(lines, options);
    if (leave_out_other_ranks(lines, best_of(fits), options, notes) > 0) fits = fits_of(lines, options);
    if (fits.front().rows < min_training_rows) {
        for (const LineForm& form : line_forms()) check_chosen_names(lines, form, path, options);
        std::vector<const LineForm*> nearest;
        for (std::size_t i = 0; i < shown_forms; ++i) nearest.push_back(fits[i].form);
        if (lines.empty()) throw_too_few("the file is empty", nearest, path);
        const std::size_t rows = fits.front().rows;
        const TrainingLog log = read_lines(lines, *fits.front().form, options);
        throw_too_few(
            fmt::format("this is neither a folder nor a log that a report can show: at most {} of its {} {} one form{}",
                        rows, lines.size(), lines.size() == 1 ? "line fits" : "lines fit",
                        rows > 0 ? words_about_short_log(log, rows, options) : ""),
            nearest, path);
    }
    const LineForm& form = best_of(fits);
    if (!options.columns.empty() && !form.has_names) {
        throw usage_error(fmt::format("the columns of a log of {} have no names", form.name), "--column",
                          "remove it; it is for CSV files, JSON lines and dictionaries");
    }
    check_chosen_names(lines, form, path, options);
    TrainingLog log = read_lines(lines, form, options);
    if (log.rows.empty()) {
        const LineForm* forms[] = {&form};
        throw_too_few("the log has no rows of training steps", forms, path);
    }
    log.notes.insert(log.notes.begin(), notes.begin(), notes.end());
    return log;
}

TrainingLog with_enough_rows(TrainingLog log, const std::filesystem::path& path, const TrainingLogOptions& options) {
    const std::size_t rows = log.rows.size();
    if (rows >= min_training_rows) return log;
    const LineForm* forms[] = {log.form};
    throw_too_few(fmt::format("the log has only {} row{}{}", rows, rows == 1 ? "" : "s",
                              words_about_short_log(log, rows, options)),
                  forms, path);
}

/// Removes a last line without a line end, because its last number may be incomplete. Keeps a line that ends with `}`,
/// and a line without digits. Returns whether a line was removed.
bool remove_torn_line(std::string& text) {
    const std::size_t end = text.find_last_of("\r\n");
    if (end == std::string::npos || end + 1 == text.size() || text.back() == '}') return false;
    if (text.find_first_of("0123456789", end) == std::string::npos) return false;
    text.resize(end + 1);
    return true;
}

bool is_binary(std::string_view text) { return text.substr(0, 4096).find('\0') != std::string_view::npos; }

}  // namespace

Quantity find_quantity(std::string_view name) {
    Quantity found = nullptr;
    const auto look = [&]<class Value>(const Column<TrainingRow, Value>& c) {
        if constexpr (is_optional<Value>) found = c.name == name ? c.field : found;
    };
    for_each_column<TrainingRow>(look);
    return found;
}

std::vector<std::string_view> quantity_names() {
    std::vector<std::string_view> names;
    const auto add = [&]<class Value>(const Column<TrainingRow, Value>& c) {
        if constexpr (is_optional<Value>) names.push_back(c.name);
    };
    for_each_column<TrainingRow>(add);
    return names;
}

bool TrainingLog::has(Quantity quantity) const {
    return std::any_of(rows.begin(), rows.end(),
                       [quantity](const TrainingRow& row) { return (row.*quantity).has_value(); });
}

std::string_view TrainingLog::unit() const { return has_step_numbers ? form->counts : "row"; }

std::string TrainingLog::place(std::int64_t step) const { return fmt::format("{} {}", unit(), step); }

TrainingLog parse_training_log(std::string_view text, const std::filesystem::path& path,
                               const TrainingLogOptions& options) {
    if (is_binary(text)) {
        throw Error({.what = "this is a binary file",
                     .where = path.string(),
                     .fix = "pass a log as UTF-8 text; export the scalars of TensorBoard or wandb as CSV"});
    }
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    std::string plain = without_colour_codes(text);
    const bool is_state = !history_text(plain).empty();
    const bool is_torn = !is_state && remove_torn_line(plain);
    TrainingLog log;
    if (is_state) {
        const std::vector<std::string_view> lines = history_of(history_text(plain));
        check_chosen_names(lines, trainer_state_form, path, options);
        log = with_enough_rows(read_lines(lines, trainer_state_form, options), path, options);
    } else if (csv_form(plain) != nullptr) {
        log = with_enough_rows(parse_csv_log(plain, path, options), path, options);
    } else {
        log = read_best_form(plain, path, options);
    }
    if (is_torn) log.notes.emplace_back("the last line has no line end, may be incomplete, and is left out");
    log.path = path;
    return log;
}

TrainingLog read_training_log(const std::filesystem::path& path, const TrainingLogOptions& options) {
    return parse_training_log(read_file(path), path, options);
}

std::string training_logs_csv(const std::vector<TrainingLog>& logs) {
    std::string text = "file," + csv::header<TrainingRow>() + "\n";
    for (const TrainingLog& log : logs) {
        for (const TrainingRow& row : log.rows) {
            csv::append_cell(text, std::string_view(log.path.string()));
            text += ',';
            csv::append_line(text, row);
        }
    }
    return text;
}

}  // namespace macheps::reports
