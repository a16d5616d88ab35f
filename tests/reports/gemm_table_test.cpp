// SPDX-License-Identifier: Apache-2.0
// Tests reports of the rows that `macheps gemm` writes: reading, tables and the HTML page.
#include "reports/pages/studies/gemm_table.hpp"
#include "reports/rows/rows_json.hpp"

#include "core/error.hpp"
#include "reports/pages/html.hpp"
#include "reports/pages/page_data.hpp"
#include "reports/rows/csv.hpp"
#include "tests/json.hpp"
#include "tests/reports/sample_gemm.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace gemm_table_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

void write_rows(const std::filesystem::path& path, const std::vector<GemmRow>& rows) {
    CsvWriter<GemmRow> file(path);
    for (const GemmRow& row : rows) file.append(row);
    file.flush();
}

Log read(std::vector<std::filesystem::path> paths) { return read_runs(paths); }

std::string page_of(const Log& log) { return page_html(log, summarise(log)); }

}  // namespace

TEST_CASE("rows of matrix products are read back unchanged", "[reports][gemm]") {
    const TemporaryFolder folder;
    std::vector<GemmRow> rows = test::sample_gemm();
    rows[0].max_rel.reset(), rows[0].mean_rel.reset(), rows[0].rms_rel.reset(), rows[0].sqnr_db.reset();
    rows[1].operand_sqnr_db = 28.5;
    rows[1].nonfinite = 3;
    rows[2].first = 0.1f;
    write_rows(folder / "gemm.csv", rows);
    CHECK(CsvReader<GemmRow>(folder / "gemm.csv").rows() == rows);
}

TEST_CASE("rows of products are read from a file or from gemm.csv in a folder, with or without training runs",
          "[reports][gemm]") {
    const TemporaryFolder folder;
    const std::vector<GemmRow> rows = test::sample_gemm();
    test::write_sample_run(folder / "run", {.steps = 5, .layers = 1});
    std::filesystem::create_directories(folder / "alone");
    write_rows(folder / "alone/gemm.csv", rows);
    write_rows(folder / "other.csv", {rows[0]});

    const Log alone = read({folder / "alone"});
    CHECK(alone.gemm == rows);
    CHECK(alone.folders.empty());
    CHECK(alone.notes.empty());
    const Log both = read({folder / "run", folder / "other.csv", folder / "alone"});
    CHECK(both.folders.size() == 1);
    CHECK(both.runs.size() == 8);
    CHECK(both.gemm.size() == rows.size() + 1);
    CHECK(both.row_files.size() == 2);
    write_rows(folder / "run/gemm.csv", rows);
    const Log inside = read({folder / "run"});
    CHECK(inside.runs.size() == 8);
    CHECK(inside.gemm == rows);

    std::ofstream(folder / "text.csv") << "a,b\n1,2\n";
    CHECK_THROWS_AS(read({folder / "text.csv"}), Error);
    std::ofstream(folder / "cut.csv") << "machine,k\nx,1\n";
    CHECK_THROWS_AS(read({folder / "cut.csv"}), Error);
}

TEST_CASE("the table shows the product with the largest k for each machine and kind of operands", "[reports][gemm]") {
    std::vector<GemmRow> rows = test::sample_gemm();
    rows.back().nonfinite = 2;
    const auto cells = gemm_cells(rows);
    REQUIRE(cells.size() == 1 + 2 * 3);
    for (const auto& line : cells) CHECK(line.size() == cells.front().size());
    CHECK(cells[1][0] == rows[0].machine);
    CHECK(cells[1][2] == "e4m3fn, normal");
    CHECK(cells[1][3] == "fp32");
    CHECK(cells[4][2] == "e4m3fn x e5m2, equal, scaled per tensor");
    for (std::size_t i = 1; i < cells.size(); ++i) CHECK(cells[i][4] == "2 x 3 x 4096");
    CHECK(cells[1][5] == "7.81e-03");  // 2^-13 sqrt(4096)
    CHECK(cells[1][6] == "5.00e-01");
    CHECK(cells[3][5] == "0");
    CHECK(cells[3][10] == "inf");
    const std::string text = gemm_table(rows);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 6 + 3);
    CHECK(gemm_table({}).empty());
    CHECK(gemm_html({}).empty());
    const std::string html = gemm_html(rows);
    CHECK(html.find("stalls &lt;/script&gt;&lt;b&gt;") != std::string::npos);
    CHECK(html.find("<b>") == std::string::npos);
    // The product with the largest k is shown, regardless of the order of the rows.
    std::reverse(rows.begin(), rows.end());
    CHECK(gemm_cells(rows)[6][5] == "1.56e-02");  // the second seed is now the first
}

