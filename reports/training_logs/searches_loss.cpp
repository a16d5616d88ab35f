// SPDX-License-Identifier: Apache-2.0
// Diagnoses of losses in training logs.
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/spikes.hpp"
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_searches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace macheps::reports {

namespace {

using Points = std::vector<LogPoint>;

/// Vocabularies of common tokenisers. A loss near their logarithm is that of a model that predicts all tokens equally.
constexpr std::int64_t vocabularies[] = {32000, 32064, 50257, 50304, 65536, 100277, 128256, 151936, 152064, 256000};

double log_of(std::int64_t vocabulary) { return std::log(static_cast<double>(vocabulary)); }

/// A line fitted to points whose x values are 0, 1, 2, ...: its slope, and the standard error of the slope.
struct Slope {
    double slope = 0, error = 0;
};
Slope slope_of(const Points& points) {
    const double n = static_cast<double>(points.size()), middle = (n - 1) / 2;
    const double mean = mean_of(points, 0, points.size());
    double products = 0, squares = 0, residuals = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const double x = static_cast<double>(i) - middle;
        products += x * (points[i].value - mean), squares += x * x;
    }
    const double slope = products / squares;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const double residual = points[i].value - mean - slope * (static_cast<double>(i) - middle);
        residuals += residual * residual;
    }
    return {slope, std::sqrt(residuals / (n - 2) / squares)};
}

/// Returns the standard deviation of the noise: that of the differences of neighbours, divided by sqrt(2). It is
/// computed from their median absolute deviation, so that single jumps do not count.
double noise_of(const Points& points, std::size_t first, std::size_t count) {
    std::vector<double> changes;
    for (std::size_t i = first + 1; i < first + count; ++i) changes.push_back(points[i].value - points[i - 1].value);
    if (changes.empty()) return 0;
    const double middle = middle_of(changes);
    for (double& change : changes) change = std::abs(change - middle);
    return SpikeRules::deviation_of_mad * middle_of(changes) / std::sqrt(2.0);
}

/// Returns the first loss of the run, or nothing if the log begins later.
std::optional<LogPoint> first_loss(const TrainingLog& log) {
    const Points losses = finite_points(log, &TrainingRow::loss);
    const bool is_first = !losses.empty() && losses.front().step == log.rows.front().step;
    return is_first && begins_at_start(log) ? std::optional(losses.front()) : std::nullopt;
}

/// Returns whether a first loss is about k ln V.
bool is_multiple(double loss, std::int64_t k, double log_vocabulary) {
    const double expected = static_cast<double>(k) * log_vocabulary;
    return std::abs(loss - expected) <= LogRules::gas_tolerance * expected;
}

/// Returns the numbers k of at least 2 for which a first loss is about k ln V. If V is not given, it may be any usual
/// size.
std::vector<std::int64_t> multiples_of(double loss, const std::optional<std::int64_t>& vocabulary) {
    std::vector<std::int64_t> found;
    for (std::int64_t k = 2; k <= LogRules::max_gas; ++k) {
        const double part = loss / static_cast<double>(k);
        const bool fits = vocabulary
                              ? is_multiple(loss, k, log_of(*vocabulary))
                              : part >= log_of(LogRules::min_vocabulary) && part <= log_of(LogRules::max_vocabulary);
        if (fits) found.push_back(k);
    }
    return found;
}

std::string times_words(const std::vector<std::int64_t>& multiples, const std::optional<std::int64_t>& vocabulary) {
    const std::string times = multiples.size() == 1 ? fmt::format("{}", multiples.front())
                                                    : fmt::format("{} to {}", multiples.front(), multiples.back());
    if (vocabulary) return fmt::format("{} times ln({})", times, *vocabulary);
    return fmt::format("{} times ln(V) for a vocabulary V of {} to {} tokens", times, LogRules::min_vocabulary,
                       LogRules::max_vocabulary);
}

/// The mean loss of each end of an epoch.
struct EpochEdge {
    std::int64_t step = 0;
    double drop = 0, before = 0, inner = 0;
};

