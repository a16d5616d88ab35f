// SPDX-License-Identifier: Apache-2.0
// Tests reports of sums, linear systems and formulas: the recognition of their files, the tables, and the figures on
// the page.
#include "reports/pages/html.hpp"
#include "reports/pages/studies/analysis_tables.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/solve_verdicts.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace measured_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

template <class Row>
void write_measured(const std::filesystem::path& path, const std::vector<Row>& rows) {
    CsvWriter<Row> file(path);
    for (const Row& row : rows) file.append(row);
    file.flush();
}

/// Returns rows of two methods for n = 16 .. 4096. The second method makes no error.
std::vector<SumRow> sample_sums() {
    std::vector<SumRow> rows;
    for (std::int64_t n = 16; n <= 4096; n *= 4) {
        for (const char* method : {"recursive", "exact <b>"}) {
            const bool is_exact = method[0] == 'e';
            const double size = static_cast<double>(n);
            rows.push_back({.method = method,
                            .format = "bf16",
                            .round = "nearest_even",
                            .data = "positive",
                            .trials = 1,
                            .n = n,
                            .result = "0000",
                            .value = is_exact ? size / 2 : std::min(size / 2, 256.0),
                            .exact = size / 2,
                            .cond = 1,
                            .error_unit = is_exact ? 0 : std::sqrt(size),
                            .height = n - 1,
                            .bound_unit = size - 1,
                            .probable_unit = 4 * std::sqrt(size)});
        }
    }
    return rows;
}

std::vector<SolveRow> sample_systems() {
    std::vector<SolveRow> rows;
    for (const double kappa : {10.0, 1000.0}) {
        for (const std::int64_t seed : {0, 1}) {
            for (const char* factor : {"bf16", "fp32"}) {
                const bool is_lost = kappa > 100 && factor[0] == 'b' && seed == 1;
                rows.push_back({.matrix = kappa > 100 ? "randsvd:1000" : "randsvd:10",
                                .n = 20,
                                .seed = seed,
                                .kappa_2 = kappa,
                                .kappa = 10 * kappa,
                                .factor = factor,
                                .method = "ir",
                                .verdict = is_lost ? "diverged" : "converged",
                                .steps = seed + 3,
                                .fe = is_lost ? std::numeric_limits<double>::infinity() : 1e-16,
                                .limit = 256});
            }
        }
    }
    return rows;
}

std::vector<SolveStepRow> sample_steps() {
    std::vector<SolveStepRow> rows;
    for (const char* factor : {"bf16", "fp32"}) {
        for (std::int64_t step = 0; step < 4; ++step) {
            rows.push_back({.matrix = "randsvd:10",
                            .n = 20,
                            .factor = factor,
                            .method = "ir",
                            .step = step,
                            .fe = std::pow(factor[0] == 'b' ? 0.1 : 1e-3, static_cast<double>(step))});
        }
    }
    return rows;
}

std::vector<FormulaPointRow> sample_points() {
    std::vector<FormulaPointRow> rows;
    for (int i = 0; i <= 200; ++i)
        rows.push_back(
            {.x = std::to_string(i - 100), .bits = i < 100 ? 0.0 : 3.0, .expression = "exp(x)-1", .format = "fp16"});
    rows.push_back({.x = "1 2", .bits = 9, .expression = "x-y", .format = "fp16"});
    return rows;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

std::string page_of_files(const std::vector<std::filesystem::path>& paths) {
    const Log log = read_runs(paths);
    return page_html(log, summarise(log));
}

}  // namespace

TEST_CASE("a file of measurements is recognised by its first columns, and found in a folder by its name",
          "[reports][measured]") {
    const TemporaryFolder folder;
    write_measured(folder / "a.csv", sample_sums());
    write_measured(folder / "b.csv", sample_systems());
    write_measured(folder / "c.csv", sample_steps());
    write_measured(folder / "d.csv", std::vector<FormulaRow>{{.expression = "x", .format = "fp16", .inputs = 3}});
    write_measured(folder / "e.csv", sample_points());
    std::vector<std::filesystem::path> paths;
    for (const char* name : {"a.csv", "b.csv", "c.csv", "d.csv", "e.csv"}) paths.push_back(folder / name);
    const Log log = read_runs(paths);
    CHECK(log.sums == sample_sums());
    CHECK(log.systems == sample_systems());
    CHECK(log.system_steps == sample_steps());
    CHECK(log.formulas.size() == 1);
    CHECK(log.formula_points == sample_points());
    CHECK(log.gemm.empty());
    CHECK(log.row_files == paths);
    std::filesystem::create_directories(folder / "alone");
    write_measured(folder / "alone/sum.csv", sample_sums());
    write_measured(folder / "alone/solve_steps.csv", sample_steps());
    const std::vector<std::filesystem::path> alone{folder / "alone"};
    CHECK(read_runs(alone).sums.size() == sample_sums().size());
    CHECK(read_runs(alone).system_steps == sample_steps());
    std::ofstream(folder / "alone/eval.csv") << "a,b\n1,2\n";
    CHECK_THROWS_WITH(read_runs(alone), Catch::Contains("eval.csv"));
    std::ofstream(folder / "other.csv") << "method,format,speed\nx,fp16,1\n";
    const std::vector<std::filesystem::path> other{folder / "other.csv"};
    CHECK_THROWS_WITH(read_runs(other), Catch::Contains("nor a CSV file that a report can show"));
}

