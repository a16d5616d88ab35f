// SPDX-License-Identifier: Apache-2.0
// Collects the rows of a training log while its lines are read.
#pragma once
#include "reports/training_logs/named_values.hpp"
#include "reports/training_logs/training_log.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// Returns the number that `text` consists of, without blanks and quotes around it. Returns nothing for other text.
std::optional<double> log_number(std::string_view text);
/// Like log_number(), for whole numbers such as `12` or `12.0`.
std::optional<std::int64_t> log_integer(std::string_view text);

class LogBuilder {
  public:
    explicit LogBuilder(const TrainingLogOptions& options) : options_(options) {}

    /// Returns the names under which the log has quantities, if the user chose them: quantity -> name.
    const std::map<std::string, std::string>& chosen_names() const { return options_.columns; }
    /// Records the names of the values in a line, so that a chosen name that no line has can be reported.
    void see_names(const NamedValues& values);
    const std::set<std::string, std::less<>>& seen_names() const { return seen_names_; }

    /// Adds a row, or a part of one: finish() joins the parts of a step. The skipped steps of the row include those of
    /// add_skip() since the row before it.
    void add(TrainingRow row);
    /// Adds a row of a log without step numbers. The number of the row takes their place.
    void add_unnumbered(TrainingRow row);
    /// Adds an evaluation that belongs to the row before it, in a log without step numbers.
    void add_evaluation(double eval_loss);
    /// Adds a skipped step whose number the log does not contain. It gets the number after that of the last row.
    void add_skip(std::optional<double> scale, std::optional<double> next_scale);
    /// Adds a row with the total number of steps that were skipped since the start.
    void add_total_skips(TrainingRow row, double total);
    void end_at_floor() { log_.has_ended_at_floor = true; }
    void note(std::string_view text) { log_.notes.emplace_back(text); }

    /// Sorts the rows and joins rows of the same step.
    TrainingLog finish() &&;

  private:
    /// Returns whether a row shows that the run was resumed after the last row with a known number: the row repeats the
    /// step of that row or an earlier one.
    bool is_resumed_at(const TrainingRow& row) const;
    /// Numbers the skipped steps since the last row with a known number, so that the last one is `step`.
    void number_skips_until(std::int64_t step);
    /// Returns whether a row with this step is that of the last skipped step.
    bool is_last_skip(std::int64_t step) const;
    /// Ends a series of skipped steps at a row with a known number. If the row is not that of the last skipped step or
    /// an earlier one, the numbers of the skipped steps are unknown.
    void close_skips(std::int64_t step);
    /// If the log begins later than the run, numbers the skipped steps before the first row with a number, and leaves
    /// out the steps that were skipped before the log.
    void number_first_skips();

    /// The first row with the total number of skipped steps.
    struct FirstTotal {
        std::size_t row = 0;
        bool is_skipped_step = false;  ///< whether the message about the last skipped step belongs to the row
        double unseen = 0;             ///< skipped steps without a message
    };

    const TrainingLogOptions& options_;
    TrainingLog log_{};
    std::set<std::string, std::less<>> seen_names_{};  // empty if the user chose no names
    std::optional<std::int64_t> last_step_{};          // of the last row with a known number
    std::int64_t unnumbered_ = 0;                      // rows without a number so far
    std::int64_t open_skips_ = 0;                      // skipped steps since the last row with a known number
    std::size_t first_skips_ = 0;                      // rows of skipped steps before the first row with a known number
    bool are_first_skips_known_ = true;                // whether their numbers are known
    std::optional<FirstTotal> first_total_{};
    std::optional<double> total_skips_{};
};

}  // namespace macheps::reports
