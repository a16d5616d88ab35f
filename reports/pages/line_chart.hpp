// SPDX-License-Identifier: Apache-2.0
// Draws a chart of lines with bands as SVG. The SVG has no script, so that a page with many charts stays small.
#pragma once
#include <string>
#include <vector>

namespace macheps::reports {

struct ChartPoint {
    double x = 0, y = 0, least = 0, greatest = 0;
};
struct ChartLine {
    std::string name{};
    std::vector<ChartPoint> points{};
    std::vector<double> crosses{};  ///< x of crosses at the top edge, for values that have no place
};
struct LineChart {
    std::string title{}, x_name{}, y_name{};
    std::vector<ChartLine> lines{};
    bool has_log_x = false;
};

/// Returns the chart with a legend below. Points that are not finite and lines without points and crosses are left out.
/// Returns an empty string if no point is left.
std::string chart_svg(const LineChart& chart);

}  // namespace macheps::reports
