// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/paper.hpp"

#include "core/error.hpp"
#include "core/host/child_process.hpp"
#include "core/host/publish.hpp"
#include "core/text/quote.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/report/scratch_folder.hpp"
#include "reports/paper/latex_table.hpp"
#include "reports/paper/methods.hpp"
#include "reports/paper/paper_figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace macheps::cmd::report {

using namespace reports;

namespace {

namespace fs = std::filesystem;

/// A format of --as, and the options of rsvg-convert that make it; none for SVG. A pixel of the SVG is 1/96 inch, so
/// that a PNG has 384 pixels per inch.
struct FigureFormat {
    std::string_view name;
    std::vector<std::string> converter_options;
};
const FigureFormat figure_formats[] = {{"svg", {}}, {"pdf", {"--format=pdf"}}, {"png", {"--format=png", "--zoom=4"}}};

const FigureFormat* find_figure_format(std::string_view name) {
    const auto* found = std::find_if(std::begin(figure_formats), std::end(figure_formats),
                                     [&](const FigureFormat& format) { return format.name == name; });
    return found == std::end(figure_formats) ? nullptr : found;
}

Error no_converter(std::string what, const std::string& where) {
    return Error({.what = std::move(what),
                  .where = where,
                  .fix = "install rsvg-convert (Debian and Ubuntu: apt-get install librsvg2-bin), or write `--as svg`",
                  .exit = Exit::cannot_write});
}

/// Returns the figure in a format.
std::string converted(const PaperFigure& figure, const FigureFormat& format, const fs::path& file) {
    if (format.converter_options.empty()) return figure.svg;
    constexpr auto longest = std::chrono::seconds(60);
    const ScratchFolder scratch;
    const fs::path svg = scratch.path() / "figure.svg";
    publish(svg, figure.svg);
    std::vector<std::string> arguments = format.converter_options;
    arguments.push_back(svg.string());
    try {
        ProgramEnd end = run_program({.program = "rsvg-convert", .arguments = std::move(arguments)}, longest);
        if (end.has_succeeded() && !end.output.empty()) return std::move(end.output);
    } catch (const std::system_error&) {
        throw no_converter(fmt::format("rsvg-convert, which makes {} files, was not found on PATH", format.name),
                           file.string());
    }
    throw no_converter("rsvg-convert failed", file.string());
}

/// Returns the figures that the request asks for.
std::vector<PaperFigure> chosen_figures(const ChartRequest& request, const PaperContents& contents) {
    std::vector<PaperFigure> figures = contents.figures();
    std::vector<std::string> names;
    for (const PaperFigure& figure : figures) names.push_back(figure.name);
    if (figures.empty()) {
        throw usage_error("these files have no figure for a paper", "--charts",
                          "remove --paper to draw the charts of the page");
    }
    if (request.only.empty() || figures.size() == 1) return figures;
    std::erase_if(figures, [&](const PaperFigure& figure) { return figure.name != request.only; });
    if (!figures.empty()) return figures;
    throw usage_error(
        fmt::format("'{}' is not the name of a figure", request.only), "--charts",
        fmt::format("name one of {} ({}.{}), or pass a folder for all: --charts figures --as {} --paper",
                    fmt::join(names, ", "), names.front(), request.formats.front(), request.formats.front()));
}

/// Words of the table of machines that a reader of a paper may not know, and what they mean.
constexpr std::pair<std::string_view, std::string_view> plainer_words[] = {
    {"fma", "fused multiply-add"}, {"k ascending", "in ascending order of the index of summation"}};

std::string plainer(std::string text) {
    for (const auto& [word, meaning] : plainer_words) {
        if (const std::size_t at = text.find(word); at != std::string::npos) text.replace(at, word.size(), meaning);
    }
    return text;
}

/// Describes how a machine accumulates dot products. The entry may also contain the words of a rule: "sm90.wgmma.fp8,
/// promote add 128".
std::string words_of_machine(const std::string& entry) {
    const std::size_t comma = entry.find(", ");
    const Machine* machine = find_machine(std::string_view(entry).substr(0, comma));
    if (machine == nullptr) return {};
    const std::string rule = comma == std::string::npos ? "" : " with the rule " + entry.substr(comma + 2);
    const std::string name = fmt::format(" ({} in macheps)", machine->name);
    if (machine->instruction.empty())
        return fmt::format("as follows{}: {}{}", rule, plainer(std::string(machine->summary)), name);
    const std::string_view maker = machine->arch.starts_with("sm_") ? "NVIDIA " : "";
    return fmt::format("as by the matrix instruction {} of {}{}{}{}", machine->instruction, maker,
                       fmt::join(words_of(machine->arch), " and "), rule, name);
}

}  // namespace

