// SPDX-License-Identifier: Apache-2.0
#include "core/format_table.hpp"
#include "reports/pages/measured_page.hpp"
#include "reports/pages/studies/analysis_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace macheps::reports {

namespace {

constexpr std::size_t max_sum_figures = 12, max_bounded = 3;

/// Returns the name of a row's data without its parameter: `cancel` for `cancel:16`.
std::string family_of_data(const SumRow& row) {
    const std::string name = row.data.substr(0, row.data.find(':'));
    return row.dot.value_or(0) != 0 ? name + ", dot products" : name;
}

/// Rows of one kind of data, in one format.
struct SumSet {
    std::string data{}, format{};
    std::vector<const SumRow*> rows{};

    bool has_several_sizes() const {
        return std::any_of(rows.begin(), rows.end(), [&](const SumRow* row) { return row->n != rows.front()->n; });
    }
    /// Returns whether the rows have equal sizes but different data, and thus different condition numbers. The figure
    /// then shows relative errors against the condition number.
    bool has_several_conditions() const {
        return !has_several_sizes() && std::any_of(rows.begin(), rows.end(),
                                                   [&](const SumRow* row) { return row->data != rows.front()->data; });
    }
};

std::vector<SumSet> sets_of_sums(std::span<const SumRow> rows) {
    std::vector<SumSet> sets;
    for (const SumRow& row : rows) {
        const std::string data = family_of_data(row);
        auto at = std::find_if(sets.begin(), sets.end(),
                               [&](const SumSet& set) { return set.data == data && set.format == row.format; });
        if (at == sets.end()) at = sets.insert(sets.end(), SumSet{.data = data, .format = row.format});
        at->rows.push_back(&row);
    }
    return sets;
}

/// The names of the curves. A name is the method of a row, followed by its rounding mode if rows differ in the mode.
class SumNames {
  public:
    explicit SumNames(std::span<const SumRow> rows) {
        std::set<std::string> rounds;
        for (const SumRow& row : rows) rounds.insert(row.round);
        rounds.erase("machine");
        has_rounds_ = rounds.size() > 1;
        for (const SumRow& row : rows) colours_.emplace(name(row), colours_.size());
    }
    std::string name(const SumRow& row) const {
        return has_rounds_ && row.round != "machine" ? row.method + ", " + row.round : row.method;
    }
    /// Returns the colour of a curve, which is the same in every figure.
    std::size_t colour(const std::string& name) const { return colours_.at(name); }

  private:
    bool has_rounds_ = false;
    std::map<std::string, std::size_t> colours_{};
};

/// Returns the factor that converts an error in units of u S (see SumRow) into an error relative to the exact sum.
double relative_factor(const SumRow& row) {
    const NamedFormat* format = find_format(row.format);
    if (format == nullptr || !row.cond) return NAN;
    return format->format.unit_roundoff() * *row.cond / (row.dot.value_or(0) != 0 ? 2 : 1);
}

/// Points (x, y) of several seeds. For each x, only the largest y is kept. The points are in ascending order of x.
class LargestAt {
  public:
    void add(double x, const std::optional<double>& y) {
        if (!y || !std::isfinite(*y)) return;
        const auto [at, is_new] = points_.emplace(x, *y);
        if (!is_new) at->second = std::max(at->second, *y);
    }
    std::vector<std::pair<double, double>> points() const { return {points_.begin(), points_.end()}; }
    bool is_zero() const {
        return !points_.empty() &&
               std::all_of(points_.begin(), points_.end(), [](const auto& point) { return point.second == 0; });
    }
    double last() const { return points_.empty() ? 0 : points_.rbegin()->second; }