TEST_CASE("a table prints a value that all rows share only once, and omits columns without values",
          "[reports][measured]") {
    const std::string text = table_of(std::span<const SumRow>(sample_sums())).text();
    CHECK(text.starts_with("data positive, seed 0, format bf16, round nearest_even\n\nn     method"));
    CHECK(text.find("4096  recursive   256   2048     64   4095       256\n") != std::string::npos);
    CHECK(text.find("stagnates") == std::string::npos);
    const std::string html = table_of(std::span<const SumRow>(sample_sums())).html(3);
    CHECK(html.find("exact &lt;b&gt;") != std::string::npos);
    CHECK(html.find("7 more rows are not shown.") != std::string::npos);
    const std::string steps = table_of(std::span<const SolveStepRow>(sample_steps())).text();
    CHECK(count_of(steps, "\n") == 2 + 3);
    CHECK(steps.find("fp32        3              1      1.00e-09") != std::string::npos);
    CHECK(table_of(std::span<const SumRow>()).text().empty());
}

TEST_CASE("the page's map shows each verdict of the table with its letter and colour", "[reports][measured]") {
    const TemporaryFolder folder;
    for (const SolveVerdictRow& verdict : solve_verdicts) {
        CAPTURE(verdict.name);
        std::vector<SolveRow> rows = sample_systems();
        for (SolveRow& row : rows) row.verdict = verdict.name;
        write_measured(folder / "solve.csv", rows);
        const std::string page = page_of_files({folder / "solve.csv"});
        CHECK(page.find(fmt::format("class=\"cell {}\"", verdict.tone)) != std::string::npos);
        CHECK(page.find(fmt::format("{}</span>", verdict.name)) != std::string::npos);
        CHECK(page.find(fmt::format(".cell.{} {{", verdict.tone)) != std::string::npos);
        if (!verdict.letter.empty()) CHECK(page.find(fmt::format(">{}</text>", verdict.letter)) != std::string::npos);
    }
}

TEST_CASE("the page has figures for the kinds of rows that it was made from", "[reports][measured]") {
    const TemporaryFolder folder;
    write_measured(folder / "sum.csv", sample_sums());
    const std::string sums = page_of_files({folder / "sum.csv"});
    CHECK(count_of(sums, "<svg id=\"sum-error-1\"") == 1);
    CHECK(count_of(sums, "<svg id=\"sum-value-1\"") == 1);
    CHECK(sums.find("No error: exact &lt;b&gt;.") != std::string::npos);
    CHECK(count_of(sums, "class=\"line dashed\"") == 1);
    CHECK(count_of(sums, "class=\"line dotted\"") == 1);
    CHECK(sums.find("10 sums, each compared with the exact sum") != std::string::npos);

    write_measured(folder / "solve.csv", sample_systems());
    write_measured(folder / "solve_steps.csv", sample_steps());
    const std::string systems = page_of_files({folder / "solve.csv", folder / "solve_steps.csv"});
    CHECK(count_of(systems, "<svg id=\"verdicts-1\"") == 1);
    // A cell shows the worst verdict of its two seeds. If both seeds converged, it shows the larger number of steps.
    // Theory guarantees convergence for kappa below 256.
    CHECK(systems.find("<title>bf16, 1e3: diverged, 1 of 2 converged</title>") != std::string::npos);
    CHECK(systems.find(">4</text><circle") != std::string::npos);
    CHECK(systems.find("<title>fp32, 10: converged, 2 of 2 converged, as theory promises</title>") !=
          std::string::npos);
    CHECK(count_of(systems, "<svg id=\"steps-1\"") == 1);

    write_measured(folder / "points.csv", sample_points());
    const std::string formulas = page_of_files({folder / "points.csv"});
    CHECK(count_of(formulas, "<svg id=\"bits-1\"") == 1);
    CHECK(formulas.find("exp(x)-1</span>") != std::string::npos);
    // A formula with several inputs has a row in the table and no curve.
    CHECK(formulas.find("<td>x-y</td>") != std::string::npos);
    CHECK(formulas.find("x-y</span>") == std::string::npos);
}

}  // namespace measured_test
