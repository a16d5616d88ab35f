// SPDX-License-Identifier: Apache-2.0
// Training logs as CSV files: metrics.csv of Lightning, and exports of wandb and TensorBoard.
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/shown.hpp"
#include "reports/rows/row_parser.hpp"
#include "reports/training_logs/line_forms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

namespace macheps::reports {

namespace {

constexpr std::size_t no_column = std::numeric_limits<std::size_t>::max();

/// A CSV file has no lines of text, so this function reads none. See parse_csv_log().
bool reads_no_line(std::string_view, LogBuilder&) { return false; }

constexpr LineForm tensorboard{"TensorBoard (CSV)", "Wall time,Step,Value", "Wall time", "step", false, true, true,
                               reads_no_line};
constexpr LineForm named_columns{"CSV (Lightning metrics.csv, wandb)",
                                 "Step,train/loss,train/grad_norm,train/lr",
                                 "loss,",
                                 "step",
                                 false,
                                 true,
                                 true,
                                 reads_no_line};

/// The last part of a column's name by which a quantity is recognised, in the order of preference.
struct ColumnName {
    std::string_view quantity;
    std::string_view name;
    bool is_prefix = false;  ///< whether the name may go on
};
constexpr ColumnName column_names[] = {{"step", "step"},
                                       {"step", "global_step"},
                                       {"step", "_step"},
                                       {"step", "iteration"},
                                       {"loss", "train_loss_step"},
                                       {"loss", "loss_step"},
                                       {"loss", "train_loss"},
                                       {"loss", "training_loss"},
                                       {"loss", "lm_loss"},
                                       {"loss", "lm loss"},
                                       {"loss", "loss"},
                                       {"loss", "train_loss_epoch"},
                                       {"grad_norm", "grad_norm"},
                                       {"grad_norm", "gradient_norm"},
                                       {"grad_norm", "grad-norm"},
                                       {"lr", "learning_rate"},
                                       {"lr", "learning-rate"},
                                       {"lr", "lr"},
                                       {"lr", "lr-", true},
                                       {"loss_scale", "loss_scale"},
                                       {"loss_scale", "loss-scale"},
                                       {"epoch", "epoch"},
                                       {"eval_loss", "val_loss"},
                                       {"eval_loss", "eval_loss"},
                                       {"eval_loss", "valid_loss"},
                                       {"eval_loss", "validation_loss"}};

/// Words in front of the last part of a name that mark a column of an evaluation.
constexpr std::string_view evaluation_words[] = {"eval", "val", "valid", "validation", "test"};

/// Returns the last part of a column's name in lower case: `loss` for `run 1 - train/loss`.
std::string last_part(std::string_view name) {
    const std::size_t slash = name.find_last_of('/');
    if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
    const std::size_t dash = name.rfind(" - ");
    if (dash != std::string_view::npos) name.remove_prefix(dash + 3);
    return lowered(name);
}

bool is_evaluation(std::string_view name) {
    const std::size_t slash = name.find_last_of('/');
    if (slash == std::string_view::npos) return false;
    const std::string before = last_part(name.substr(0, slash));
    return std::find(std::begin(evaluation_words), std::end(evaluation_words), before) != std::end(evaluation_words);
}

/// Returns whether a part of a column's name begins with `prefix`. Lightning writes the learning rates of several groups
/// to the columns `lr-AdamW/pg1`, `lr-AdamW/pg2`.
bool has_part_with_prefix(std::string_view name, std::string_view prefix) {
    while (true) {
        if (last_part(name).starts_with(prefix)) return true;
        const std::size_t slash = name.find_last_of('/');
        if (slash == std::string_view::npos) return false;
        name = name.substr(0, slash);
    }
}

/// Returns whether a column has a quantity under the name of `row`. `eval/loss` is the loss of an evaluation.
bool fits(std::string_view column, const ColumnName& row) {
    const std::string part = last_part(column);
    if (is_evaluation(column)) return row.quantity == "eval_loss" && part == "loss" && row.name == "eval_loss";
    return row.is_prefix ? has_part_with_prefix(column, row.name) : part == row.name;
}

class CsvColumns {
  public:
    CsvColumns(std::vector<std::string> header, const std::filesystem::path& path, const TrainingLogOptions& options)
        : header_(std::move(header)) {
        for (const auto& [quantity, name] : options.columns) {
            const auto found = std::find(header_.begin(), header_.end(), name);
            if (found == header_.end()) throw_no_column(name, path);
            at_[quantity] = std::size_t(found - header_.begin());
        }
        for (const ColumnName& row : column_names) {
            if (at_.contains(std::string(row.quantity))) continue;
            for (std::size_t i = 0; i < header_.size() && !at_.contains(std::string(row.quantity)); ++i) {
                if (fits(header_[i], row) && !is_taken(i)) at_[std::string(row.quantity)] = i;
            }
        }
    }

