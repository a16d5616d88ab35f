// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/plot.hpp"

#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

namespace macheps::reports {

namespace {

constexpr double plot_left = 66, plot_right = 14, plot_top = 12, plot_bottom = 46;
/// The size of a plot without its legend, in pixels.
struct PlotSize {
    double width = 600, height = 380;
};
constexpr PlotSize paper_size{.width = paper_width, .height = 240};
constexpr std::size_t plot_colours = 8;
constexpr const char* plot_marks[] = {"M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0Z",
                                      "M-3-3H3V3H-3Z",
                                      "M0-4L4 3H-4Z",
                                      "M0-4.2L4.2 0L0 4.2L-4.2 0Z",
                                      "M0 4L4-3H-4Z",
                                      "M-4-1.2H-1.2V-4H1.2V-1.2H4V1.2H1.2V4H-1.2V1.2H-4Z",
                                      "M-4-2L0-4L4-2V2L0 4L-4 2Z",
                                      "M-4 0L0-2.2L4 0L0 2.2Z"};

/// Formats a power of ten: 10⁻³, but 1, 10, 100 and 1000 in digits.
std::string power_text(int exponent) {
    if (exponent >= 0 && exponent <= 3) return fmt::format("{:.0f}", std::pow(10.0, exponent));
    constexpr const char* raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    std::string out = exponent < 0 ? "10⁻" : "10";
    for (const char digit : fmt::format("{}", std::abs(exponent))) out += raised[digit - '0'];
    return out;
}

/// Returns about `count` round numbers from `least` to `greatest`.
std::vector<PlotTick> linear_ticks(double least, double greatest, double count) {
    const double size = (greatest - least) / count, power = std::pow(10.0, std::floor(std::log10(size)));
    double step = 10 * power;
    for (const double factor : {5.0, 2.0, 1.0}) {
        if (size <= factor * power) step = factor * power;
    }
    std::vector<PlotTick> ticks;
    for (double at = std::ceil(least / step - 1e-9) * step; at <= greatest + 1e-9 * step; at += step) {
        const double shown = std::abs(at) < step / 2 ? 0 : at;
        ticks.push_back({shown, fmt::format("{:.4g}", shown)});
    }
    return ticks;
}

/// Returns about `count` powers of ten between two decimal logarithms. Returns round numbers if there are fewer than
/// two powers of ten.
std::vector<PlotTick> log_ticks(double least, double greatest, int count) {
    const int from = static_cast<int>(std::ceil(least - 1e-9)), to = static_cast<int>(std::floor(greatest + 1e-9));
    std::vector<PlotTick> ticks;
    if (to <= from) {
        for (const PlotTick& tick : linear_ticks(std::pow(10.0, least), std::pow(10.0, greatest), 4)) {
            if (tick.at > 0) ticks.push_back({std::log10(tick.at), tick.text});
        }
        return ticks;
    }
    const int step = std::max(1, (to - from + count - 1) / count);
    for (int e = from; e <= to; e += step) ticks.push_back({static_cast<double>(e), power_text(e)});
    return ticks;
}

/// Returns 0 and numbers 1 and 3 times a power of ten on both sides of it, for an axis on which y is at
/// asinh(y / linear). `least` and `greatest` are places on this axis. Leaves out numbers whose labels would overlap.
std::vector<PlotTick> asinh_ticks(double least, double greatest, double linear) {
    constexpr double min_distance = 0.08;
    std::vector<PlotTick> ticks;
    const auto add = [&](double number) {
        const double at = std::asinh(number / linear);
        if (at >= least && at <= greatest) ticks.push_back({at, fmt::format("{:.4g}", number)});
    };
    add(0);
    double last = 0;
    const double reach = std::max(std::abs(least), std::abs(greatest));
    for (double power = std::pow(10.0, std::floor(std::log10(linear)) - 1); std::asinh(power / linear) <= reach;
         power *= 10) {
        for (const double factor : {1.0, 3.0}) {
            const double place = std::asinh(factor * power / linear);
            if (place - last < min_distance * (greatest - least)) continue;
            last = place;
            add(factor * power), add(-factor * power);
        }
    }
    return ticks;
}

struct Extent {
    double least = std::numeric_limits<double>::infinity(), greatest = -std::numeric_limits<double>::infinity();
    void add(double value) { least = std::min(least, value), greatest = std::max(greatest, value); }
    bool is_empty() const { return !(least <= greatest); }
    void widen(double share) {
        const double room = least == greatest ? 0.5 : share * (greatest - least);
        least -= room, greatest += room;
    }
};

class PlotDrawing {
  public:
    explicit PlotDrawing(const Plot& plot, PlotSize size = {}) : plot_(plot), size_(size) {
        if (plot.y_range) min_y_ = place_y((*plot.y_range)[0]), max_y_ = place_y((*plot.y_range)[1]);
        for (const bool are_bounds : {false, true}) {
            for (const PlotCurve& curve : plot.curves) {
                if (is_bound(curve) != are_bounds) continue;
                for (const auto& point : curve.points) {
                    if (!has_place(point)) continue;
                    x_.add(place_x(point.first)), y_.add(place_y(point.second));
                }
            }
            // If a point of a bound is more than a factor of 1000 above or below all curves, it is left out, because it
            // would compress the curves.
            if (are_bounds || y_.is_empty() || !plot.has_log_y) continue;
            max_y_ = y_.greatest + 3, min_y_ = y_.least - 3;
        }
        if (x_.is_empty()) return;
        for (const PlotCurve& curve : plot.curves) {
            for (const double x : curve.crosses) x_.add(place_x(x));
        }
        for (const PlotTick& tick : plot.x_ticks) x_.add(place_x(tick.at));
        if (!plot.has_log_y && plot.has_zero && y_.least > 0) y_.least = 0;
        x_.widen(0.02), y_.widen(0.04);
    }

