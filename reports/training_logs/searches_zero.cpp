// SPDX-License-Identifier: Apache-2.0
// Diagnoses of quantities that stay at 0 or at another value, and of the evaluation loss.
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_searches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace macheps::reports {

namespace {

/// Usual limits of the gradient norm (max_grad_norm).
constexpr double usual_limits[] = {0.1, 0.25, 0.3, 0.5, 1, 2, 5, 10};

/// The rows at the end of a log in which a quantity is 0.
struct Zeros {
    std::int64_t first_step = 0;
    std::size_t count = 0, rows = 0;  ///< number of these rows, and of all rows with the quantity
    std::optional<double> before{};   ///< the last value before them
};

/// Returns the rows at the end in which a quantity is 0 and `counts` is true. Rows without the quantity are left out.
Zeros zeros_at_end(const TrainingLog& log, Quantity quantity, const std::function<bool(const TrainingRow&)>& counts) {
    Zeros zeros;
    for (const TrainingRow& row : log.rows) {
        if (!(row.*quantity)) continue;
        ++zeros.rows;
        if (*(row.*quantity) != 0 || !counts(row)) {
            zeros.count = 0;
            zeros.before = *(row.*quantity);
            continue;
        }
        if (zeros.count++ == 0) zeros.first_step = row.step;
    }
    return zeros;
}

std::string rows_text(const Zeros& zeros) {
    return zeros.count == zeros.rows ? fmt::format("all {} rows", zeros.rows)
                                     : fmt::format("the last {} of {} rows", zeros.count, zeros.rows);
}

/// Returns whether a row shows that the weights or the loss were not finite.
bool is_bad(const TrainingRow& row, bool may_hide_nan) {
    const bool has_bad_loss = row.loss && (!std::isfinite(*row.loss) || (may_hide_nan && *row.loss == 0));
    return has_bad_loss || (row.grad_norm && !std::isfinite(*row.grad_norm) && row.skipped.value_or(0) == 0);
}

}  // namespace

std::optional<LogSighting> find_zero_gradient(const LogView& view) {
    const Zeros zeros = zeros_at_end(view.log, &TrainingRow::grad_norm, [](const TrainingRow&) { return true; });
    if (zeros.count < min_training_rows) return {};
    return LogSighting{.step = zeros.first_step,
                       .sentence = fmt::format("the gradient norm is 0 in {}: no gradient reaches the trained weights",
                                               rows_text(zeros))};
}

std::optional<LogSighting> find_zero_loss_with_norm(const LogView& view) {
    const bool may_hide = view.log.form->may_hide_nan;
    const Zeros zeros = zeros_at_end(view.log, &TrainingRow::loss, [may_hide](const TrainingRow& row) {
        return row.grad_norm ? std::isfinite(*row.grad_norm) : !may_hide;
    });
    const bool is_learned = zeros.before && std::abs(*zeros.before) < LogRules::learned_loss;
    if (zeros.count < min_training_rows || is_learned) return {};
    return LogSighting{
        .step = zeros.first_step,
        .sentence = fmt::format("the loss is exactly 0 in {}, and did not fall to 0 gradually", rows_text(zeros))};
}

std::optional<LogSighting> find_zero_rate(const LogView& view) {
    const Zeros zeros = zeros_at_end(view.log, &TrainingRow::lr, [](const TrainingRow&) { return true; });
    if (zeros.count < min_training_rows || zeros.count < zeros.rows) return {};
    return LogSighting{
        .step = zeros.first_step,
        .sentence = fmt::format("the learning rate is 0 in {}: no step changes the weights", rows_text(zeros))};
}

std::optional<LogSighting> find_nan_in_eval(const LogView& view) {
    const std::vector<TrainingRow>& rows = view.log.rows;
    const auto first = std::find_if(rows.begin(), rows.end(), [](const TrainingRow& row) {
        return row.eval_loss && !std::isfinite(*row.eval_loss);
    });
    if (first == rows.end()) return {};
    const bool may_hide = view.log.form->may_hide_nan;
    const bool is_bad_before =
        std::any_of(rows.begin(), first + 1, [may_hide](const TrainingRow& row) { return is_bad(row, may_hide); });
    if (is_bad_before || !view.log.has(&TrainingRow::loss)) return {};
    return LogSighting{.step = first->step,
                       .sentence = fmt::format("the loss of the evaluation is {}, although the losses of training are "
                                               "finite up to there",
                                               std::isnan(*first->eval_loss) ? "NaN" : "infinite")};
}

std::optional<LogSighting> find_constant_norm(const LogView& view) {
    const std::vector<LogPoint> norms = finite_points(view.log, &TrainingRow::grad_norm);
    if (norms.size() < LogRules::window) return {};
    const auto ends = std::minmax_element(norms.begin(), norms.end(),
                                          [](const LogPoint& a, const LogPoint& b) { return a.value < b.value; });
    const double low = ends.first->value, high = ends.second->value;
    const bool is_limit = std::any_of(std::begin(usual_limits), std::end(usual_limits), [&](double limit) {
        return std::abs(low - limit) <= LogRules::constant_range * limit &&
               std::abs(high - limit) <= LogRules::constant_range * limit;
    });
    if (!is_limit) return {};
    return LogSighting{
        .certainty = Certainty::likely,
        .step = norms.front().step,
        .sentence = fmt::format("the gradient norm is {:.4g} in all {} rows: it is measured after clipping to this "
                                "value{}, so it does not show whether gradients grow",
                                high, norms.size(), high == 1 ? ", or it stands for a norm that is not finite" : "")};
}

}  // namespace macheps::reports
