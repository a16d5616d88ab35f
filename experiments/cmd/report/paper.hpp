// SPDX-License-Identifier: Apache-2.0
// The files that `macheps report` writes for a paper: a LaTeX table, a paragraph about the methods, and figures.
#pragma once
#include "reports/findings/divergence.hpp"
#include "reports/findings/sweep_summary.hpp"
#include "reports/paper/paper_figures.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace macheps::cmd::report {

struct PaperOptions {
    std::filesystem::path latex{}, methods{};
    bool is_paper = false;               ///< --paper
    std::vector<std::string> formats{};  ///< --as; empty if it is not given

    bool has_texts() const { return !latex.empty() || !methods.empty(); }
};

/// The figures that --charts, --as and --paper ask for.
struct ChartRequest {
    std::filesystem::path folder{};
    std::vector<std::string> formats{};  ///< of svg, pdf and png
    std::string only{};                  ///< the name of the only figure, or empty for all
    bool is_paper = false;               ///< drawn by this program, and not by a browser from the page
};

/// Interprets `charts`, which is a folder or a file such as loss.pdf. Errors: throws Error (usage) for options that do
/// not fit together.
ChartRequest chart_request(const std::filesystem::path& charts, const PaperOptions& options);

/// The texts and figures of one report. A function is called only if its result is asked for.
struct PaperContents {
    std::function<std::string()> table{}, methods{};
    std::function<std::vector<reports::PaperFigure>()> figures{};
    bool has_runs = true;
};
/// The results refer to the arguments.
PaperContents paper_of(const reports::Log& log, const reports::Summary& summary);
PaperContents paper_of(const reports::SweepSummary& sweep);

/// Writes the table and the paragraph. Errors: throws Error; Exit::usage if there are no runs.
void write_texts(const PaperOptions& options, const PaperContents& contents);

/// Writes the figures in each format, and captions.tex if all figures are asked for. Returns the files. SVG is written
/// by this program, and rsvg-convert makes PDF and PNG from it. Errors: throws Error; Exit::usage if there is no figure
/// of the name, Exit::cannot_write if rsvg-convert is missing.
std::vector<std::filesystem::path> write_figures(const ChartRequest& request, const PaperContents& contents);

}  // namespace macheps::cmd::report