/// Returns the drops of the loss between epochs that have enough rows.
std::vector<EpochEdge> edges_of(const TrainingLog& log) {
    constexpr std::size_t width = 5;
    std::map<double, Points> epochs;
    for (const TrainingRow& row : log.rows) {
        if (!row.epoch || !row.loss || !std::isfinite(*row.loss) || !std::isfinite(*row.epoch)) continue;
        epochs[std::ceil(*row.epoch)].push_back({row.step, *row.loss});
    }
    std::vector<EpochEdge> edges;
    const Points* before = nullptr;
    for (const auto& [epoch, points] : epochs) {
        if (points.size() < 2 * width) {
            before = nullptr;
            continue;
        }
        if (before != nullptr) {
            const double last = mean_of(*before, before->size() - width, width);
            edges.push_back({.step = points.front().step,
                             .drop = last - mean_of(points, 0, width),
                             .before = last,
                             .inner = std::abs(mean_of(*before, before->size() / 2, width) - last) +
                                      noise_of(*before, 0, before->size())});
        }
        before = &points;
    }
    return edges;
}

/// Returns whether a log without step numbers begins with the first step of the run: the epoch of the first row is at
/// most the mean distance of the epochs of two rows. Programs round epochs to two digits after the point. Returns false
/// if the log has no epochs.
bool begins_with_first_epoch(const TrainingLog& log) {
    constexpr double rounding = 0.005;
    const Points epochs = finite_points(log, &TrainingRow::epoch);
    if (epochs.size() < 2 || epochs.front().step != log.rows.front().step) return false;
    const double distance =
        (epochs.back().value - epochs.front().value) / static_cast<double>(epochs.back().step - epochs.front().step);
    return epochs.front().value <= distance + rounding;
}

}  // namespace

std::vector<LogPoint> finite_points(const TrainingLog& log, Quantity quantity) {
    Points points;
    for (const TrainingRow& row : log.rows) {
        if (row.*quantity && std::isfinite(*(row.*quantity))) points.push_back({row.step, *(row.*quantity)});
    }
    return points;
}

double mean_of(const std::vector<LogPoint>& points, std::size_t first, std::size_t count) {
    double sum = 0;
    for (std::size_t i = first; i < first + count; ++i) sum += points[i].value / static_cast<double>(count);
    return sum;
}

bool is_flat(const std::vector<LogPoint>& points) {
    if (points.size() < LogRules::window) return false;
    const auto [least, largest] = std::minmax_element(
        points.begin(), points.end(), [](const LogPoint& a, const LogPoint& b) { return a.value < b.value; });
    const double mean = mean_of(points, 0, points.size());
    if (!(largest->value - least->value < LogRules::flat_range * std::abs(mean))) return false;
    const Slope line = slope_of(points);
    return line.slope >= -LogRules::slope_errors * line.error;
}

std::int64_t steps_of_row(const TrainingLog& log, std::size_t row) {
    const std::vector<TrainingRow>& rows = log.rows;
    if (row > 0) return rows[row].step - rows[row - 1].step;
    const std::int64_t next = rows.size() > 1 ? rows[1].step - rows[0].step : 1;
    return std::clamp(rows[0].step, std::int64_t{1}, std::max(next, std::int64_t{1}));
}

bool begins_at_start(const TrainingLog& log) {
    if (!log.has_step_numbers) return begins_with_first_epoch(log);
    return !log.rows.empty() && log.rows[0].step <= steps_of_row(log, 0);
}

std::optional<LogSighting> find_nan_in_loss(const LogView& view) {
    const TrainingRow* first = nullptr;
    std::size_t count = 0, losses = 0;
    for (const TrainingRow& row : view.log.rows) {
        if (!row.loss) continue;
        ++losses;
        if (std::isfinite(*row.loss)) continue;
        ++count;
        if (first == nullptr) first = &row;
    }
    if (first == nullptr) return {};
    return LogSighting{.step = first->step,
                       .sentence = fmt::format("the loss of {} of {} rows is not finite (first: {})", count, losses,
                                               figure_text(*first->loss))};
}