TEST_CASE("a chart shows all output formats, and a machine with several output formats has a curve for each",
          "[reports][gemm]") {
    std::vector<GemmRow> rows(3, test::sample_gemm()[0]);
    rows[1].machine = "pairwise:fp16", rows[1].output = "fp16";
    rows[2].output = "bf16";
    CHECK(gemm_data_name(rows[0]) == gemm_data_name(rows[1]));
    CHECK(gemm_series_names(rows) ==
          std::vector<std::string>{rows[0].machine + " -> fp32", "pairwise:fp16", rows[0].machine + " -> bf16"});
    CHECK(gemm_cells(rows).size() == 4);
    rows.pop_back();
    CHECK(gemm_series_names(rows) == std::vector<std::string>{rows[0].machine, "pairwise:fp16"});
}

TEST_CASE("rows in JSON have numbers with the fewest digits, null for empty cells, and strings for inf and nan",
          "[reports][gemm]") {
    GemmRow row = test::sample_gemm()[2];
    row.first = 0.1f;
    row.max_rel.reset();
    row.bias = std::numeric_limits<double>::quiet_NaN();
    const auto json = nlohmann::json::parse(rows_json(std::span<const GemmRow>(&row, 1)));
    CHECK(json["schema"] == 2);
    REQUIRE(json["rows"].size() == 1);
    CHECK(json["rows"][0]["machine"] == "exact");
    CHECK(json["rows"][0]["first"] == double{0.1f});
    CHECK(json["rows"][0]["max_rel"].is_null());
    CHECK(json["rows"][0]["sqnr_db"] == "inf");
    CHECK(json["rows"][0]["bias"] == "nan");
    CHECK(json["rows"][0].size() == column_count<GemmRow>);
}

TEST_CASE("the page's data contains the matrix products, up to a limit", "[reports][gemm][html]") {
    const TemporaryFolder folder;
    const std::vector<GemmRow> rows = test::sample_gemm();
    write_rows(folder / "gemm.csv", rows);
    const Log log = read({folder / "gemm.csv"});
    const Summary summary = summarise(log);
    const std::string text = page_data(log, summary);
    CHECK(text.find('<') == std::string::npos);
    const auto data = nlohmann::json::parse(text)["gemm"];
    CHECK(data["machine"] == nlohmann::json{"stalls </script><b>", "fp32.chain", "exact"});
    CHECK(data["set"].size() == 2);
    REQUIRE(data["rows"].size() == rows.size());
    for (const auto& row : data["rows"]) CHECK(row.size() == data["fields"].size());
    const auto field = [&data](const char* name) {
        return std::find(data["fields"].begin(), data["fields"].end(), name) - data["fields"].begin();
    };
    const auto& row = data["rows"][4];
    CHECK(row[field("machine")] == 1);
    CHECK(row[field("k")] == rows[4].k);
    CHECK(row[field("max_error")].get<double>() == Approx(rows[4].max_error).epsilon(1e-6));
    CHECK(row[field("bound")].get<double>() == Approx(*rows[4].bound).epsilon(1e-6));
    CHECK(row[field("first_exact")].get<double>() == Approx(rows[4].first_exact).epsilon(1e-6));
    CHECK(data["rows"][2][field("sqnr_db")].is_null());
    CHECK(data["left_out"] == 0);
    const auto few = nlohmann::json::parse(page_data(log, summary, {.gemm_rows = 5}))["gemm"];
    CHECK(few["rows"].size() == 5);
    CHECK(few["left_out"] == rows.size() - 5);
}

TEST_CASE("a page shows only the sections for the kinds of rows that were read", "[reports][gemm][html]") {
    const TemporaryFolder folder;
    test::write_sample_run(folder / "run", {.steps = 5, .layers = 1});
    write_rows(folder / "sums.csv", test::sample_gemm());
    struct Case {
        std::vector<std::filesystem::path> paths;
        const char *kind, *title, *lead;
    };
    for (const Case& c : {Case{{folder / "run"},
                               "no-gemm",
                               "macheps: amp-bf16, amp-fp16, pure-bf16 and 4 more against fp32</title>",
                               "8 runs"},
                          Case{{folder / "sums.csv"},
                               "no-runs",
                               "<h1>Products of e4m3fn, normal and e4m3fn x e5m2, equal, scaled per tensor on stalls "
                               "&lt;/script&gt;&lt;b&gt;, fp32.chain and exact</h1>",
                               "60 matrix products"},
                          Case{{folder / "run", folder / "sums.csv"}, "", "From run + sums.csv.</p>", "8 runs"}}) {
        CAPTURE(c.kind);
        const std::string page = page_of(read(c.paths));
        CHECK(page.find("<body class=\"" + std::string(c.kind) + "\">") != std::string::npos);
        CHECK(page.find(c.title) != std::string::npos);
        CHECK(page.find(c.lead) != std::string::npos);
        CHECK(page.find("@@") == std::string::npos);
        const bool has_products = std::string(c.kind) != "no-gemm";
        CHECK((page.find("x 4096</td>") != std::string::npos) == has_products);
        CHECK((page.find("\"gemm\":") != std::string::npos) == has_products);
    }
}

}  // namespace gemm_table_test
