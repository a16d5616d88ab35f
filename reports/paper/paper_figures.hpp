// SPDX-License-Identifier: Apache-2.0
// The figures of a report for a paper: SVG files without a title, with text as text, and their captions.
#pragma once
#include "reports/findings/divergence.hpp"

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

/// Returns the text of captions.tex: a `figure` environment for each figure.
std::string captions_tex(std::span<const PaperFigure> figures);

}  // namespace macheps::reports