std::optional<LogSighting> find_zero_loss(const LogView& view) {
    if (!view.log.form->may_hide_nan) return {};
    const TrainingRow* first = nullptr;
    std::size_t count = 0, without_norm = 0;
    for (const TrainingRow& row : view.log.rows) {
        const bool is_hidden = row.loss && *row.loss == 0 && (!row.grad_norm || !std::isfinite(*row.grad_norm));
        if (!is_hidden) continue;
        ++count;
        without_norm += row.grad_norm ? 0 : 1;
        if (first == nullptr) first = &row;
    }
    if (count < 2) return {};
    const std::string_view norm = without_norm == 0       ? ", and their gradient norm is not finite"
                                  : without_norm == count ? ""
                                                          : ", and their gradient norm is missing or not finite";
    return LogSighting{.certainty = Certainty::likely,
                       .step = first->step,
                       .sentence = fmt::format("the loss of {} rows is exactly 0{}; a log that filters NaN "
                                               "(logging_nan_inf_filter, on by default) shows 0 instead of a NaN loss",
                                               count, norm)};
}

std::optional<LogSighting> find_no_learning(const LogView& view) {
    const Points losses = finite_points(view.log, &TrainingRow::loss);
    if (!is_flat(losses)) return {};
    return LogSighting{
        .step = losses.front().step,
        .sentence = fmt::format("the loss does not fall: it stays within {:g} % of {:.5g} in {} rows",
                                100 * LogRules::flat_range, mean_of(losses, 0, losses.size()), losses.size())};
}

std::optional<LogSighting> find_plateau(const LogView& view) {
    const std::optional<std::int64_t>& given = view.options.vocabulary;
    if (!given && !view.log.form->has_token_loss) return {};
    Points losses = finite_points(view.log, &TrainingRow::loss);
    const bool is_flat_from_start = is_flat(losses);
    // A loss may first fall to the plateau, so only the second half has to be flat.
    losses.erase(losses.begin(), losses.begin() + std::ptrdiff_t(is_flat_from_start ? 0 : losses.size() / 2));
    if (!is_flat(losses)) return {};
    const double mean = mean_of(losses, 0, losses.size());
    const auto near_of = [&](double distance) {
        std::vector<std::int64_t> near(std::begin(vocabularies), std::end(vocabularies));
        if (given) near = {*given};
        std::erase_if(near, [&](std::int64_t vocabulary) { return !(std::abs(mean - log_of(vocabulary)) < distance); });
        return near;
    };
    const std::vector<std::int64_t> near = near_of(LogRules::plateau_distance);
    if (near.empty()) return {};
    const bool is_sharp = is_flat_from_start && !near_of(LogRules::sharp_plateau).empty();
    return LogSighting{
        .certainty = given || is_sharp ? Certainty::likely : Certainty::possible,
        .step = losses.front().step,
        .sentence = fmt::format("the loss stays at {:.5g}, which is about ln(V) for a vocabulary V of {} "
                                "tokens: the model predicts every token with the same probability",
                                mean, fmt::join(near, " or "))};
}

std::optional<LogSighting> find_loss_times_gas(const LogView& view) {
    const auto& [vocabulary, gas, columns] = view.options;
    const std::optional<LogPoint> first = first_loss(view.log);
    if (!first || (!vocabulary && !view.log.form->has_token_loss)) return {};
    const std::vector<std::int64_t> multiples = multiples_of(first->value, vocabulary);
    if (multiples.empty()) return {};
    const bool is_gas = gas && std::find(multiples.begin(), multiples.end(), *gas) != multiples.end();
    const std::string cause =
        is_gas ? fmt::format("the loss is the sum over the {} micro-batches of a step, not their mean", *gas)
               : "the loss may be the sum over the micro-batches of a step, a sum over ranks, or a different loss";
    return LogSighting{.certainty = is_gas && vocabulary ? Certainty::likely : Certainty::possible,
                       .step = first->step,
                       .sentence = fmt::format("the first loss, {:.5g}, is about {}: {}", first->value,
                                               times_words(multiples, vocabulary), cause)};
}

