// SPDX-License-Identifier: Apache-2.0
// A figure of gaps with their intervals, one below the other, as an SVG file for a paper.
#pragma once
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace macheps::reports {

struct IntervalRow {
    std::string text{};
    std::size_t colour = 0;
    double gap = NAN, half_95 = 0, half_90 = 0;  ///< as shares of the fp32 loss; NaN has no mark
};

/// Returns a row without text for the gaps of the seeds.
IntervalRow interval_row(std::span<const double> seed_gaps, double fp32_loss);

/// Returns the figure, or an empty text without rows. The axis is linear within the margin and logarithmic far outside,
/// so that one large gap does not hide the others.
std::string interval_svg(const std::vector<IntervalRow>& rows, double margin);

/// Explains the marks of the figure, for its caption.
std::string interval_caption(double margin);

}  // namespace macheps::reports