    std::string figure() const {
        if (x_.is_empty()) return {};
        std::string svg =
            fmt::format("<svg id=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", escape_html(plot_.id),
                        size_.width, size_.height, escape_html(plot_.title + " " + plot_.caption));
        std::string key;
        for (const PlotCurve* curve : named_curves()) {
            key += fmt::format("<span><svg width=\"28\" height=\"12\" aria-hidden=\"true\">{}</svg>{}</span>\n",
                               sample_svg(*curve), escape_html(curve->name));
        }
        return figure_html(plot_.title, plot_.caption, svg + axes() + curves_svg() + "</svg>", key);
    }

    /// Returns the plot with its legend below the axis, in as many lines as it needs.
    std::string file() const {
        if (x_.is_empty()) return {};
        constexpr double line_height = 16, sample_width = 34, space = 12;
        std::string legend;
        double x = 0, y = size_.height + 2, widest = size_.width;
        for (const PlotCurve* curve : named_curves()) {
            const double width = sample_width + label_width(curve->name);
            if (x > 0 && x + width > size_.width) x = 0, y += line_height;
            legend += fmt::format(
                "<g transform=\"translate({:.1f} {:.1f})\">{}</g><text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y,
                sample_svg(*curve), x + sample_width - 2, y + 10, escape_html(curve->name));
            x += width + space;
            widest = std::max(widest, width);  // a long name widens the figure
        }
        return svg_file(widest, y + (legend.empty() ? 0 : line_height + 2), axes() + curves_svg() + legend);
    }

