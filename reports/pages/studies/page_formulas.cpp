// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/text/float_chars.hpp"
#include "core/ulp.hpp"
#include "reports/pages/measured_page.hpp"
#include "reports/pages/studies/analysis_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

namespace macheps::reports {

namespace {

/// Number of columns of a figure, maximum number of figures, and maximum number of curves of a figure. A column
/// combines neighbouring numbers of the format.
constexpr std::size_t point_columns = 150, max_point_figures = 8, max_point_curves = 8;

struct PointColumn {
    std::size_t count = 0;
    double bits = 0, most = 0;
};

/// The points of one formula. The x value of a point is a position as returned by place_of().
struct PointCurve {
    std::string expression{};
    std::vector<std::pair<double, double>> points{};  ///< position, bits
};

struct PointSet {
    std::string format{};
    std::vector<PointCurve> curves{};
    double least = HUGE_VAL, greatest = -HUGE_VAL;
};

std::optional<Format> format_of_points(const std::string& name) {
    try {
        return format_named(name, "format");
    } catch (const Error&) {
        return std::nullopt;  // only a newer version of macheps knows this format
    }
}

std::optional<double> value_of_point(const std::string& text) {
    double x = 0;
    const auto [end, error] = number_from_chars(text.data(), text.data() + text.size(), x);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(x) : std::nullopt;
}

/// Returns the position of a number among all numbers of the format. Neighbours are one apart.
double place_of(const Format& format, double x) {
    return static_cast<double>(ordinal(format, encode64(format, x, Round::nearest_even, Overflow::saturate)));
}

/// Groups the points by format and formula. Points of formulas with several inputs are left out, because a figure has
/// only one axis for inputs.
std::vector<PointSet> sets_of_points(std::span<const FormulaPointRow> rows) {
    std::vector<PointSet> sets;
    std::map<std::string, std::optional<Format>> formats;
    for (const FormulaPointRow& row : rows) {
        const std::optional<double> x = value_of_point(row.x);
        const auto [known, is_new] = formats.emplace(row.format, std::nullopt);
        if (is_new) known->second = format_of_points(row.format);
        if (!x || !known->second) continue;
        auto set =
            std::find_if(sets.begin(), sets.end(), [&](const PointSet& each) { return each.format == row.format; });
        if (set == sets.end()) set = sets.insert(sets.end(), PointSet{.format = row.format});
        auto curve = std::find_if(set->curves.begin(), set->curves.end(),
                                  [&](const PointCurve& each) { return each.expression == row.expression; });
        if (curve == set->curves.end())
            curve = set->curves.insert(set->curves.end(), PointCurve{.expression = row.expression});
        const double place = place_of(*known->second, *x);
        set->least = std::min(set->least, place), set->greatest = std::max(set->greatest, place);
        curve->points.emplace_back(place, row.bits);
    }
    return sets;
}

/// Returns ticks for zero and for powers of ten at their positions among the format's numbers.
std::vector<PlotTick> ticks_of_numbers(const Format& format, double least, double greatest) {
    std::vector<PlotTick> ticks;
    for (int e = -46; e <= 39; ++e) {
        for (const double sign : {-1.0, 1.0}) {
            const double x = sign * std::pow(10.0, e), place = place_of(format, x);
            const double largest = decode64(format, format.max_finite_code() << format.padding);
            if (place < least || place > greatest || place == 0 || std::fabs(x) > largest) continue;
            ticks.push_back({place, fmt::format("{:g}", x)});
        }
    }
    if (least <= 0 && greatest >= 0) ticks.push_back({0, "0"});
    std::sort(ticks.begin(), ticks.end(), [](const PlotTick& a, const PlotTick& b) { return a.at < b.at; });
    return ticks;
}

Plot plot_of_points(const PointSet& set, std::size_t number) {
    Plot plot{.id = fmt::format("bits-{}", number),
              .title = fmt::format("Bits of error in {}.", set.format),
              .caption =
                  "The numbers of the format in ascending order, in groups of neighbours. Solid line: mean error of a "
                  "group; dotted line: its largest error.",
              .x_name = "x",
              .y_name = "bits of error",
              .has_log_y = false,
              .x_ticks = ticks_of_numbers(*format_of_points(set.format), set.least, set.greatest)};
    const double width = std::max(1.0, (set.greatest - set.least + 1) / static_cast<double>(point_columns));
    for (std::size_t i = 0; i < std::min(set.curves.size(), max_point_curves); ++i) {
        std::map<std::int64_t, PointColumn> columns;
        for (const auto& [place, bits] : set.curves[i].points) {
            PointColumn& column = columns[static_cast<std::int64_t>(std::floor((place - set.least) / width))];
            ++column.count, column.bits += bits, column.most = std::max(column.most, bits);
        }
        PlotCurve mean{.name = set.curves[i].expression, .colour = i, .mark = Mark::none};
        PlotCurve most{.colour = i, .stroke = Stroke::dotted, .mark = Mark::none};
        for (const auto& [at, column] : columns) {
            const double place = set.least + (static_cast<double>(at) + 0.5) * width;
            mean.points.emplace_back(place, column.bits / static_cast<double>(column.count));
            most.points.emplace_back(place, column.most);
        }
        plot.curves.push_back(std::move(most)), plot.curves.push_back(std::move(mean));
    }
    if (set.curves.size() > max_point_curves)
        plot.caption +=
            fmt::format(" Only the first {} of {} formulas are shown.", max_point_curves, set.curves.size());
    return plot;
}

}  // namespace

Plots formula_plots(std::span<const FormulaPointRow> points) {
    Plots plots;
    for (const PointSet& set : sets_of_points(points)) {
        if (plots.shown.size() >= max_point_figures) {
            ++plots.left_out;
        } else {
            plots.shown.push_back(plot_of_points(set, plots.shown.size() + 1));
        }
    }
    return plots;
}

std::string formulas_html(std::span<const FormulaRow> rows, std::span<const FormulaPointRow> points) {
    if (rows.empty() && points.empty()) return {};
    std::string out =
        "<section id=\"formulas\" class=\"measured\">\n<h2>Formulas</h2>\n" + figures_html(formula_plots(points));
    if (!rows.empty()) out += "<h3>Rows</h3>\n" + table_of(rows).html();
    if (!points.empty()) out += "<h3>Points</h3>\n" + table_of(points).html();
    return out + "</section>\n";
}

}  // namespace macheps::reports
