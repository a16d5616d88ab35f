// SPDX-License-Identifier: Apache-2.0
// Tests docs/analysis.md and docs/lessons.md: every command runs, and every cell of a table agrees with the output of
// the command above it.
#include "tests/program/program.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace analysis_page_test {

using namespace macheps::test;

namespace {

using Cells = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

Cells split(const std::string& line, char at) {
    Cells cells{""};
    bool is_quoted = false;  // the name of a matrix may contain a comma
    for (const char c : line) {
        if (c == '"') {
            is_quoted = !is_quoted;
        } else if (c == at && !is_quoted) {
            cells.emplace_back();
        } else {
            cells.back().push_back(c);
        }
    }
    return cells;
}

/// Returns the cells of a table row: a and b for `| a | b |`.
Cells cells_of(const std::string& line) {
    Cells cells;
    const Cells parts = split(line, '|');
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
        const std::size_t first = parts[i].find_first_not_of(' '), last = parts[i].find_last_not_of(' ');
        cells.push_back(first == std::string::npos ? "" : parts[i].substr(first, last - first + 1));
    }
    return cells;
}

/// A command of the page and the table below it.
struct Example {
    std::string command;
    Cells columns{};
    std::vector<Cells> rows{};
};

std::vector<Example> examples_of(const std::vector<std::string>& lines) {
    std::vector<Example> examples;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (!lines[i].starts_with("macheps ")) continue;
        Example example{.command = lines[i].substr(8)};
        while (i < lines.size() && !lines[i].starts_with("|")) ++i;
        example.columns = cells_of(lines.at(i));
        for (i += 2; i < lines.size() && lines[i].starts_with("|"); ++i) example.rows.push_back(cells_of(lines[i]));
        examples.push_back(std::move(example));
    }
    return examples;
}

/// Returns a cell as the page prints it: fractions are rounded to three significant digits.
std::string printed(const std::string& cell) {
    const bool is_fraction = !cell.empty() && cell.find_first_not_of("-0123456789.e+") == std::string::npos &&
                             cell.find_first_of(".e") != std::string::npos && cell.front() != 'e';
    if (!is_fraction) return cell;
    char text[32];
    std::snprintf(text, sizeof text, "%.2e", std::stod(cell));
    return text;
}

}  // namespace

TEST_CASE("every table on the pages about numerical analysis agrees with its command's output", "[program][docs]") {
    struct Page {
        const char* file;
        std::size_t examples;
    };
    const Page page = GENERATE(Page{"docs/analysis.md", 8}, Page{"docs/lessons.md", 12});
    const std::vector<Example> examples = examples_of(lines_of(contents(fs::path(MACHEPS_SOURCE_DIR) / page.file)));
    REQUIRE(examples.size() >= page.examples);
    for (const Example& example : examples) {
        CAPTURE(example.command);
        const Outcome outcome = run(example.command + " -q");
        CHECK(outcome.code == (example.command.find("--digit-bits") == std::string::npos ? 0 : 1));
        const std::vector<std::string> lines = lines_of(outcome.out);
        REQUIRE(lines.size() == example.rows.size() + 1);
        std::map<std::string, std::size_t> index;
        for (const std::string& name : split(lines[0], ',')) index.emplace(name, index.size());
        for (std::size_t i = 0; i < example.rows.size(); ++i) {
            const Cells got = split(lines[i + 1], ',');
            for (std::size_t c = 0; c < example.columns.size(); ++c) {
                CAPTURE(example.columns[c], i);
                CHECK(printed(got.at(index.at(example.columns[c]))) == example.rows[i].at(c));
            }
        }
    }
}

}  // namespace analysis_page_test