  private:
    /// Returns the curves that have an entry in the legend.
    std::vector<const PlotCurve*> named_curves() const {
        std::vector<const PlotCurve*> named;
        for (const PlotCurve& curve : plot_.curves) {
            const bool has_points =
                std::any_of(curve.points.begin(), curve.points.end(), [&](const auto& p) { return has_place(p); });
            if (!curve.name.empty() && (has_points || !curve.crosses.empty())) named.push_back(&curve);
        }
        return named;
    }
    /// Draws the bounds first, so that the curves are on top.
    std::string curves_svg() const {
        std::string svg;
        for (const bool are_beneath : {true, false}) {
            for (const PlotCurve& curve : plot_.curves) {
                if (is_bound(curve) == are_beneath) svg += curve_svg(curve);
            }
        }
        return svg + crosses_svg();
    }
    /// Draws the crosses at the top edge. Crosses of several curves at the same x are below each other.
    std::string crosses_svg() const {
        constexpr double first = 6, distance = 11;
        std::map<double, int> used;
        std::string svg;
        for (const PlotCurve& curve : plot_.curves) {
            for (const double x : curve.crosses) {
                svg += fmt::format(
                    "<g class=\"{}\"><path class=\"cross\" transform=\"translate({:.1f} {:.1f})\" "
                    "d=\"M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5\"><title>{}: {:.4g}</title></path></g>\n",
                    colour_class(curve), at_x(place_x(x)), plot_top + first + distance * used[x]++,
                    escape_html(curve.name), x);
            }
        }
        return svg;
    }
    double place_x(double x) const { return plot_.has_log_x ? std::log10(x) : x; }
    double place_y(double y) const {
        return plot_.has_log_y ? std::log10(y) : plot_.linear_y > 0 ? std::asinh(y / plot_.linear_y) : y;
    }
    std::vector<PlotTick> y_ticks() const {
        if (plot_.has_log_y) return log_ticks(y_.least, y_.greatest, 9);
        if (plot_.linear_y > 0) return asinh_ticks(y_.least, y_.greatest, plot_.linear_y);
        return linear_ticks(y_.least, y_.greatest, 6);
    }
    bool has_place(const std::pair<double, double>& p) const {
        const double y = place_y(p.second);
        return std::isfinite(place_x(p.first)) && std::isfinite(y) && y >= min_y_ && y <= max_y_;
    }
    static bool is_bound(const PlotCurve& curve) {
        return curve.stroke == Stroke::dashed || curve.stroke == Stroke::dotted;
    }
    double at_x(double placed) const {
        return plot_left + (placed - x_.least) / (x_.greatest - x_.least) * (size_.width - plot_left - plot_right);
    }
    double at_y(double placed) const {
        return size_.height - plot_bottom -
               (placed - y_.least) / (y_.greatest - y_.least) * (size_.height - plot_top - plot_bottom);
    }

    std::string axes() const {
        std::string out;
        for (const PlotTick& tick : y_ticks()) {
            out += fmt::format(
                "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
                "text-anchor=\"end\">{}</text>",
                plot_left, at_y(tick.at), size_.width - plot_right, plot_left - 6, at_y(tick.at) + 4, tick.text);
        }
        std::vector<PlotTick> ticks =
            plot_.has_log_x ? log_ticks(x_.least, x_.greatest, 8) : linear_ticks(x_.least, x_.greatest, 7);
        if (!plot_.x_ticks.empty()) {
            ticks.clear();
            for (const PlotTick& tick : plot_.x_ticks) ticks.push_back({place_x(tick.at), tick.text});
        }
        double free_from = 0;  // right end of the previous label
        for (const PlotTick& tick : ticks) {
            const double half = label_width(tick.text) / 2;
            const double middle = std::min(at_x(tick.at), size_.width - half);
            out += fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>", at_x(tick.at),
                               size_.height - plot_bottom, size_.height - plot_bottom + 4);
            if (middle - half < free_from) continue;
            free_from = middle + half + 6;
            out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", middle,
                               size_.height - plot_bottom + 17, escape_html(tick.text));
        }
        out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           (plot_left + size_.width - plot_right) / 2, size_.height - 7, escape_html(plot_.x_name));
        return out +
               fmt::format("<text transform=\"translate(13 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                           (plot_top + size_.height - plot_bottom) / 2, escape_html(plot_.y_name));
    }

    static std::string stroke_class(Stroke stroke) {
        return stroke == Stroke::dashed ? "line dashed" : stroke == Stroke::dotted ? "line dotted" : "line";
    }
    static const char* mark_of(const PlotCurve& curve) {
        if (curve.mark == Mark::bar) return "M-8-1H8V1H-8Z";
        return plot_marks[(curve.colour + curve.colour / plot_colours) % std::size(plot_marks)];
    }
    static std::string colour_class(const PlotCurve& curve) {
        return curve.colour == plot_grey ? "grey" : fmt::format("c{}", curve.colour % plot_colours);
    }

