// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/check/inputs_output.hpp"

#include "core/format_table.hpp"
#include "core/text/json.hpp"
#include "core/text/quote.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::cmd::checks {

namespace {

using namespace check;

constexpr const char* sight_names[] = {"none", "missed", "caught", "certified"};
constexpr const char* sight_marks[] = {"", "-", "s", "c"};
constexpr const char* power_names[] = {"null", "structure", "precision", "all"};

/// Returns whether NumPy has a type for this format. Otherwise files hold its codes.
bool has_numpy_type(const Format& format) { return format == fp16 || format == fp32 || format == fp64; }

std::string sizes_text(const InputRequest& r) {
    std::vector<std::string> all;
    for (const std::string_view array : r.arrays())
        all.push_back(
            fmt::format("{} {} [{}]", array, format_name(r.format(array)), fmt::join(r.shape_of(array), ", ")));
    return fmt::format("{} -> {} [{}]", fmt::join(all, ", "), format_name(r.format("out")),
                       fmt::join(r.out_shape(), ", "));
}

/// Returns a table with a row for each wrong kernel and a column for each set of inputs. The columns are numbered,
/// because names of recipes are wider than the cells. A line below the table gives the names.
std::string table_text(const Coverage& coverage) {
    std::size_t width = 12;
    for (const Coverage::Line& line : coverage.lines) width = std::max(width, line.mutant.size());
    std::string text = fmt::format("  {:<{}}  {:<9}", "wrong kernel", width, "class");
    for (std::size_t i = 0; i < coverage.inputs.size(); ++i) text += fmt::format(" {:>2}", i + 1);
    text += '\n';
    for (const Coverage::Line& line : coverage.lines) {
        std::string row = fmt::format("  {:<{}}  {:<9}", line.mutant, width, line.kind);
        for (const Detection sight : line.detections)
            row += fmt::format(" {:>2}", sight_marks[static_cast<std::size_t>(sight)]);
        row.erase(row.find_last_not_of(' ') + 1);
        text += row + '\n';
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < coverage.inputs.size(); ++i)
        names.push_back(
            fmt::format("{} {}{}", i + 1, coverage.inputs[i], coverage.declined[i] >= 0 ? " (declined)" : ""));
    return text + fmt::format(
                      "  inputs: {}\n  c: caught whatever else the kernel does; s: caught if the kernel is otherwise "
                      "ideal; -: not caught\n",
                      fmt::join(names, ", "));
}

std::vector<std::string> names_of_lines(const std::vector<const Coverage::Line*>& lines) {
    std::vector<std::string> names;
    for (const Coverage::Line* line : lines) names.push_back(line->mutant);
    return names;
}

std::vector<std::string> names_of_inputs(const Coverage& coverage, const std::vector<std::size_t>& places) {
    std::vector<std::string> names;
    for (const std::size_t place : places) names.push_back(coverage.inputs[place]);
    return names;
}

}  // namespace

std::string made_text(const Coverage& coverage) {
    std::size_t caught = 0;
    std::vector<std::string> missed;
    for (const Coverage::Line& line : coverage.lines) {
        if (coverage.is_caught(line)) {
            ++caught;
        } else {
            missed.push_back(line.mutant);
        }
    }
    std::string text = fmt::format("  {} of {} wrong kernels would be caught", caught, coverage.lines.size());
    if (!missed.empty()) text += fmt::format("; not caught: {}", fmt::join(missed, ", "));
    return text + '\n';
}

std::string weakness_text(const Weakness& weakness) {
    if (!weakness.missed.empty())
        return fmt::format("no inputs reveal these wrong kernels: {}", fmt::join(weakness.missed, ", "));
    return "the declared machine guarantees no digit of most outputs, for any inputs";
}

std::string coverage_text(const InputPlan& plan, const Coverage& coverage, const std::vector<std::size_t>& least,
                          Power require) {
    const std::vector<std::string> blind = names_of_lines(coverage.blind(require));
    return fmt::format("{}  {}\n", plan.name, sizes_text(plan.request)) + table_text(coverage) + made_text(coverage) +
           fmt::format("  a least set: {}\n", fmt::join(names_of_inputs(coverage, least), ", ")) +
           (blind.empty() ? "" : fmt::format("  weak: no input reveals {}\n", fmt::join(blind, ", ")));
}

Json coverage_json(const InputPlan& plan, const Coverage& coverage, const std::vector<std::size_t>& least,
                   Power require) {
    Json inputs = Json::array(), lines = Json::array();
    for (std::size_t i = 0; i < coverage.inputs.size(); ++i)
        inputs.push_back({{"name", coverage.inputs[i]}, {"declined", coverage.declined[i]}});
    for (const Coverage::Line& line : coverage.lines) {
        Json detections = Json::array();
        for (const Detection sight : line.detections)
            detections.push_back(sight_names[static_cast<std::size_t>(sight)]);
        lines.push_back({{"mutant", line.mutant},
                         {"class", line.kind},
                         {"required_by", power_names[static_cast<std::size_t>(line.required_by)]},
                         {"sights", detections}});
    }
    return {{"name", plan.name},
            {"op", plan.request.declaration.operation->name},
            {"declared", declared_json(plan.request.declaration)},
            {"out", plan.request.out_shape()},
            {"require", power_names[static_cast<std::size_t>(require)]},
            {"inputs", inputs},
            {"power", lines},
            {"least", names_of_inputs(coverage, least)},
            {"blind", names_of_lines(coverage.blind(require))}};
}

std::string next_text(const MadeInputs& inputs, const std::string& folder, const std::string& ending) {
    std::vector<std::string> arrays, coded;
    for (const MadeArray& array : inputs.arrays) {
        arrays.push_back(fmt::format("x[\"{}\"]", array.name));
        if (!array.is_whole && !has_numpy_type(array.format.format)) coded.push_back(array.name);
    }
    if (!has_numpy_type(inputs.request.format("out"))) coded.emplace_back("out");
    const std::int64_t canaries = inputs.request.declaration.canaries;
    std::string text = "next:\n";
    if (ending == "npz") {
        const std::string program = fmt::format(
            "import numpy, pathlib; from my_kernels import kernel\n"
            "for f in [f for f in pathlib.Path({}).iterdir() if f.suffix == \".npz\"]: x = dict(numpy.load(f)); "
            "x[\"out\"][{}] = kernel({}); "
            "numpy.savez(f, **x)",
            json_ascii(folder), canaries > 0 ? fmt::format(":-{}", canaries) : ":", fmt::join(arrays, ", "));
        text += fmt::format("  python3 -c {}\n", shell_quoted(program));
    } else {
        text += fmt::format("  run the kernel on each file, and save its result as `out`, with the metadata `{}`\n",
                            recipe_array);
    }
    text += fmt::format("  macheps check {}\n", shell_word(folder));
    if (ending == "npz" && !coded.empty())
        text +=
            fmt::format("(unsigned integers hold the codes of {}; docs/check-inputs.md shows how to convert them)\n",
                        fmt::join(coded, ", "));
    return text;
}

std::string recipes_text() {
    std::string text;
    for (const auto& [title, recipes] :
         {std::pair{"Recipes of a gemm", product_recipes()}, {"Recipes of operations on rows", row_recipes()}}) {
        text += fmt::format("{}:\n", title);
        for (const Recipe& recipe : recipes)
            text += fmt::format("  {:<11} {} (reveals: {})\n", recipe.name, recipe.contents, recipe.shows);
    }
    return text;
}

}  // namespace macheps::cmd::checks
