// SPDX-License-Identifier: Apache-2.0
// Reads a log of a training run that another program wrote: a console output, a JSON file or a CSV file. The form of
// the log is recognised from its content (line_forms.hpp).
#pragma once
#include "reports/rows/event.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// The quantities of one step, or of the steps since the previous row. `skipped` counts the steps that the loss scaler
/// skipped.
struct TrainingRow {
    std::int64_t step = 0;
    std::optional<double> loss{}, grad_norm{}, lr{}, loss_scale{}, epoch{}, eval_loss{}, skipped{};
    std::optional<double> scale_after{};  ///< the loss scale after a skipped step; not a column

    bool operator==(const TrainingRow&) const = default;
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("step", &TrainingRow::step), column("loss", &TrainingRow::loss),
                   column("grad_norm", &TrainingRow::grad_norm), column("lr", &TrainingRow::lr),
                   column("loss_scale", &TrainingRow::loss_scale), column("epoch", &TrainingRow::epoch),
                   column("eval_loss", &TrainingRow::eval_loss), column("skipped", &TrainingRow::skipped));
    }
};

using Quantity = std::optional<double> TrainingRow::*;

/// Returns the quantity with this column name, or nullptr. `step` is not a quantity.
Quantity find_quantity(std::string_view name);
/// Returns the names of all quantities.
std::vector<std::string_view> quantity_names();

struct LineForm;

/// Choices of the user, which the log does not contain.
struct TrainingLogOptions {
    std::optional<std::int64_t> vocabulary{};      ///< number of tokens
    std::optional<std::int64_t> gas{};             ///< gradient accumulation steps
    std::map<std::string, std::string> columns{};  ///< quantity -> name in the log, for logs with named columns
};

struct TrainingLog {
    std::filesystem::path path{};
    const LineForm* form = nullptr;
    std::vector<TrainingRow> rows{};  ///< in ascending order of the step, one row for each step
    std::size_t other_lines = 0;      ///< lines that are not rows
    bool has_step_numbers = true;     ///< false if the rows are numbered because the log does not number them
    bool has_ended_at_floor = false;  ///< the log contains the error that DeepSpeed raises at the smallest scale
    double skipped_before = 0;        ///< steps that were skipped before the log begins
    bool knows_skipped_steps = true;  ///< false if only the number of skipped steps in an interval is known
    std::vector<std::string> notes{};

    /// Returns whether any row has the quantity.
    bool has(Quantity quantity) const;
    /// Returns the unit of the numbers of the rows: "step", "iteration" or "row".
    std::string_view unit() const;
    /// Returns the position of a row in words: "step 12", "iteration 12" or "row 12".
    std::string place(std::int64_t step) const;
};

/// Minimum number of rows of a log.
inline constexpr std::size_t min_training_rows = 5;

/// Reads a training log. Steps that are repeated, because the run was resumed, have the values of the later row. If
/// several ranks wrote rows, only the rows of the lowest of these ranks are read.
/// Errors: Exit::bad_input if the file cannot be read or has fewer than min_training_rows rows of every form;
/// Exit::usage if `options` names a column that the log does not have.
TrainingLog read_training_log(const std::filesystem::path& path, const TrainingLogOptions& options = {});
/// Reads a training log from its text. `path` is only used to name the file.
TrainingLog parse_training_log(std::string_view text, const std::filesystem::path& path,
                               const TrainingLogOptions& options = {});

/// Returns the rows as CSV, with the file name as the first column.
std::string training_logs_csv(const std::vector<TrainingLog>& logs);

}  // namespace macheps::reports
