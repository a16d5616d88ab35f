// SPDX-License-Identifier: Apache-2.0
// Tests run directories of other versions. A report must always accept directories of version 0.1.0, and must ignore
// additions of later versions.
#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/pages/html.hpp"
#include "reports/pages/page_data.hpp"
#include "reports/rows/csv.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace old_runs_test {

using namespace macheps;
using namespace macheps::reports;
namespace fs = std::filesystem;

namespace {

const fs::path golden = fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/run_schema1";

Log read_one(const fs::path& folder) { return read_runs(std::vector<fs::path>{folder}); }

/// A copy of the golden directory that a test may change.
struct Copy {
    Copy() { fs::copy(golden, folder); }
    test::TemporaryFolder temporary{};
    fs::path folder = temporary / "run";
};

/// Returns `text` with each line replaced by edit(line, number). The number of the first line is 0.
template <class Edit>
std::string each_line(const std::string& text, Edit edit) {
    std::string out;
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size(); ++number) {
        const std::size_t end = text.find('\n', at);
        out += edit(text.substr(at, end - at), number) + "\n";
        at = end + 1;
    }
    return out;
}

/// Returns the charts of the page as JSON, without the folder's name.
std::string charts_of(const Log& log) { return page_data(log, summarise(log)); }

/// An EvalRow as a later version could define it. It has two new columns: one whose cells may be empty, and one that
/// the later schema introduces.
struct LaterEvalRow {
    std::string run{};
    std::int64_t step = 0;
    std::optional<double> added{};
    std::int64_t counted = 7;

    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &LaterEvalRow::run), column("step", &LaterEvalRow::step),
                   column("added", &LaterEvalRow::added), column("counted", &LaterEvalRow::counted, since(2)));
    }
};
/// A row type with a mistake: it declares the column `counted` without `since`, although older files lack this column.
struct ForgetfulEvalRow {
    std::string run{};
    std::int64_t counted = 7;

    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &ForgetfulEvalRow::run), column("counted", &ForgetfulEvalRow::counted));
    }
};

}  // namespace

TEST_CASE("a run directory of schema 1 gives the same summary as when it was written", "[reports][old]") {
    const Log log = read_one(golden);
    REQUIRE(log.runs.size() == 4);
    // A note says that the column `loss` had another meaning in schema 1.
    REQUIRE(log.notes.size() == 1);
    CHECK(
        log.notes[0].starts_with(golden.string() + ": the rows have schema 1. Their `loss` is the policy's own loss"));
    for (const RunLog& run : log.runs) {
        for (const StepRow& step : run.steps) CHECK(step.loss == double{static_cast<float>(step.loss)});
    }
    CHECK(log.gemm.size() == 2);
    const Summary summary = summarise(log);
    // Columns that schema 1 lacks are not compared. The column slowdown, which only schema 1 fills, is not compared
    // either.
    std::vector<SummaryRow> then = CsvReader<SummaryRow>(golden / "summary.csv").rows();
    REQUIRE(then.size() == summary.policies.size());
    for (std::size_t i = 0; i < then.size(); ++i) {
        then[i].slowdown.reset();
        if (then[i].verdict == "equivalent") then[i].verdict = verdicts::no_difference;  // the old word
        const SummaryRow& now = summary.policies[i].row;
        SummaryRow both = then[i];
        both.steps = now.steps, both.margin = now.margin, both.detectable_gap = now.detectable_gap;
        both.forced = now.forced, both.failed_seeds = now.failed_seeds, both.failures = now.failures;
        both.update_eff = now.update_eff;
        both.static_bytes = now.static_bytes, both.activation_bytes = now.activation_bytes;
        both.sampled_steps = now.sampled_steps, both.forward_ranges = now.forward_ranges;
        CHECK(both == now);
        CHECK(now.static_bytes.value() == 16);  // fp32 weights, gradients and both moments
        CHECK_FALSE(now.relative_peak.has_value());
    }
    const std::string page = page_html(log, summary);
    CHECK(page.find("fp16-noscale") != std::string::npos);
}