ChartRequest chart_request(const fs::path& charts, const PaperOptions& options) {
    const std::string extension = charts.extension().string();
    std::error_code ignored;
    if (!extension.empty() && find_figure_format(extension.substr(1)) != nullptr &&
        !fs::is_directory(charts, ignored)) {
        if (!options.formats.empty()) {
            throw usage_error(
                fmt::format("--as needs a folder, but {} is the name of a file", charts.string()), "--charts",
                fmt::format("write --charts figures --as {} --paper, or remove --as", fmt::join(options.formats, ",")));
        }
        return {.folder = charts.parent_path(),
                .formats = {extension.substr(1)},
                .only = charts.stem().string(),
                .is_paper = true};
    }
    ChartRequest request{.folder = charts, .formats = options.formats, .is_paper = options.is_paper};
    if (request.formats.empty()) request.formats = {"png"};
    if (!request.is_paper && request.formats != std::vector<std::string>{"png"}) {
        throw usage_error("the charts of the page can only be drawn as PNG", "--as",
                          "add --paper, which draws figures for a paper in each of these formats");
    }
    return request;
}

PaperContents paper_of(const Log& log, const Summary& summary) {
    return {.table = [&] { return latex_table(summary); },
            .methods = [&] { return methods_text(log, summary, words_of_machine); },
            .figures = [&] { return paper_figures(log, summary); },
            .has_runs = !log.runs.empty()};
}

PaperContents paper_of(const SweepSummary& sweep) {
    return {.table = [&] { return latex_tables(sweep); },
            .methods = [&] { return methods_text(sweep, words_of_machine); },
            .figures = [&] { return paper_figures(sweep); }};
}

void write_texts(const PaperOptions& options, const PaperContents& contents) {
    if (!options.has_texts()) return;
    if (!contents.has_runs) {
        throw usage_error("there are no training runs to describe", options.latex.empty() ? "--methods" : "--latex",
                          "pass a run directory that `macheps train` wrote");
    }
    const std::pair<const fs::path&, std::string> texts[] = {
        {options.latex, options.latex.empty() ? "" : contents.table()},
        {options.methods, options.methods.empty() ? "" : contents.methods()}};
    for (const auto& [file, text] : texts) {
        if (file.empty()) continue;
        publish(file, text);
        eprint("wrote {}\n", file.string());
    }
}

std::vector<fs::path> write_figures(const ChartRequest& request, const PaperContents& contents) {
    const std::vector<PaperFigure> figures = chosen_figures(request, contents);
    if (!request.folder.empty()) make_folder(request.folder);
    std::vector<fs::path> files;
    const auto write = [&](const std::string& name, const std::string& contents) {
        files.push_back(request.folder / name);
        publish(files.back(), contents);
    };
    for (const PaperFigure& figure : figures) {
        for (const std::string& format : request.formats) {
            const std::string name = (request.only.empty() ? figure.name : request.only) + "." + format;
            write(name, converted(figure, *find_figure_format(format), request.folder / name));
        }
    }
    if (request.only.empty()) write("captions.tex", captions_tex(figures));
    return files;
}

}  // namespace macheps::cmd::report
