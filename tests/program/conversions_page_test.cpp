// SPDX-License-Identifier: Apache-2.0
// Compares docs/conversions.md with the program's output for formats and profiles.
#include "tests/program/program.hpp"

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace conversions_page_test {

using namespace macheps::test;

namespace {

/// Returns the cells of a CSV line. Quoted cells may contain commas.
std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells{""};
    bool quoted = false;
    for (const char c : line) {
        if (c == '"') quoted = !quoted;
        if (c == ',' && !quoted) cells.emplace_back();
        if (c != '"' && (c != ',' || quoted)) cells.back() += c;
    }
    return cells;
}

}  // namespace

TEST_CASE("docs/conversions.md describes every format and profile as the program does", "[program][docs]") {
    const std::string page = contents(fs::path(MACHEPS_SOURCE_DIR) / "docs/conversions.md");
    const Outcome listed = run("formats --profiles");
    REQUIRE(listed.code == 0);
    std::istringstream lines(listed.out);
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> header = cells_of(line);
    std::map<std::string, std::string> editions;
    int formats = 0;
    while (std::getline(lines, line)) {
        const std::vector<std::string> cells = cells_of(line);
        REQUIRE(cells.size() == header.size());
        std::map<std::string, std::string> row;
        for (std::size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
        editions[row["profile"]] = row["edition"];
        if (row["profile"] != "ieee") continue;
        std::string want = "| `" + row["format"] + "` |";
        for (const char* key : {"nan", "inf", "-inf", "beyond", "-1", "0", "-0"}) want += " " + row[key] + " |";
        INFO(want);
        CHECK(page.find(want) != std::string::npos);
        ++formats;
    }
    CHECK(formats == 14);
    for (const auto& [profile, edition] : editions) {
        INFO(profile);
        CHECK(page.find("| `" + profile + "` | " + edition + " |") != std::string::npos);
    }
    CHECK(editions.size() == 25);
    fs::remove_all(scratch());
}

}  // namespace conversions_page_test
