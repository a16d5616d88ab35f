// SPDX-License-Identifier: Apache-2.0
// The forms of lines in the logs of training programs. A form is a row of a table, with one function that reads a line.
#pragma once
#include "reports/training_logs/log_builder.hpp"

#include <span>
#include <string_view>

namespace macheps::reports {

struct LineForm {
    std::string_view name;     ///< the programs that write lines of this form
    std::string_view example;  ///< for messages
    std::string_view mark;     ///< a text that most lines of this form contain; used only to find the nearest forms
    std::string_view counts;   ///< the unit of the number of a row: "step" or "iteration"
    /// Whether the loss is the mean cross-entropy of tokens, whose value before training is about ln(vocabulary).
    bool has_token_loss;
    /// Whether the program may show 0 or the previous mean for a loss that is NaN (Transformers:
    /// logging_nan_inf_filter).
    bool may_hide_nan;
    bool has_names;  ///< whether --column can name the quantities
    /// Reads a line. Returns false if the line does not have this form.
    bool (*read)(std::string_view line, LogBuilder& log);
};

/// Returns every form of lines of text.
std::span<const LineForm> line_forms();
/// The objects in `log_history` of a trainer_state.json.
extern const LineForm trainer_state_form;
extern const LineForm& deepspeed_form;
/// Reads a message of DeepSpeed about a skipped step or about the smallest loss scale. Such messages also occur in logs
/// of other forms. Returns false for other lines.
bool read_skip_message(std::string_view line, LogBuilder& log);

/// Returns the form of a CSV file, which its header identifies. Returns nullptr for other text, and for the files of a
/// run directory.
const LineForm* csv_form(std::string_view text);
/// Reads all rows of a CSV file that has a csv_form().
TrainingLog parse_csv_log(std::string_view text, const std::filesystem::path& path, const TrainingLogOptions& options);

}  // namespace macheps::reports
