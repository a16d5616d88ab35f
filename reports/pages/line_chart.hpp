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
};
struct LineChart {
    std::string title{}, x_name{}, y_name{};
    std::vector<ChartLine> lines{};
    bool has_log_x = false;
};

/// Returns the chart with a legend below. Points that are not finite and lines without points are left out.
std::string chart_svg(const LineChart& chart);

}  // namespace macheps::reports