    /// Returns the index of the column with a quantity, or no_column.
    std::size_t at(std::string_view quantity) const {
        const auto found = at_.find(std::string(quantity));
        return found == at_.end() ? no_column : found->second;
    }
    std::size_t width() const { return header_.size(); }
    /// Returns whether no column has a quantity of training.
    bool has_only_places() const {
        return std::all_of(at_.begin(), at_.end(),
                           [](const auto& one) { return one.first == "step" || one.first == "epoch"; });
    }
    const std::vector<std::string>& header() const { return header_; }
    /// Returns the name of the last column without a quantity, or an empty text.
    std::string last_unknown() const {
        for (std::size_t i = header_.size(); i-- > 0;) {
            if (!is_taken(i)) return header_[i];
        }
        return "";
    }

  private:
    bool is_taken(std::size_t column) const {
        return std::any_of(at_.begin(), at_.end(), [column](const auto& one) { return one.second == column; });
    }
    [[noreturn]] void throw_no_column(const std::string& name, const std::filesystem::path& path) const {
        throw usage_error(fmt::format("{} has no column '{}'", path.string(), shown(name)), "--column",
                          "use one of: " + shown_list(header_, 40));
    }

    std::vector<std::string> header_;
    std::map<std::string, std::size_t> at_{};
};

/// Removes the header from the front of `text` and returns its names.
std::vector<std::string> take_header(std::string_view& text) {
    std::vector<std::string_view> cells;
    std::vector<std::string> unquoted;
    if (!csv::take_line(text, cells, unquoted)) return {};
    return {cells.begin(), cells.end()};
}

}  // namespace

const LineForm* csv_form(std::string_view text) {
    const std::vector<std::string> names = take_header(text);
    if (names.size() < 2 || (names[0] == "run" && names[1] == "policy")) return nullptr;  // a file of a run directory
    if (names == std::vector<std::string>{"Wall time", "Step", "Value"}) return &tensorboard;
    const auto has = [&](std::string_view quantity) {
        return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return std::any_of(std::begin(column_names), std::end(column_names),
                               [&](const ColumnName& row) { return row.quantity == quantity && fits(name, row); });
        });
    };
    return has("step") ? &named_columns : nullptr;
}

TrainingLog parse_csv_log(std::string_view text, const std::filesystem::path& path, const TrainingLogOptions& options) {
    const LineForm* form = csv_form(text);
    const CsvColumns columns(take_header(text), path, options);
    LogBuilder builder(options);
    std::vector<std::string_view> cells;
    std::vector<std::string> unquoted;
    std::size_t others = 0;
    while (!text.empty()) {
        std::string_view rest = text;
        const bool is_row = csv::take_line(rest, cells, unquoted);
        text = is_row ? rest : text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
        const std::optional<std::int64_t> step =
            is_row && cells.size() == columns.width() ? log_integer(cells[columns.at("step")]) : std::nullopt;
        if (!step) {
            ++others;
            continue;
        }
        TrainingRow row{.step = *step};
        for (const std::string_view quantity : quantity_names()) {
            const std::size_t at = columns.at(quantity);
            if (at != no_column) row.*find_quantity(quantity) = log_number(cells[at]);
        }
        builder.add(row);
    }
    if (columns.has_only_places()) {
        const std::string unknown = columns.last_unknown();
        builder.note(
            fmt::format("no column except step and epoch has a known name{}; the columns are {}",
                        unknown.empty() ? "" : "; say which quantity a column has, such as --column loss=" + unknown,
                        fmt::join(columns.header(), ", ")));
    }
    TrainingLog log = std::move(builder).finish();
    log.form = form;
    log.other_lines = others;
    return log;
}

}  // namespace macheps::reports