  private:
    std::map<double, double> points_{};
};

struct SumCurve {
    LargestAt error{}, bound{}, probable{};
};

Plot plot_of_set(const SumSet& set, const SumNames& names, std::size_t number) {
    const bool is_relative = set.has_several_conditions();
    std::vector<std::string> order;
    std::map<std::string, SumCurve> curves;
    for (const SumRow* row : set.rows) {
        const std::string name = names.name(*row);
        if (!curves.contains(name)) order.push_back(name);
        SumCurve& curve = curves[name];
        const double x = is_relative ? row->cond.value_or(NAN) : static_cast<double>(row->n);
        const double factor = is_relative ? relative_factor(*row) : 1;
        const auto scaled = [&](const std::optional<double>& y) { return y ? std::optional(*y * factor) : y; };
        curve.error.add(x, scaled(row->trials > 1 ? row->rms_unit : row->error_unit));
        curve.bound.add(x, scaled(row->bound_unit));
        curve.probable.add(x, scaled(row->probable_unit));
    }
    std::vector<std::string> bounded = order, without;
    std::stable_sort(bounded.begin(), bounded.end(), [&](const std::string& a, const std::string& b) {
        return curves.at(a).error.last() > curves.at(b).error.last();
    });
    bounded.resize(std::min(bounded.size(), max_bounded));
    Plot plot{.id = fmt::format("sum-error-{}", number),
              .title = fmt::format("Errors of {} in {}.", set.data, set.format),
              .x_name = is_relative ? "condition number" : "terms n",
              .y_name = is_relative ? "|error| / |exact sum|" : "|error| / (u S)",
              .has_log_x = true};
    for (const std::string& name : order) {
        const SumCurve& curve = curves.at(name);
        if (curve.error.is_zero()) {
            without.push_back(name);
            continue;
        }
        const std::size_t colour = names.colour(name);
        plot.curves.push_back({.name = name, .points = curve.error.points(), .colour = colour});
        if (std::find(bounded.begin(), bounded.end(), name) == bounded.end()) continue;
        plot.curves.push_back(
            {.points = curve.bound.points(), .colour = colour, .stroke = Stroke::dashed, .mark = Mark::none});
        plot.curves.push_back(
            {.points = curve.probable.points(), .colour = colour, .stroke = Stroke::dotted, .mark = Mark::none});
    }
    plot.caption = fmt::format(
        "Dashed: certain bound; dotted: probable bound for errors with a mean of zero{}.{}{}",
        order.size() > max_bounded ? fmt::format(" (both only for the {} largest errors)", max_bounded) : "",
        set.rows.front()->trials > 1 ? " Errors are the root mean square over the trials." : "",
        without.empty() ? "" : fmt::format(" No error: {}.", fmt::join(without, ", ")));
    return plot;
}

/// Plots the sums of one seed, for the rows whose exact sum is positive. The curve of a sum that stagnates departs from
/// the grey line of the exact sums.
std::optional<Plot> plot_of_values(const std::vector<const SumRow*>& rows, const std::string& data,
                                   std::size_t number) {
    constexpr std::size_t max_curves = 12;
    std::vector<std::string> order;
    std::map<std::string, std::map<double, double>> curves;
    std::map<double, double> exact;
    for (const SumRow* row : rows) {
        if (!(row->exact > 0) || row->seed != rows.front()->seed) continue;
        const std::string name = row->format + " " + row->method +
                                 (row->round == "nearest_even" || row->round == "machine" ? "" : ", " + row->round);
        if (!curves.contains(name)) order.push_back(name);
        curves[name].emplace(static_cast<double>(row->n), row->value);
        exact.emplace(static_cast<double>(row->n), row->exact);
    }
    if (exact.size() < 2 || order.size() > max_curves) return std::nullopt;
    Plot plot{
        .id = fmt::format("sum-value-{}", number),
        .title = fmt::format("The sums of {}.", data),
        .caption =
            "Grey: the exact sum. A curve that leaves it and becomes flat has stagnated: no further term changes it.",
        .x_name = "terms n",
        .y_name = "sum",
        .has_log_x = true};
    plot.curves.push_back(
        {.name = "exact", .points = {exact.begin(), exact.end()}, .colour = plot_grey, .mark = Mark::none});
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto& points = curves.at(order[i]);
        plot.curves.push_back({.name = order[i], .points = {points.begin(), points.end()}, .colour = i});
    }
    return plot;
}