TEST_CASE("losses of the current schema are read without a note and with all their bits", "[reports][old]") {
    const test::TemporaryFolder temporary;
    const fs::path folder = temporary / "run";
    fs::create_directories(folder);
    const StepRow step{.run = "fp32/0", .policy = "fp32", .loss = 0.1, .loss_rounded = 0.1f};
    {
        CsvWriter<StepRow> steps(folder / StepRow::file);
        steps.append(step);
        CsvWriter<RunRow> runs(folder / RunRow::file);
        runs.append({.run = "fp32/0", .policy = "fp32", .steps = 1, .final_loss = 0.1, .best_loss = 0.1});
    }
    publish(folder / "manifest.json", "{\"schema\": 2}");
    const Log log = read_one(folder);
    CHECK(log.notes.empty());
    CHECK(log.runs.at(0).steps.at(0) == step);
    CHECK(log.runs[0].row.final_loss == 0.1);
}

TEST_CASE("columns and settings that a later version adds are ignored", "[reports][old]") {
    const Copy copy;
    const fs::path& folder = copy.folder;
    for (const auto& file : fs::directory_iterator(folder)) {
        if (file.path().extension() != ".csv") continue;
        const std::string text = csv::read_text(file.path());
        publish(file.path(), each_line(text, [](const std::string& line, std::size_t number) {
                    return line + (number == 0 ? ",a_later_column" : ",\"anything, quoted\"");
                }));
    }
    std::string manifest = csv::read_text(folder / "manifest.json");
    manifest.insert(manifest.find('{') + 1, "\"a_later_setting\": {\"x\": [1, 2]},");
    publish(folder / "manifest.json", manifest);

    const Log log = read_one(folder), today = read_one(golden);
    CHECK(log.notes.size() == today.notes.size());
    CHECK(summary_csv(summarise(log)) == summary_csv(summarise(today)));
    CHECK(charts_of(log) == charts_of(today));
    CHECK_FALSE(page_html(log, summarise(log)).empty());
}

TEST_CASE("cells of a column that an older file lacks are empty if the column is optional, and defaults otherwise",
          "[reports][old]") {
    const std::vector<LaterEvalRow> rows = CsvReader<LaterEvalRow>(golden / "evals.csv").rows();
    REQUIRE_FALSE(rows.empty());
    for (const LaterEvalRow& row : rows) {
        CHECK_FALSE(row.run.empty());
        CHECK_FALSE(row.added.has_value());
        CHECK(row.counted == 7);
    }
    CHECK_THROWS_AS(CsvReader<ForgetfulEvalRow>(golden / "evals.csv"), Error);
}

TEST_CASE("a file may lack any optional column of the current schema", "[reports][old]") {
    const Copy copy;
    const fs::path& folder = copy.folder;
    const std::string text = csv::read_text(golden / "evals.csv");
    // The columns are run, policy, seed, step, eval_loss, eval_loss_fp32, perplexity and entropy_floor.
    publish(folder / "evals.csv",
            each_line(text, [](const std::string& line, std::size_t) { return line.substr(0, line.rfind(',')); }));
    const Log log = read_one(folder);
    REQUIRE_FALSE(log.runs.at(0).evals.empty());
    CHECK_FALSE(log.runs[0].evals[0].entropy_floor.has_value());
    CHECK(log.runs[0].evals[0].perplexity > 0);
    CHECK_FALSE(page_html(log, summarise(log)).empty());
}

TEST_CASE("a file with the columns of another version is not continued, and the error gives the reason",
          "[reports][old]") {
    const Copy copy;
    const fs::path& folder = copy.folder;
    const std::string before = csv::read_text(folder / "evals.csv");
    const auto refusal = [&]() -> std::string {
        try {
            CsvWriter<LaterEvalRow> writer(folder / "evals.csv");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            return error.what();
        }
        return "none";
    };
    const std::string said = refusal();
    CAPTURE(said);
    CHECK(said.find("it lacks 'added', 'counted', and has 'policy', 'seed'") != std::string::npos);
    CHECK(said.find("continue with the version that created the file, or use a new folder") != std::string::npos);
    CHECK(csv::read_text(folder / "evals.csv") == before);

    publish(folder / "evals.csv", "step,run,counted,added\n");
    CHECK(refusal().find("they are in a different order") != std::string::npos);
}

}  // namespace old_runs_test