std::optional<LogSighting> find_far_first_loss(const LogView& view) {
    const std::optional<std::int64_t>& vocabulary = view.options.vocabulary;
    const std::optional<LogPoint> first = first_loss(view.log);
    if (!first || (!vocabulary && !view.log.form->has_token_loss)) return {};
    const double usual = log_of(vocabulary.value_or(LogRules::max_vocabulary));
    if (!(first->value > LogRules::far_loss * usual) || !multiples_of(first->value, vocabulary).empty()) return {};
    return LogSighting{
        .certainty = Certainty::possible,
        .step = first->step,
        .sentence = fmt::format("the first loss is {:.5g}, and a model that predicts every token with the same "
                                "probability has a loss of {} {:.3g}: the weights may be damaged or loaded in a wrong "
                                "format, the logits may overflow, or this is a sum or a different loss",
                                first->value, vocabulary ? "about" : "at most", usual)};
}

std::optional<LogSighting> find_jump_after_first_step(const LogView& view) {
    const std::optional<std::int64_t>& vocabulary = view.options.vocabulary;
    const std::optional<LogPoint> first = first_loss(view.log);
    if (!first || (!vocabulary && !view.log.form->has_token_loss)) return {};
    const Points losses = finite_points(view.log, &TrainingRow::loss);
    if (losses.size() < 3 || losses[1].step != first->step + 1) return {};
    const double jumped = losses[1].value;
    const double least = LogRules::least_of_ln_v * log_of(vocabulary.value_or(LogRules::min_vocabulary)),
                 most = LogRules::far_loss * log_of(vocabulary.value_or(LogRules::max_vocabulary));
    if (!(jumped >= LogRules::first_jump * first->value) || !(jumped >= least) || !(jumped <= most)) return {};
    const auto end = losses.begin() + std::ptrdiff_t(std::min(losses.size(), 2 + LogRules::rows_after_jump));
    const bool returns = std::any_of(losses.begin() + 2, end,
                                     [&](const LogPoint& later) { return later.value < (first->value + jumped) / 2; });
    if (returns) return {};
    return LogSighting{.certainty = vocabulary ? Certainty::likely : Certainty::possible,
                       .step = losses[1].step,
                       .sentence = fmt::format("the first loss is {:.4g}, and the next one is {:.4g}, about that of an "
                                               "untrained model: the first step replaced the weights by those of "
                                               "before loading, or its update was far too large",
                                               first->value, jumped)};
}

std::optional<LogSighting> find_divergence_after_spike(const LogView& view) {
    constexpr std::size_t window = LogRules::window, few = 5;
    const Points losses = finite_points(view.log, &TrainingRow::loss);
    for (std::size_t i = window; i + window <= losses.size(); ++i) {
        std::vector<double> before;
        for (std::size_t k = i - few; k < i; ++k) before.push_back(losses[k].value);
        const double jump = losses[i].value - middle_of(before);
        const double noise = noise_of(losses, i - window, window);
        if (!(jump > LogRules::notable_jump) || !(jump > LogRules::jump_deviations * noise)) continue;
        const double rise = mean_of(losses, losses.size() - window, window) - mean_of(losses, i - window, window);
        const double error = noise * std::sqrt(2.0 / window);
        if (!(rise > LogRules::lasting_rise) || !(rise > LogRules::jump_errors * error)) continue;
        return LogSighting{.step = losses[i].step,
                           .sentence = fmt::format("the loss jumped by {:.3g} nat, and the mean of the last {} rows is "
                                                   "{:.3g} nat above the mean of the {} rows before the jump",
                                                   jump, window, rise, window)};
    }
    return {};
}

std::optional<LogSighting> find_epoch_steps(const LogView& view) {
    const std::vector<EpochEdge> edges = edges_of(view.log);
    std::size_t drops = 0;
    const EpochEdge* first = nullptr;
    for (const EpochEdge& edge : edges) {
        const bool is_drop = edge.drop > LogRules::epoch_drop * edge.before && edge.drop > 3 * edge.inner;
        drops += is_drop ? 1 : 0;
        if (is_drop && first == nullptr) first = &edge;
    }
    if (first == nullptr || 2 * drops <= edges.size()) return {};
    return LogSighting{.certainty = Certainty::likely,
                       .step = first->step,
                       .sentence = fmt::format("the loss drops by {:.3g} nat where an epoch begins ({} of {} epoch{}): "
                                               "the model has memorised the data of the epoch before; rounding has no "
                                               "such effect",
                                               first->drop, drops, edges.size(), edges.size() == 1 ? "" : "s")};
}

}  // namespace macheps::reports
