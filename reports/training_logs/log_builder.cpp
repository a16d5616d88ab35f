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
}

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

const std::string* LogBuilder::chosen_name(std::string_view quantity) const {
    const auto found = options_.columns.find(std::string(quantity));
    return found == options_.columns.end() ? nullptr : &found->second;
}

void LogBuilder::close_skips(std::int64_t step) {
    if (open_skips_ > 0 && step > last_step_ + open_skips_) log_.knows_skipped_steps = false;
    open_skips_ = 0;
    last_step_ = step;
}

void LogBuilder::add(const TrainingRow& row) {
    const bool is_skipped_step = open_skips_ > 0 && row.step == last_step_ + open_skips_;
    if (!is_skipped_step) log_.next_scale.reset();
    close_skips(row.step);
    log_.rows.push_back(row);
}

void LogBuilder::add_unnumbered(TrainingRow row) {
    row.step = ++unnumbered_;
    log_.has_step_numbers = false;
    if (open_skips_ > 1) log_.knows_skipped_steps = false;
    // The steps that were skipped since the previous row belong to this row.
    for (; open_skips_ > 0; --open_skips_) {
        row.skipped = row.skipped.value_or(0) + 1;
        row.loss_scale = log_.rows.back().loss_scale;
        log_.rows.pop_back();
    }
    log_.next_scale.reset();
    last_step_ = row.step;
    log_.rows.push_back(row);
}

void LogBuilder::add_evaluation(double eval_loss) {
    if (!log_.rows.empty()) log_.rows.back().eval_loss = eval_loss;
}

void LogBuilder::add_skip(std::optional<double> scale, std::optional<double> next_scale) {
    log_.rows.push_back({.step = last_step_ + ++open_skips_, .loss_scale = scale, .skipped = 1});
    log_.next_scale = next_scale;
}

void LogBuilder::add_total_skips(TrainingRow row, double total) {
    const double counted = static_cast<double>(open_skips_);
    const bool is_new = !total_skips_ || total < *total_skips_;  // a resumed run may count from zero again
    const double more = total - (is_new ? 0 : *total_skips_) - counted;
    // A skipped step that was reported just before may have the number of this row.
    const bool is_counted_here = !log_.rows.empty() && log_.rows.back().step == row.step && counted > 0;
    if (!is_counted_here) row.skipped = std::max(more, 0.0);
    total_skips_ = total;
    add(row);
}

TrainingLog LogBuilder::finish() && {
    std::stable_sort(log_.rows.begin(), log_.rows.end(),
                     [](const TrainingRow& a, const TrainingRow& b) { return a.step < b.step; });
    std::vector<TrainingRow> rows;
    std::size_t repeated = 0;
    for (const TrainingRow& row : log_.rows) {
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
        note("the log does not give the number of each skipped step; the earliest possible numbers are used");
    }
    return std::move(log_);
}

}  // namespace macheps::reports