/// Compares methods side by side, for rows in which neither n nor the condition number varies.
std::optional<Plot> plot_of_methods(const std::vector<const SumRow*>& rows, const std::string& data,
                                    const SumNames& names, std::size_t number) {
    std::vector<std::string> methods, formats;
    const auto place_in = [](std::vector<std::string>& list, const std::string& name) {
        const auto at = std::find(list.begin(), list.end(), name);
        if (at != list.end()) return static_cast<double>(at - list.begin());
        list.push_back(name);
        return static_cast<double>(list.size() - 1);
    };
    for (const SumRow* row : rows) place_in(methods, names.name(*row)), place_in(formats, row->format);
    if (methods.size() < 2) return std::nullopt;
    Plot plot{.id = fmt::format("sum-methods-{}", number),
              .title = fmt::format("Methods on {}.", data),
              .caption = "Bars: certain bound. A method without a mark has no error.",
              .x_name = "method",
              .y_name = "|error| / (u S)"};
    for (std::size_t i = 0; i < methods.size(); ++i) plot.x_ticks.push_back({static_cast<double>(i), methods[i]});
    for (std::size_t k = 0; k < formats.size(); ++k) {
        const double shift = (static_cast<double>(k) - (static_cast<double>(formats.size()) - 1) / 2) * 0.7 /
                             static_cast<double>(formats.size());
        LargestAt errors, bounds;
        for (const SumRow* row : rows) {
            if (row->format != formats[k]) continue;
            const double x = place_in(methods, names.name(*row)) + shift;
            errors.add(x, row->trials > 1 ? row->rms_unit : row->error_unit);
            bounds.add(x, row->bound_unit);
        }
        plot.curves.push_back({.name = formats[k], .points = errors.points(), .colour = k, .stroke = Stroke::none});
        plot.curves.push_back({.points = bounds.points(), .colour = k, .stroke = Stroke::none, .mark = Mark::bar});
    }
    return plot;
}

}  // namespace

Plots sum_plots(std::span<const SumRow> rows) {
    Plots plots;
    const SumNames names(rows);
    std::map<std::string, std::vector<const SumRow*>> moving, standing;
    for (const SumSet& set : sets_of_sums(rows)) {
        std::vector<const SumRow*>& same_data = (set.has_several_sizes() ? moving : standing)[set.data];
        if (!set.has_several_conditions()) same_data.insert(same_data.end(), set.rows.begin(), set.rows.end());
        if (!set.has_several_sizes() && !set.has_several_conditions()) continue;
        if (plots.shown.size() >= max_sum_figures) {
            ++plots.left_out;
        } else {
            plots.shown.push_back(plot_of_set(set, names, plots.shown.size() + 1));
        }
    }
    const auto add = [&](std::optional<Plot> plot) {
        if (plot) plots.shown.push_back(std::move(*plot));
    };
    std::size_t number = 0;
    for (const auto& [data, of_data] : moving) add(plot_of_values(of_data, data, ++number));
    number = 0;
    for (const auto& [data, of_data] : standing) {
        if (!of_data.empty()) add(plot_of_methods(of_data, data, names, ++number));
    }
    return plots;
}

std::string sums_html(std::span<const SumRow> rows) {
    if (rows.empty()) return {};
    const Plots plots = sum_plots(rows);
    std::string out = "<section id=\"sums\" class=\"measured\">\n<h2>Sums</h2>\n" + figures_html(plots);
    if (plots.left_out > 0) {
        out += fmt::format("<p class=\"how\">{} more combinations of data and format have no figure.</p>\n",
                           plots.left_out);
    }
    return out + "<h3>Rows</h3>\n" + table_of(rows).html() + "</section>\n";
}

}  // namespace macheps::reports
