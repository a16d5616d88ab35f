// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/line_chart.hpp"

#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

namespace macheps::reports {

namespace {

constexpr double chart_width = 560, chart_height = 260, left = 72, right = 12, top = 12, bottom = 40;
constexpr double character_width = 6.6;  // width in pixels of a wide digit in a label (font size 11)
/// Colours that people with colour blindness can distinguish (Okabe and Ito). Dashes distinguish further lines.
constexpr const char* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"};
constexpr const char* dashes[] = {"", "6 3", "2 3", "8 3 2 3"};

struct Range {
    double least = std::numeric_limits<double>::infinity(), greatest = -std::numeric_limits<double>::infinity();

    void add(double value) { least = std::min(least, value), greatest = std::max(greatest, value); }
    bool is_empty() const { return !(least <= greatest); }
};

/// Returns the smallest number that is at least `size` and is 1, 2 or 5 times a power of ten.
double round_step(double size) {
    const double power = std::pow(10.0, std::floor(std::log10(size)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (size <= factor * power) return factor * power;
    }
    return 10 * power;
}

class Drawing {
  public:
    explicit Drawing(const LineChart& chart) : chart_(chart) {
        for (const ChartLine& line : chart.lines) {
            for (const ChartPoint& p : line.points) {
                if (!is_good(p)) continue;
                x_.add(place(p.x));
                y_.add(p.least), y_.add(p.greatest);
            }
        }
        if (x_.is_empty()) return;
        for (const ChartLine& line : chart.lines) {
            for (const double x : line.crosses) x_.add(place(x));
        }
    }

    std::string svg() {
        if (x_.is_empty()) return {};
        y_.add(0);
        const double room = std::max(0.05 * (y_.greatest - y_.least), 1e-12);
        y_.least -= room, y_.greatest += room;
        if (x_.least == x_.greatest) x_.least -= 1, x_.greatest += 1;
        std::string out = fmt::format(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" "
            "aria-label=\"{}\">",
            escape_html(chart_.title), chart_width, chart_height, chart_width, escape_html(chart_.title));
        out += axes();
        std::string legend;
        std::size_t number = 0;
        for (const ChartLine& line : chart_.lines) {
            const std::string drawn = line_svg(line, number) + crosses_svg(line, number);
            if (drawn.empty()) continue;
            out += drawn;
            legend += fmt::format(
                "<span><svg width=\"26\" height=\"10\"><path d=\"M1 5H25\" stroke=\"{}\" stroke-width=\"2\" "
                "stroke-dasharray=\"{}\"/></svg> {}</span> ",
                colour(number), dash(number), escape_html(line.name));
            ++number;
        }
        return out + "</svg><div class=\"key\">" + legend + "</div></figure>\n";
    }

  private:
    static const char* colour(std::size_t number) { return colours[number % std::size(colours)]; }
    static const char* dash(std::size_t number) { return dashes[number / std::size(colours) % std::size(dashes)]; }
    double place(double x) const { return chart_.has_log_x ? std::log10(x) : x; }
    bool is_good(const ChartPoint& p) const {
        return std::isfinite(p.y) && std::isfinite(p.least) && std::isfinite(p.greatest) && std::isfinite(place(p.x));
    }
    double at_x(double placed) const {
        return left + (placed - x_.least) / (x_.greatest - x_.least) * (chart_width - left - right);
    }
    double at_y(double y) const {
        return chart_height - bottom - (y - y_.least) / (y_.greatest - y_.least) * (chart_height - top - bottom);
    }

    std::string axes() const {
        std::string out;
        const double step = round_step((y_.greatest - y_.least) / 5);
        for (double y = std::ceil(y_.least / step) * step; y <= y_.greatest; y += step) {
            const double shown = std::abs(y) < step / 2 ? 0 : y;
            out += fmt::format(
                "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
                "text-anchor=\"end\">{:.3g}</text>",
                left, at_y(y), chart_width - right, left - 6, at_y(y) + 4, shown);
        }
        double free_from = 0;  // right end of the previous label
        for (const double x : x_ticks()) {
            const std::string label = fmt::format("{:.3g}", x);
            const double width = character_width * static_cast<double>(label.size());
            const double middle = std::min(at_x(place(x)), chart_width - width / 2);
            if (middle - width / 2 < free_from) continue;
            free_from = middle + width / 2 + character_width;
            out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", middle,
                               chart_height - bottom + 16, label);
        }
        out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           (left + chart_width - right) / 2, chart_height - 6, escape_html(chart_.x_name));
        return out +
               fmt::format("<text transform=\"translate(13 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                           (top + chart_height - bottom) / 2, escape_html(chart_.y_name));
    }

    /// Returns the ticks of the x axis in ascending order. If there are at most eight x values, or if the axis is
    /// logarithmic, the ticks are the x values. Otherwise they are round numbers.
    std::vector<double> x_ticks() const {
        std::vector<double> ticks;
        for (const ChartLine& line : chart_.lines) {
            for (const ChartPoint& p : line.points) {
                if (is_good(p)) ticks.push_back(p.x);
            }
            ticks.insert(ticks.end(), line.crosses.begin(), line.crosses.end());
        }
        std::sort(ticks.begin(), ticks.end());
        ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
        if (ticks.size() <= 8 || chart_.has_log_x) return ticks;
        ticks.clear();
        const double step = round_step((x_.greatest - x_.least) / 6);
        for (double x = std::ceil(x_.least / step) * step; x <= x_.greatest; x += step) ticks.push_back(x);
        return ticks;
    }

    /// Draws the crosses of a line. Crosses of several lines at the same x are below each other.
    std::string crosses_svg(const ChartLine& line, std::size_t number) {
        constexpr double first = 6, distance = 12;
        std::string crosses;
        for (const double x : line.crosses) {
            crosses += fmt::format("<path d=\"M-4-4L4 4M-4 4L4-4\" transform=\"translate({:.1f} {:.1f})\"/>",
                                   at_x(place(x)), top + first + distance * crosses_at_[x]++);
        }
        if (crosses.empty()) return crosses;
        return fmt::format("<g class=\"line\" stroke=\"{}\">{}</g>", colour(number), crosses);
    }

    std::string line_svg(const ChartLine& line, std::size_t number) const {
        std::string path, above, below, dots;
        for (const ChartPoint& p : line.points) {
            if (!is_good(p)) continue;
            const double x = at_x(place(p.x));
            path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, at_y(p.y));
            above += fmt::format("{}{:.1f} {:.1f}", above.empty() ? "M" : "L", x, at_y(p.greatest));
            below = fmt::format("L{:.1f} {:.1f}", x, at_y(p.least)) + below;
            if (line.points.size() <= 8)
                dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", x, at_y(p.y));
        }
        if (path.empty()) return {};
        return fmt::format(
            "<g fill=\"{0}\" stroke=\"{0}\"><path class=\"band\" d=\"{1}{2}Z\"/><path class=\"line\" d=\"{3}\" "
            "stroke-dasharray=\"{4}\"/>{5}</g>",
            colour(number), above, below, path, dash(number), dots);
    }

    const LineChart& chart_;
    Range x_, y_;
    std::map<double, int> crosses_at_{};  ///< number of crosses drawn at each x
};

}  // namespace

std::string chart_svg(const LineChart& chart) { return Drawing(chart).svg(); }

}  // namespace macheps::reports
