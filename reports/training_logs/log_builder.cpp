// SPDX-License-Identifier: Apache-2.0
#include "reports/training_logs/log_builder.hpp"

#include "core/text/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace macheps::reports {

namespace {

constexpr std::string_view around_numbers = " \t\r\n\"'";

/// Returns whether both rows have a value of the same quantity. Different parts of a row may repeat its epoch.
bool overlap(const TrainingRow& a, const TrainingRow& b) {
    bool found = false;
    const auto look = [&]<class Value>(const Column<TrainingRow, Value>& c) {
        if constexpr (is_optional<Value>) found |= c.name != "epoch" && a.*c.field && b.*c.field;
    };
    for_each_column<TrainingRow>(look);
    return found;
}

/// Adds the values of `part` to `row`.
void join(TrainingRow& row, const TrainingRow& part) {
    const auto copy = [&]<class Value>(const Column<TrainingRow, Value>& c) {
        if constexpr (is_optional<Value>) {
            if (part.*c.field) row.*c.field = part.*c.field;
        }
    };
    for_each_column<TrainingRow>(copy);
    if (part.scale_after) row.scale_after = part.scale_after;
}

/// Returns whether a row consists only of the message about a skipped step.
bool is_skip_message(const TrainingRow& row) { return row.skipped && !row.loss && !row.lr && !row.grad_norm; }

}  // namespace

std::optional<double> log_number(std::string_view text) {
    const std::size_t first = text.find_first_not_of(around_numbers);
    if (first == std::string_view::npos) return std::nullopt;
    return parse_number(text.substr(first, text.find_last_not_of(around_numbers) + 1 - first));
}

std::optional<std::int64_t> log_integer(std::string_view text) {
    constexpr double largest = 0x1p53;  // fp64 holds all integers up to this one
    const std::optional<double> value = log_number(text);
    if (!value || !(std::abs(*value) <= largest) || *value != std::trunc(*value)) return std::nullopt;
    return static_cast<std::int64_t>(*value);
}

void LogBuilder::see_names(const NamedValues& values) {
    if (options_.columns.empty()) return;
    for (const auto& [name, value] : values) {
        if (!seen_names_.contains(name)) seen_names_.emplace(name);
    }
}

bool LogBuilder::is_resumed_at(const TrainingRow& row) const {
    if (!last_step_ || row.step > *last_step_) return false;
    // The rows of the skipped steps follow the last row with a known number.
    const TrainingRow& last = log_.rows[log_.rows.size() - static_cast<std::size_t>(open_skips_) - 1];
    return row.step < *last_step_ || overlap(row, last);
}

void LogBuilder::number_skips_until(std::int64_t step) {
    std::int64_t number = step;
    for (auto row = log_.rows.rbegin(); row != log_.rows.rbegin() + open_skips_; ++row) row->step = number--;
    last_step_ = number;
    log_.knows_skipped_steps = false;
}

bool LogBuilder::is_last_skip(std::int64_t step) const {
    return open_skips_ > 0 && step == last_step_.value_or(0) + open_skips_;
}

void LogBuilder::close_skips(std::int64_t step) {
    const bool are_known = open_skips_ == 0 || step <= last_step_.value_or(0) + open_skips_;
    if (!last_step_) {
        first_skips_ = log_.rows.size();
        are_first_skips_known_ = are_known;
    } else if (!are_known) {
        log_.knows_skipped_steps = false;
    }
    open_skips_ = 0;
    last_step_ = step;
}

void LogBuilder::add(TrainingRow row) {
    if (row.skipped) row.skipped = std::max(*row.skipped - static_cast<double>(open_skips_), 0.0);
    if (open_skips_ > 0 && open_skips_ <= row.step && is_resumed_at(row)) number_skips_until(row.step);
    if (is_last_skip(row.step)) {
        // The message has the scale of the step. A row may have the scale after the step.
        join(row, log_.rows.back());
        log_.rows.pop_back();
    }
    close_skips(row.step);
    log_.rows.push_back(row);
}

