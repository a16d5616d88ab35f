// SPDX-License-Identifier: Apache-2.0
// Tests docs/recipes.md: its commands run, and the figures that it compares with published results agree with their
// output.
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace recipes_page_test {

using namespace macheps::test;

namespace {

std::string recipes_page() { return contents(fs::path(MACHEPS_SOURCE_DIR) / "docs/recipes.md"); }

/// Returns the rows of a CSV file. Each row maps the name of a column to a cell. Quoted cells may contain commas.
std::vector<std::map<std::string, std::string>> rows_of_csv(const std::string& text) {
    const auto cells = [](const std::string& line) {
        std::vector<std::string> parts{""};
        bool is_quoted = false;
        for (const char c : line) {
            if (c == '"') is_quoted = !is_quoted;
            if (c == ',' && !is_quoted) {
                parts.emplace_back();
            } else {
                parts.back() += c;
            }
        }
        return parts;
    };
    std::istringstream in(text);
    std::string line;
    std::getline(in, line);
    const std::vector<std::string> names = cells(line);
    std::vector<std::map<std::string, std::string>> rows;
    while (std::getline(in, line)) {
        const std::vector<std::string> values = cells(line);
        auto& row = rows.emplace_back();
        for (std::size_t i = 0; i < values.size(); ++i) row[names.at(i)] = values[i];
    }
    return rows;
}

std::string with_digits(double x, const char* format) {
    char text[32];
    std::snprintf(text, sizeof text, format, x);
    return text;
}

/// Returns the command on the page that begins with `macheps ` and `begin`, without the name of the program.
std::string command_of_page(const std::string& page, const std::string& begin) {
    const std::size_t at = page.find("macheps " + begin);
    REQUIRE(at != std::string::npos);
    return page.substr(at + 8, page.find_first_of("`\n", at) - at - 8);
}

}  // namespace

TEST_CASE("the loss gaps in docs/recipes.md agree with the output of the command on that page",
          "[program][docs][slow]") {
    const std::string page = recipes_page();
    const std::size_t toml = page.find("```toml\nname    = \"mxfp4\"");
    REQUIRE(toml != std::string::npos);
    write("mxfp4.toml", page.substr(toml + 8, page.find("```", toml + 8) - toml - 8));
    const Outcome outcome = run(command_of_page(page, "train --policy te-current,") + " -q --out run");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    std::map<std::string, std::string> gaps, percents;
    double loss = 0;
    for (const auto& row : rows_of_csv(contents(scratch() / "run/summary.csv"))) {
        if (row.at("policy") == "fp32") {
            loss = std::stod(row.at("loss"));
            continue;
        }
        const double gap = std::stod(row.at("gap_mean"));
        const double half = (std::stod(row.at("gap_ci_high")) - std::stod(row.at("gap_ci_low"))) / 2;
        gaps[row.at("policy")] = with_digits(gap, "%+.4f") + " ± " + with_digits(half, "%.4f");
        percents[row.at("policy")] = with_digits(gap, "%.6f");
    }
    CHECK(page.find("here, loss " + with_digits(loss, "%.4f") + " in fp32") != std::string::npos);
    REQUIRE(gaps.size() == 5);
    for (const auto& [policy, gap] : gaps) {
        CAPTURE(policy, gap);
        CHECK(page.find("| " + policy + " " + gap) != std::string::npos);
    }
    // The page also gives two gaps as a percentage of the loss.
    const std::vector<Match> shares = all_matches(page, "\\| (te-current|te-nvfp4) [^:|]*: ([0-9.]+) %");
    CHECK(shares.size() == 2);
    for (const Match& share : shares)
        CHECK(with_digits(100 * std::stod(percents.at(share[1])) / loss, "%.2f") == share[2]);
    fs::remove_all(scratch());
}

TEST_CASE("docs/recipes.md gives the right figures for the sums of a matrix unit and for the first training step",
          "[program][docs]") {
    const std::string page = recipes_page();
    const Outcome sums = run(command_of_page(page, "gemm --machine sm90.wgmma.fp8,") + " -q");
    CAPTURE(sums.err);
    REQUIRE(sums.code == 0);
    std::string said;
    for (const auto& row : rows_of_csv(sums.out)) {
        const double lost = -100 * std::stod(row.at("drift"));
        said += (said.empty() ? "" : " and ") + with_digits(lost, lost < 1 ? "%.2f" : "%.1f") + " %";
    }
    CAPTURE(said);
    CHECK(page.find("| " + said + ": `macheps gemm") != std::string::npos);
    const std::size_t second = page.find("-d normal -k 4096`");
    REQUIRE(second != std::string::npos);
    const Outcome random =
        run("gemm --machine sm90.wgmma.fp8,cutlass.fp8.default --format e4m3fn -d normal -k 4096 -q");
    REQUIRE(random.code == 0);
    const auto rows = rows_of_csv(random.out);
    CHECK(with_digits(std::pow(10, -std::stod(rows.at(0).at("sqnr_db")) / 20), "%.1e") == "1.2e-03");
    CHECK(page.rfind("| 1.2e-3 of the outputs' size", second) != std::string::npos);
    CHECK(std::stod(rows.at(0).at("max_rel")) > 0.02);

    const Outcome steps =
        run(command_of_page(page, "train --policy te-delayed --size tiny --steps 3") + " -q --out run");
    CAPTURE(steps.err);
    REQUIRE(steps.code == 0);
    std::map<std::string, double> lost, all;
    for (const auto& row : rows_of_csv(contents(scratch() / "run/sites.csv"))) {
        if (!row.at("site").ends_with(":input_grad.a") || row.at("format") != "e5m2") continue;
        lost[row.at("step")] += std::stod(row.at("underflow"));
        all[row.at("step")] += std::stod(row.at("count"));
    }
    const auto percent = [&](const char* step) { return 100 * lost.at(step) / all.at(step); };
    CAPTURE(percent("0"), percent("1"));
    CHECK(page.find("| " + with_digits(percent("0"), "%.0f") + " %, and none in the second step: ") !=
          std::string::npos);
    CHECK(with_digits(percent("1"), "%.1f") == "0.0");
    fs::remove_all(scratch());
}

}  // namespace recipes_page_test
