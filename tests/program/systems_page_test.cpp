// SPDX-License-Identifier: Apache-2.0
// Runs the commands of docs/guides.md, and compares their exit codes and their output with the page.
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <string>
#include <vector>

namespace systems_page_test {

using namespace macheps::test;

namespace {

/// Returns the cells of a table row. A cell may contain `|` only between backquotes.
std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    bool is_code = false;
    for (const char c : line) {
        if (c == '`') is_code = !is_code;
        if (c == '|' && !is_code)
            cells.emplace_back();
        else if (!cells.empty())
            cells.back() += c;
    }
    for (std::string& cell : cells) {
        const std::size_t from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
        cell = from == std::string::npos ? std::string{} : cell.substr(from, to - from + 1);
    }
    return cells;
}

std::string without_quotes(const std::string& cell) {
    return cell.size() > 2 && cell.front() == '`' && cell.back() == '`' ? cell.substr(1, cell.size() - 2) : cell;
}

/// Writes every config on the page to a file with the name that the page gives. Returns the number of configs.
int write_configs(const std::string& page) {
    const std::vector<Match> configs = all_matches(page, "\n`([a-z0-9_]+\\.(?:yaml|json))`\n\n```(?:yaml|json)\n");
    for (const Match& each : configs) write(each[1], page.substr(each.end, page.find("```", each.end) - each.end));
    return static_cast<int>(configs.size());
}

}  // namespace

TEST_CASE("every command on docs/guides.md has the exit code and output that the page gives", "[program][systems]") {
    const std::string page = contents(fs::path(MACHEPS_SOURCE_DIR) / "docs/guides.md");
    CHECK(write_configs(page) > 15);
    std::istringstream lines(page);
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.find("| `macheps ") == std::string::npos) continue;
        const std::vector<std::string> cells = cells_of(line);
        CAPTURE(line);
        REQUIRE(cells.size() == 6);  // the last cell, after the last bar, is empty
        const std::string command = without_quotes(cells[2]), prints = without_quotes(cells[4]);
        REQUIRE(command.starts_with("macheps "));
        REQUIRE_FALSE(prints.empty());
        const Outcome outcome = run(command.substr(8));
        CAPTURE(outcome.err);
        CHECK(std::to_string(outcome.code) == cells[3]);
        CHECK(outcome.out.find(prints) != std::string::npos);
        ++count;
    }
    CHECK(count > 60);
    fs::remove_all(scratch());
}

}  // namespace systems_page_test
