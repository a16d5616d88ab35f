// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/sweep_summary.hpp"

#include "core/text/shown.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace macheps::reports {

void GapCurve::add(const std::vector<StepRow>& steps, const std::vector<StepRow>& baseline, std::int64_t all_steps) {
    if (length_ == 0) length_ = std::max(1.0, std::ceil(static_cast<double>(all_steps) / max_points));
    std::array<double, max_points> sums{};
    std::array<std::int64_t, max_points> counts{};
    const std::size_t count = std::min(steps.size(), baseline.size());
    for (std::size_t i = 0; i < count; ++i) {
        const double gap = steps[i].loss - baseline[i].loss;
        const auto at = static_cast<std::size_t>(static_cast<double>(steps[i].step) / length_);
        if (!std::isfinite(gap) || at >= max_points || steps[i].step != baseline[i].step) continue;
        sums[at] += gap, ++counts[at];
    }
    for (std::size_t at = 0; at < max_points; ++at) {
        if (counts[at] == 0) continue;
        Stretch& stretch = stretches_[at];
        const double mean = sums[at] / static_cast<double>(counts[at]);
        stretch.least = stretch.runs == 0 ? mean : std::min(stretch.least, mean);
        stretch.greatest = stretch.runs == 0 ? mean : std::max(stretch.greatest, mean);
        stretch.sum += mean, ++stretch.runs;
    }
}

std::vector<GapCurve::Point> GapCurve::points() const {
    std::vector<Point> points;
    for (std::size_t at = 0; at < max_points; ++at) {
        const Stretch& stretch = stretches_[at];
        if (stretch.runs == 0) continue;
        points.push_back({(static_cast<double>(at) + 0.5) * length_, stretch.sum / static_cast<double>(stretch.runs),
                          stretch.least, stretch.greatest});
    }
    return points;
}

std::optional<double> axis_number(const std::string& value) {
    const bool is_power = value.starts_with("2^");
    double number = 0;
    const char* const first = value.data() + (is_power ? 2 : 0);
    const auto [end, error] = std::from_chars(first, value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(number)) return std::nullopt;
    return is_power ? std::exp2(number) : number;
}

std::vector<BestRate> best_rates(const SweepSummary& sweep) {
    const auto axis = std::find(sweep.axes.begin(), sweep.axes.end(), "lr");
    if (axis == sweep.axes.end()) return {};
    const auto at = static_cast<std::size_t>(axis - sweep.axes.begin());
    using Key = std::pair<std::vector<std::string>, std::string>;
    std::map<Key, BestRate> best;
    std::vector<Key> order;
    for (const SweepRow& row : sweep.rows) {
        const double loss = row.policy.row.loss;
        if (at >= row.values.size()) continue;
        std::vector<std::string> others = row.values;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
        const Key key{others, row.policy.row.policy};
        const auto [found, is_new] = best.try_emplace(key);
        if (is_new) order.push_back(key);
        BestRate& rate = found->second;
        if (is_new) rate = {.policy = key.second, .others = others, .rate = {}, .fp32_rate = {}, .loss = NAN};
        const bool is_good = std::isfinite(loss) && row.policy.row.verdict != verdicts::diverged;
        if (is_good && !(rate.loss <= loss)) rate.loss = loss, rate.rate = row.values[at];
    }
    std::vector<BestRate> rates;
    for (const Key& key : order) {
        BestRate rate = best.at(key);
        const auto fp32 = best.find({key.first, std::string(baseline_policy)});
        if (fp32 != best.end()) rate.fp32_rate = fp32->second.rate;
        rate.moved = rate.rate != rate.fp32_rate;
        rates.push_back(std::move(rate));
    }
    return rates;
}

std::string sweep_summary_csv(const SweepSummary& sweep) {
    std::string text = csv::header<SummaryRow>();
    for (const std::string& axis : sweep.axes) text += ',', csv::append_cell(text, std::string_view(axis));
    text += '\n';
    for (const SweepRow& row : sweep.rows) {
        csv::append_line(text, row.policy.row);
        text.pop_back();
        for (const std::string& value : row.values) text += ',', csv::append_cell(text, std::string_view(value));
        text += '\n';
    }
    return text;
}

std::string sweep_summary_text(const SweepSummary& sweep) {
    std::vector<std::vector<std::string>> lines{sweep.axes};
    for (const char* name : {"policy", "seeds", "loss", "gap", "verdict"}) lines.front().emplace_back(name);
    for (const SweepRow& row : sweep.rows) {
        std::vector<std::string> line = row.values;
        const SummaryRow& r = row.policy.row;
        line.push_back(r.policy);
        line.push_back(fmt::format("{}", r.seeds));
        line.push_back(fmt::format("{:.4f}", r.loss));
        line.push_back(r.verdict == verdicts::baseline ? "-" : gap_words(r));
        line.push_back(r.verdict);
        lines.push_back(std::move(line));
    }
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto& line : lines) {
        for (std::size_t i = 0; i < widths.size() && i < line.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    }
    std::string text;
    for (const auto& line : lines) {
        std::string one;
        for (std::size_t i = 0; i < line.size(); ++i) one += fmt::format("{:<{}}  ", printable(line[i]), widths[i]);
        text += one.substr(0, one.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

}  // namespace macheps::reports
