// SPDX-License-Identifier: Apache-2.0
// The figures of a report for a paper: SVG files without a title, with text as text, and their captions.
#pragma once
#include "reports/findings/divergence.hpp"
#include "reports/findings/sweep_summary.hpp"
#include "reports/pages/plot.hpp"

#include <span>
#include <string>
#include <vector>

namespace macheps::reports {

struct PaperFigure {
    std::string name{};     ///< name of its files, without ending: "loss"
    std::string svg{};      ///< contents of an SVG file
    std::string caption{};  ///< plain text
};

/// Returns the figures of a report. Runs have the figures `loss`, `gap` and `policies`, which shows the gap of each
/// policy with its intervals. Matrix products, sums, refinements and formulas have a figure for each combination of
/// data.
std::vector<PaperFigure> paper_figures(const Log& log, const Summary& summary);

/// Returns the figures of a sweep: `best` is the gap of each policy at its best value. For each axis of numbers, such as
/// `lr`, `loss-lr` and `gap-lr` show the loss and the gap over the axis. If there are other axes, there is a figure for
/// each combination of their values, numbered from 1. At most 12 combinations of an axis have figures.
std::vector<PaperFigure> paper_figures(const SweepSummary& sweep);

/// Appends a plot, if it has a point.
void append_plot(std::vector<PaperFigure>& figures, const Plot& plot);

/// Returns the text of captions.tex: a `figure` environment for each figure.
std::string captions_tex(std::span<const PaperFigure> figures);

}  // namespace macheps::reports