    std::string curve_svg(const PlotCurve& curve) const {
        std::string path, marks;
        std::size_t until_mark = curve.colour % curve.mark_every;
        for (const auto& point : curve.points) {
            if (!has_place(point)) continue;
            const double x = at_x(place_x(point.first)), y = at_y(place_y(point.second));
            path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
            if (curve.mark == Mark::none || until_mark-- > 0) continue;
            until_mark = curve.mark_every - 1;
            marks += fmt::format(
                "<path transform=\"translate({:.1f} {:.1f})\" d=\"{}\"><title>{}: {:.4g}, {:.4g}</title></path>", x, y,
                mark_of(curve), escape_html(curve.name), point.first, point.second);
        }
        if (path.empty()) return {};
        std::string out = fmt::format("<g class=\"{}\">", colour_class(curve));
        if (curve.stroke != Stroke::none)
            out += fmt::format("<path class=\"{}\" d=\"{}\"/>", stroke_class(curve.stroke), path);
        return out + marks + "</g>\n";
    }
    /// Draws the line and the mark of a curve for the legend, 28 px wide and 12 px high.
    static std::string sample_svg(const PlotCurve& curve) {
        std::string sample;
        if (curve.stroke != Stroke::none)
            sample += fmt::format("<path class=\"{}\" d=\"M1 6H27\"/>", stroke_class(curve.stroke));
        if (curve.mark != Mark::none)
            sample += fmt::format("<path transform=\"translate(14 6)\" d=\"{}\"/>", mark_of(curve));
        return fmt::format("<g class=\"{}\">{}</g>", colour_class(curve), sample);
    }

    const Plot& plot_;
    const PlotSize size_;
    Extent x_, y_;
    double min_y_ = -std::numeric_limits<double>::infinity(), max_y_ = std::numeric_limits<double>::infinity();
};

}  // namespace

double label_width(const std::string& text) {
    constexpr double of_a_character = 6.4;
    const auto characters =
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    return of_a_character * static_cast<double>(characters);
}

std::string figure_html(const std::string& title, const std::string& caption, const std::string& svg,
                        const std::string& key) {
    return fmt::format("<figure>\n<figcaption><b>{}</b> {}</figcaption>\n<div class=\"drawn\">{}</div>\n{}</figure>\n",
                       escape_html(title), escape_html(caption), svg,
                       key.empty() ? key : "<div class=\"keys\">" + key + "</div>\n");
}

std::string plot_figure(const Plot& plot) { return PlotDrawing(plot).figure(); }
std::string figures_html(const Plots& plots) {
    std::string figures;
    for (const Plot& plot : plots.shown) figures += plot_figure(plot);
    return figures.empty() ? figures : "<div class=\"pair\">\n" + figures + "</div>\n";
}

std::string plot_svg_file(const Plot& plot) { return PlotDrawing(plot, paper_size).file(); }

std::string svg_file(double width, double height, const std::string& contents) {
    // The colours of the light theme of pages/assets/page.css.
    constexpr std::string_view style =
        "text { fill: #222; font-size: 11px; font-family: Helvetica, Arial, sans-serif; } .grid { stroke: #d5d9df; } "
        "g { color: #555; fill: currentColor; } .line { fill: none; stroke: currentColor; stroke-width: 1.6; } "
        ".dashed { stroke-width: 1.2; stroke-dasharray: 7 4; } .dotted { stroke-width: 1.2; stroke-dasharray: 1.5 3; } "
        ".cross { fill: none; stroke: currentColor; stroke-width: 1.6; } .grey .line { stroke-width: 4; opacity: .4; } "
        ".grey .dotted { stroke-width: 1.2; opacity: 1; } .c0 { color: #0072b2; } .c1 { color: #d55e00; } .c2 { color: "
        "#00805c; } .c3 { color: #b8529a; } .c4 { color: #9a6700; } .c5 { color: #2a8fd3; } .c6 { color: #7a5c3e; } "
        ".c7 { color: #222; } .band { fill: #e6e8ec; }";
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\">\n<style>{2}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}</svg>\n",
        width, height, style, contents);
}

}  // namespace macheps::reports
