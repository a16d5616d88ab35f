// SPDX-License-Identifier: Apache-2.0
// A figure of curves or marks as SVG, without a script: logarithmic or linear axes, or names along the x axis. Its colours are
// classes of the page's style, so that it follows the reader's theme; dashes and marks tell curves apart without any colour.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace macheps::reports {

enum class Stroke { none, solid, dashed, dotted };
enum class Mark { none, own, bar };

/// The colour of what all curves are compared with.
inline constexpr std::size_t plot_grey = static_cast<std::size_t>(-1);

struct PlotCurve {
    std::string name{};  ///< in the key; empty: of a curve that another one's name explains
    std::vector<std::pair<double, double>> points{};
    std::size_t colour = 0;  ///< of a cycle of eight; the marks of sixty-four differ
    Stroke stroke = Stroke::solid;
    Mark mark = Mark::own;
};

struct PlotTick {
    double at = 0;
    std::string text{};
};

struct Plot {
    std::string id{}, title{}, caption{}, x_name{}, y_name{};
    bool has_log_x = false, has_log_y = true;
    std::vector<PlotTick> x_ticks{};  ///< round numbers where there are none
    std::vector<PlotCurve> curves{};
};

/// A figure with its title, caption and key. Points that are not finite, or have no place on a logarithmic axis, are left out.
/// Nothing where no point is left.
std::string plot_figure(const Plot& plot);

/// The frame of a figure around an SVG with the id of which `macheps report --charts` makes a file's name.
std::string figure_html(const std::string& title, const std::string& caption, const std::string& svg,
                        const std::string& key);

/// Pixels that a label of 11 takes.
double label_width(const std::string& text);

}  // namespace macheps::reports
