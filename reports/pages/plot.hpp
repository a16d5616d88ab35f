// SPDX-License-Identifier: Apache-2.0
// Draws a figure of curves or marks as SVG, without a script. Axes are logarithmic or linear. The ticks of the x axis
// may be names. Colours are classes of the page's style, so the figure follows the reader's theme. Curves also differ
// in dashes and marks, so that they can be distinguished without colour.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::reports {

enum class Stroke { none, solid, dashed, dotted };
enum class Mark { none, own, bar };

/// The colour of the reference with which all curves are compared.
inline constexpr std::size_t plot_grey = static_cast<std::size_t>(-1);

struct PlotCurve {
    std::string name{};  ///< in the legend; empty if this curve needs no entry there
    std::vector<std::pair<double, double>> points{};
    std::size_t colour = 0;  ///< any number: there are 8 colours, but 64 distinct pairs of a colour and a mark
    Stroke stroke = Stroke::solid;
    Mark mark = Mark::own;
    std::vector<double> crosses{};  ///< x of crosses at the top edge, for values that have no place
    std::size_t mark_every = 1;  ///< number of points for each mark; curves of different colours begin at other points
};

struct PlotTick {
    double at = 0;
    std::string text{};
};

struct Plot {
    std::string id{}, title{}, caption{}, x_name{}, y_name{};
    bool has_log_x = false, has_log_y = true;
    bool has_zero = true;  ///< a linear y axis of positive numbers begins at 0
    double linear_y = 0;   ///< if above 0, the y axis is linear up to about this size, and logarithmic beyond it
    std::optional<std::array<double, 2>> y_range{};  ///< points outside this range are left out
    std::vector<PlotTick> x_ticks{};                 ///< if empty, the ticks are round numbers
    std::vector<PlotCurve> curves{};
};

/// Returns a figure with its title, caption and legend. Points that are not finite, or that have no place on a
/// logarithmic axis, are left out. Returns an empty string if no point is left.
std::string plot_figure(const Plot& plot);

/// The plots of a section of a page, and the number of plots that were left out because there are too many.
struct Plots {
    std::vector<Plot> shown{};
    std::size_t left_out = 0;
};
/// Returns the plots as figures in two columns, or an empty text if no plot has a point.
std::string figures_html(const Plots& plots);

/// Returns the plot as an SVG file for a paper. It has its legend but no title and no caption, a white background, and
/// text as text. Its width is that of a column, 360 px, or that of the longest name in the legend. Returns an empty
/// string if no point is left.
std::string plot_svg_file(const Plot& plot);

/// Returns an SVG file for a paper: its size in pixels, and its contents, which use the classes of plot_svg_file().
std::string svg_file(double width, double height, const std::string& contents);

/// The width of a figure for a paper in pixels.
inline constexpr double paper_width = 360;

/// Returns an HTML figure that contains `svg`, with a title, a caption and a legend. `macheps report --charts` names a
/// file after the id of the SVG.
std::string figure_html(const std::string& title, const std::string& caption, const std::string& svg,
                        const std::string& key);

/// Returns the width of a label in pixels, at a font size of 11.
double label_width(const std::string& text);

}  // namespace macheps::reports