void LogBuilder::add_unnumbered(TrainingRow row) {
    row.step = ++unnumbered_;
    log_.has_step_numbers = false;
    if (open_skips_ > 0) log_.knows_skipped_steps = false;
    // The steps that were skipped since the previous row belong to this row.
    for (; open_skips_ > 0; --open_skips_) {
        row.skipped = row.skipped.value_or(0) + 1;
        row.loss_scale = log_.rows.back().loss_scale;
        if (!row.scale_after) row.scale_after = log_.rows.back().scale_after;
        log_.rows.pop_back();
    }
    last_step_ = row.step;
    log_.rows.push_back(row);
}

void LogBuilder::add_evaluation(double eval_loss) {
    if (!log_.rows.empty()) log_.rows.back().eval_loss = eval_loss;
}

void LogBuilder::add_skip(std::optional<double> scale, std::optional<double> next_scale) {
    log_.rows.push_back(
        {.step = last_step_.value_or(0) + ++open_skips_, .loss_scale = scale, .skipped = 1, .scale_after = next_scale});
}

void LogBuilder::add_total_skips(TrainingRow row, double total) {
    const bool is_new = !total_skips_ || total < *total_skips_;  // a resumed run may count from zero again
    row.skipped = total - (is_new ? 0 : *total_skips_);
    if (!total_skips_) {
        const bool is_skipped_step = is_last_skip(row.step);
        first_total_ = {.row = log_.rows.size() - (is_skipped_step ? 1 : 0),
                        .is_skipped_step = is_skipped_step,
                        .unseen = std::max(total - static_cast<double>(open_skips_), 0.0)};
    }
    total_skips_ = total;
    add(row);
}

void LogBuilder::number_first_skips() {
    std::vector<TrainingRow>& rows = log_.rows;
    if (!log_.has_step_numbers || first_skips_ >= rows.size()) return;
    TrainingRow& first = rows[first_skips_];
    const auto next =
        std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(first_skips_), rows.end(),
                     [&](const TrainingRow& row) { return row.step > first.step && !is_skip_message(row); });
    const std::int64_t interval = next == rows.end() ? first.step : next->step - first.step;
    if (first.step <= interval) return;  // the log begins with the run
    if (first_total_) {
        log_.skipped_before = first_total_->unseen;
        if (!first_total_->is_skipped_step) rows[first_total_->row].skipped = 0;
    }
    const auto count = static_cast<std::int64_t>(first_skips_);
    for (std::size_t i = 0; i < first_skips_; ++i) rows[i].step += first.step - std::max(count, interval);
    if (count == 0 || count < interval) return;
    are_first_skips_known_ = true;
    join(first, rows[first_skips_ - 1]);
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(first_skips_) - 1);
}

TrainingLog LogBuilder::finish() && {
    number_first_skips();
    log_.knows_skipped_steps = log_.knows_skipped_steps && are_first_skips_known_;
    std::stable_sort(log_.rows.begin(), log_.rows.end(),
                     [](const TrainingRow& a, const TrainingRow& b) { return a.step < b.step; });
    std::vector<TrainingRow> rows;
    std::size_t repeated = 0;
    for (TrainingRow& row : log_.rows) {
        if (row.skipped && !std::isfinite(*row.skipped)) row.skipped.reset();
        if (rows.empty() || rows.back().step != row.step) {
            rows.push_back(row);
        } else if (overlap(rows.back(), row)) {
            rows.back() = row, ++repeated;
        } else {
            join(rows.back(), row);
        }
    }
    log_.rows = std::move(rows);
    if (repeated > 0) {
        note(fmt::format("{} step{} repeated, as after a resume; the later values are used", repeated,
                         repeated == 1 ? " is" : "s are"));
    }
    if (!log_.knows_skipped_steps) {
        note(log_.has_step_numbers
                 ? "the log does not give the number of each skipped step; some of the numbers are estimated"
                 : "the log has no step numbers; a skipped step counts for the row after it");
    }
    return std::move(log_);
}

}  // namespace macheps::reports
