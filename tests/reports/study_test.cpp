// SPDX-License-Identifier: Apache-2.0
// Tests the report of a sweep or of many run directories. The report is a table of settings x policies. Its figures
// must equal those of a report of few directories, and its page must stay small.
#include "core/error.hpp"
#include "reports/findings/many_folders.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/logs/folder_settings.hpp"
#include "reports/pages/line_chart.hpp"
#include "reports/pages/sweep_page.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace study_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::SamplePolicy;
using macheps::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

const std::vector<SamplePolicy> two_policies{
    {.name = "fp32"}, {.name = "own", .format = "fp16", .bias = 0.05, .underflow = 0.05, .loss_scale = 1024}};

/// Writes a run directory in which both policies have the same single seed.
fs::path write_seed(const fs::path& folder, std::int64_t seed, std::int64_t steps = 60) {
    test::write_sample_run(
        folder, {.policies = two_policies, .steps = steps, .layers = 1, .sample_every = 20, .first_seed = seed});
    return folder;
}

/// Replaces every occurrence of `from` in a file by `to`.
void edit(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = csv::read_text(file);
    REQUIRE(text.find(from) != std::string::npos);
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    std::ofstream(file, std::ios::binary) << text;
}

/// Removes the runs of a policy from a directory.
void leave_out(const fs::path& folder, const std::string& policy) {
    for (const char* name : {"runs.csv", "steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
        std::istringstream lines(csv::read_text(folder / name));
        std::string text, line;
        while (std::getline(lines, line)) {
            if (!line.starts_with(policy + ".")) text += line + "\n";
        }
        std::ofstream(folder / name, std::ios::binary) << text;
    }
}

/// Clears the columns of steps.csv that depend on fp32's loss.
void forget_baselines(const fs::path& folder) {
    std::vector<StepRow> steps = CsvReader<StepRow>(folder / StepRow::file).rows();
    fs::remove(folder / StepRow::file);
    CsvWriter<StepRow> writer(folder / StepRow::file);
    for (StepRow& step : steps) {
        step.baseline_loss.reset(), step.gap.reset();
        writer.append(step);
    }
    writer.flush();
}

bool has_note(const SweepSummary& summary, const std::string& words) {
    return std::any_of(summary.notes.begin(), summary.notes.end(),
                       [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

std::vector<std::string> names_of(const SweepSummary& summary) {
    std::vector<std::string> names;
    for (const SweepRow& row : summary.rows) names.push_back(row.policy.row.policy);
    return names;
}

}  // namespace

TEST_CASE("directories with equal settings have the same summary as a report that joins them", "[reports][study]") {
    const TemporaryFolder folder;
    std::vector<fs::path> folders;
    for (std::int64_t seed = 0; seed < 5; ++seed) folders.push_back(write_seed(folder / std::to_string(seed), seed));
    // For seed 7, the run of the policy and the fp32 run are in separate directories.
    folders.push_back(write_seed(folder / "own", 7));
    leave_out(folders.back(), "fp32");
    folders.push_back(write_seed(folder / "fp32", 7));
    leave_out(folders.back(), "own");
    const Summary joined = summarise(read_runs(folders, Keep::summary));
    const SweepSummary summary = gather_folders(folders, {});
    CHECK(summary.axes.empty());
    CHECK(summary.settings == 1);
    CHECK(summary.units == 7);
    CHECK(summary.runs == 12);
    CHECK(summary.notes.empty());
    CHECK(sweep_summary_csv(summary) == summary_csv(joined));
    REQUIRE(summary.rows.size() == 2);
    CHECK(summary.rows.front().curve.points().empty());
    CHECK(summary.rows.back().curve.points().size() == 31);  // 60 steps, two per point, starting at step 1
}

TEST_CASE("an option that differs between manifests is an axis, and each of its values has its own summary",
          "[reports][study]") {
    const TemporaryFolder folder;
    std::vector<fs::path> all, slow;
    for (std::int64_t seed = 0; seed < 3; ++seed) {
        all.push_back(write_seed(folder / fmt::format("fast-{}", seed), seed));
        all.push_back(write_seed(folder / fmt::format("slow-{}", seed), seed, 40));
        slow.push_back(all.back());
        edit(slow.back() / "manifest.json", "\"lr\": 0.001, \"warmup\": 20", "\"lr\": 0.0003, \"warmup\": 7");
    }
    // The order of the options in a manifest does not matter.
    edit(all[0] / "manifest.json", "\"steps\": 300, \"batch\": 16,", "\"batch\": 16, \"steps\": 300,");
    const SweepSummary summary = gather_folders(all, {});
    CHECK(summary.axes == std::vector<std::string>{"lr"});
    CHECK(has_note(summary, "warmup: not shown, because lr determines it"));
    REQUIRE(summary.rows.size() == 4);
    CHECK(summary.rows[0].values == std::vector<std::string>{"0.001"});
    CHECK(summary.rows[3].values == std::vector<std::string>{"0.0003"});
    const Summary alone = summarise(read_runs(slow, Keep::summary));
    SweepSummary part;
    part.rows = {summary.rows[2], summary.rows[3]};
    for (SweepRow& row : part.rows) row.values.clear();
    CHECK(sweep_summary_csv(part) == summary_csv(alone));
    const std::string page = sweep_page_html(summary);
    CHECK(page.find("12 runs of 2 settings in 6 run directories") != std::string::npos);
    CHECK(page.find("<h2>Gap against each axis</h2>") != std::string::npos);
    CHECK(page.find("<th>lr</th><th class=\"n\">fp32</th><th class=\"n\">own</th>") != std::string::npos);
    // If there are more policies than settings, each policy has its own row.
    SweepSummary tall = summary;
    std::erase_if(tall.rows, [](const SweepRow& row) { return row.setting > 0; });
    CHECK(sweep_page_html(tall).find("<th>policy</th><th class=\"n\">lr=0.001</th>") != std::string::npos);
    CHECK(page.find("<h2>Best lr</h2>") != std::string::npos);
    CHECK(page.find("<script") == std::string::npos);
}

TEST_CASE("an axis is an option whose values differ, unless another axis determines its values", "[reports][study]") {
    const SettingAxes axes = setting_axes(
        {{{"layers", "2"}, {"width", "64"}, {"lr", "1"}, {"min_lr", "0.1"}, {"clip", "1"}},
         {{"layers", "4"}, {"width", "128"}, {"lr", "1"}, {"min_lr", "0.1"}, {"clip", "1"}},
         {{"layers", "6"}, {"width", "128"}, {"lr", "2"}, {"min_lr", "0.2"}, {"clip", "1"}},
         {{"layers", "2"}, {"width", "64"}, {"lr", "2"}, {"min_lr", "0.2"}, {"clip", "1"}, {"ranks", "4"}}});
    // The number of layers determines the width, but the width does not determine the number of layers. If a setting
    // does not give the option `ranks`, its value is empty.
    CHECK(axes.names == std::vector<std::string>{"layers", "lr", "ranks"});
    CHECK(axes.values.at(0) == std::vector<std::string>{"2", "1", ""});
    CHECK(axes.values.at(3) == std::vector<std::string>{"2", "2", "4"});
    CHECK(axes.notes == std::vector<std::string>{"width: not shown, because layers determines it",
                                                 "min_lr: not shown, because lr determines it"});
    // If two options determine each other and one is the learning rate, the learning rate is the axis.
    CHECK(setting_axes({{{"steps", "1"}, {"lr", "2"}}, {{"steps", "3"}, {"lr", "4"}}}).names ==
          std::vector<std::string>{"lr"});
    CHECK(setting_axes({{{"lr", "2"}}}).names.empty());
}

TEST_CASE("runs that occur twice, are not finished or have no baseline are counted in notes", "[reports][study]") {
    const TemporaryFolder folder;
    const fs::path first = write_seed(folder / "first", 0), again = write_seed(folder / "again", 0),
                   other = write_seed(folder / "other", 0), lonely = write_seed(folder / "lonely", 9),
                   begun = write_seed(folder / "begun", 1);
    edit(other / "steps.csv", "own.0,own,0,60,30720,2.", "own.0,own,0,60,30720,3.");
    leave_out(lonely, "fp32");
    forget_baselines(lonely);
    fs::remove(begun / "runs.csv");
    std::string steps = csv::read_text(begun / "steps.csv");
    std::ofstream(begun / "steps.csv", std::ios::binary) << steps.substr(0, steps.size() - 20);  // ends in half a line
    const std::vector<fs::path> folders{first, again, other, lonely, begun};
    const SweepSummary summary = gather_folders(folders, {});
    CHECK(names_of(summary) == std::vector<std::string>{"fp32", "own", "own@other"});
    CHECK(has_note(summary, "3 runs have the same losses as runs of an earlier directory"));
    CHECK(has_note(summary, "1 run differs from another one of the same policy"));
    CHECK(has_note(summary, "1 run has no fp32 run"));
    CHECK(has_note(summary, "2 runs are not finished"));
    CHECK(summary.rows.at(1).policy.row.seeds == 3);
    CHECK(summary.rows.at(1).policy.seed_gaps.size() == 2);
    CHECK(sweep_summary_csv(summary).find("own@other") != std::string::npos);
    // The policies have the same names as in a report that joins the directories.
    std::vector<std::string> joined;
    for (const PolicySummary& policy : summarise(read_runs(folders, Keep::summary)).policies)
        joined.push_back(policy.row.policy);
    CHECK(joined == names_of(summary));
}

TEST_CASE("policies with equal names and different texts are kept apart, and folders without runs are refused",
          "[reports][study]") {
    const TemporaryFolder folder;
    const fs::path first = write_seed(folder / "first", 0), second = write_seed(folder / "second", 1),
                   bare = write_seed(folder / "bare", 2);
    edit(first / "manifest.json", "\"amp-bf16\"", "\"own\"");
    edit(second / "manifest.json", "\"amp-bf16\"", "\"own\"");
    edit(second / "manifest.json", "# <i>", "# <b>");
    fs::remove(bare / "manifest.json");
    std::vector<fs::path> folders{first, second, bare};
    const SweepSummary summary = gather_folders(folders, {});
    CHECK(has_note(summary, "1 directory has no manifest.json"));
    CHECK(summary.settings == 2);  // the directory without a manifest counts as another setting
    CHECK(names_of(summary) == std::vector<std::string>{"fp32", "own", "own@second", "fp32", "own"});
    const auto refusal = [&](const fs::path& path) -> std::string {
        const std::vector<fs::path> more{first, path};
        try {
            gather_folders(more, {});
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            return error.what();
        }
        return "";
    };
    CHECK(refusal(folder / "none").find("the folder does not exist") != std::string::npos);
    CHECK(refusal(folder.path()).find("no runs.csv in this folder") != std::string::npos);
    std::ofstream(bare / "manifest.json") << "[1]";
    CHECK(refusal(bare).find("not a JSON object") != std::string::npos);
    std::ofstream(bare / "manifest.json") << "{\"schema\": 99}";
    CHECK(refusal(bare).find("the file has schema 99") != std::string::npos);
    fs::remove(bare / "manifest.json");
    edit(bare / "steps.csv", "own.2,own,2,60,", "own.2,own,2,sixty,");
    CHECK(refusal(bare).find("'sixty' is not a valid value for column 'step'") != std::string::npos);
}

namespace {

/// Adds the row of a policy at a learning rate. The losses are those of the seeds 0, 1, ...
void add_losses(SweepSummary& sweep, const std::string& policy, const std::string& rate,
                const std::vector<double>& losses, const std::string& verdict = "undecided") {
    SweepRow row{.values = {rate}, .setting = sweep.rows.size()};
    row.policy.row = {.policy = policy, .seeds = std::int64_t(losses.size()), .loss = 0, .verdict = verdict};
    row.policy.row.steps = 1000;
    row.policy.row.failed_seeds = verdict == "diverged" ? 1 : 0;
    for (const double loss : losses) {
        row.policy.row.loss += loss / double(losses.size());
        row.policy.seed_losses.emplace_back(std::int64_t(row.policy.seed_losses.size()), loss);
    }
    sweep.rows.push_back(std::move(row));
}

/// A sweep whose policy has its best rate at the largest value that did not diverge, and fp32 in the middle.
SweepSummary rates_sweep() {
    SweepSummary sweep{.name = "rates", .axes = {"lr"}, .settings = 3};
    add_losses(sweep, "fp32", "0.001", {3.0, 3.1, 3.2}, "baseline");
    add_losses(sweep, "low", "0.001", {3.0, 3.1, 3.3});
    add_losses(sweep, "high", "0.001", {3.1, 3.1, 3.3});
    add_losses(sweep, "fp32", "0.003", {2.0, 2.1, 2.2}, "baseline");
    add_losses(sweep, "low", "0.003", {2.01, 2.13, 2.22});
    add_losses(sweep, "high", "0.003", {2.5, 2.5, 2.5});
    add_losses(sweep, "fp32", "0.01", {2.5, 2.5, 2.5}, "baseline");
    add_losses(sweep, "low", "0.01", {1.0, 1.0, 9.0}, "diverged");
    add_losses(sweep, "high", "0.01", {2.4, 2.4, 2.55});
    return sweep;
}

bool has_part(const std::vector<std::string>& texts, const std::string& part) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("the best value of a policy is compared with fp32 at its own best value, paired by seed",
          "[reports][study]") {
    const SweepSummary sweep = rates_sweep();
    const BestValues best = best_values(sweep);
    REQUIRE(best.axis == std::size_t{0});
    REQUIRE(best.rows.size() == 3);
    const BestValue &low = best.rows[1], &high = best.rows[2];
    CHECK(low.value == "0.003");
    CHECK(low.place == GridPlace::inside);  // the largest value diverged, so the best value is not at the end
    CHECK(high.value == "0.01");
    CHECK(high.place == GridPlace::largest);
    CHECK(high.fp32_value == "0.003");
    REQUIRE(low.seed_gaps.size() == 3);
    const double gaps[] = {0.01, 0.03, 0.02}, high_gaps[] = {0.4, 0.3, 0.35};
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(low.seed_gaps[i] == Approx(gaps[i]));
        CHECK(high.seed_gaps[i] == Approx(high_gaps[i]));
    }
    // The standard errors are 0.01 / sqrt(3) and 0.05 / sqrt(3), and t with 2 degrees of freedom is 4.302653. The half
    // widths are therefore 0.0248 and 0.124.
    CHECK(best_gap_words(low) == "+0.020 ± 0.025");
    CHECK(best_gap_words(high) == "+0.35 ± 0.12");
    CHECK(best_gap_words(best.rows[0]) == "-");
    const std::string text = sweep_summary_text(sweep), page = sweep_page_html(sweep);
    CHECK(text.find("high    0.01     largest      2.4500  +0.35 ± 0.12\n") != std::string::npos);
    CHECK(page.find("<td>0.01</td><td>largest</td><td class=\"n\">2.4500</td><td class=\"n\">+0.35 ± 0.12</td>") !=
          std::string::npos);
}

TEST_CASE("a seed that only one of two policies has is not paired", "[reports][study]") {
    SweepSummary sweep = rates_sweep();
    sweep.rows[4].policy.seed_losses.erase(sweep.rows[4].policy.seed_losses.begin());
    const BestValue low = best_values(sweep).rows.at(1);
    REQUIRE(low.seed_gaps.size() == 2);
    CHECK(low.seed_gaps[0] == Approx(0.03));
    CHECK(low.seed_gaps[1] == Approx(0.02));
}

TEST_CASE("the report of a sweep warns about runs, verdicts and the ends of the grid", "[reports][study]") {
    SweepSummary sweep = rates_sweep();
    const auto warnings = [&] { return sweep_warnings(sweep, best_values(sweep)); };
    CHECK(has_part(warnings(), "low diverged in 1 of 3 settings (lr 0.01: 1 of 3 seeds)"));
    CHECK(has_part(warnings(), "the best lr of high is the largest value of the grid, so larger values may be better"));
    CHECK_FALSE(has_part(warnings(), "smallest"));
    CHECK_FALSE(has_part(warnings(), "skipped"));
    CHECK_FALSE(has_part(warnings(), "fp32 diverged"));
    CHECK(sweep_summary_text(sweep).find("warning: low diverged in 1 of 3 settings") != std::string::npos);
    CHECK(sweep_page_html(sweep).find("<li>Warning: low diverged in 1 of 3 settings") != std::string::npos);
    sweep.rows[1].policy.row.skipped_rate = 0.015;
    sweep.rows[4].policy.row.skipped_rate = 0.03;
    sweep.rows[3].policy.row.failed_seeds = 2;
    sweep.rows[7].policy.row.failures = "ended_above_start:1";
    CHECK(has_part(warnings(),
                   "low diverged in 1 of 3 settings (lr 0.01: 1 of 3 seeds): the loss ended above that of the first "
                   "step"));
    sweep.rows[1].policy.row.forced = "wide_interval";
    sweep.rows[1].policy.row.steps = 60;
    CHECK(has_part(warnings(), "low skipped up to 3.0 % of its steps, in 2 of 3 settings (lr 0.001; lr 0.003)"));
    CHECK(has_part(warnings(), "fp32 diverged in 1 of 3 settings (lr 0.003: 2 of 3 seeds), so the gaps of the other"));
    CHECK(has_part(warnings(),
                   "1 of 5 rows with the verdict \"undecided\": the verdict \"no difference found\" was not "
                   "possible, because the seeds scatter by more than the margin"));
    CHECK(has_part(warnings(), "60 steps: with fewer than"));
    CHECK(best_values(sweep).rows.at(0).value == "0.01");  // a value at which fp32 diverged is not its best value
}

TEST_CASE("the page of a sweep defines `diverged`, and marks diverged runs in the chart over an axis with crosses",
          "[reports][study]") {
    SweepSummary sweep = rates_sweep();
    for (SweepRow& row : sweep.rows) {
        const bool is_fp32 = row.policy.row.policy == "fp32";
        if (!is_fp32) row.policy.row.gap_mean = row.policy.row.verdict == "diverged" ? 77 : 0.5;
    }
    const std::string page = sweep_page_html(sweep), cross = "<path d=\"M-4-4L4 4M-4 4L4-4\"";
    CHECK(page.find("Diverged: a run counts as diverged if ") != std::string::npos);
    CHECK(page.find("A cross at the top edge marks a value at which a run of the policy diverged") !=
          std::string::npos);
    const std::size_t first = page.find(cross);
    REQUIRE(first != std::string::npos);
    CHECK(page.find(cross, first + 1) == std::string::npos);
    CHECK(page.find(">80<") == std::string::npos);  // the axis does not reach the gap of the diverged run
    CHECK(sweep_summary_text(sweep).find("\ndiverged: a run counts as diverged if ") != std::string::npos);
    for (SweepRow& row : sweep.rows) row.policy.row.verdict = "worse", row.policy.row.failed_seeds = 0;
    CHECK(sweep_page_html(sweep).find(cross) == std::string::npos);
    CHECK(sweep_summary_text(sweep).find("diverged: ") == std::string::npos);
}

TEST_CASE("the page of a study with thousands of settings stays below ten megabytes", "[reports][study]") {
    SweepSummary sweep{.name = "large", .axes = {"lr", "width"}, .rows = {}};
    std::vector<StepRow> fp32(50), own(50);
    for (std::size_t i = 0; i < own.size(); ++i) {
        fp32[i].step = own[i].step = static_cast<std::int64_t>(i + 1);
        fp32[i].loss = 3, own[i].loss = 3.1;
    }
    GapCurve curve;
    curve.add(own, fp32, 50);
    for (std::size_t setting = 0; setting < 4000; ++setting) {
        for (int policy = 0; policy < 70; ++policy) {
            SweepRow row{
                .values = {fmt::format("{}", 1e-4 * static_cast<double>(setting + 1)), fmt::format("{}", setting % 7)},
                .setting = setting};
            row.policy.row = {.policy = policy == 0 ? "fp32" : fmt::format("policy-{}", policy), .seeds = 5, .loss = 3};
            row.policy.row.verdict = policy == 0 ? "baseline" : "undecided";
            row.policy.row.gap_mean = 0.01 * policy, row.policy.row.gap_ci_low = -0.01,
            row.policy.row.gap_ci_high = 0.02;
            row.policy.relative_gap = 1e-3 * static_cast<double>(setting);
            if (policy < 3) row.curve = curve;
            sweep.rows.push_back(std::move(row));
        }
    }
    sweep.settings = 4000;
    const std::string page = sweep_page_html(sweep);
    CHECK(page.size() < 10'000'000);
    CHECK(page.find("of 4000 settings with the largest gaps") != std::string::npos);
    CHECK(page.find("Only the first 60 of 70 policies are shown") != std::string::npos);
    CHECK(page.find("<h2>The 20 largest gaps</h2>") != std::string::npos);
    CHECK(page.find(">0.4</th>") != std::string::npos);     // the setting of the largest gap
    CHECK(page.find(">0.0001</th>") == std::string::npos);  // the setting of the smallest gap
    const std::string small = sweep_page_html(sweep, {.max_settings = 3, .max_policies = 2});
    CHECK(std::count(small.begin(), small.end(), '\n') < 800);  // 700 of them are style, script and text
    CHECK(small.find("Only the 3 of 4000 settings") != std::string::npos);
    CHECK(page.find("Of 70 policies, only the 14 with the largest gaps are shown") != std::string::npos);
}

TEST_CASE("the labels of a chart are inside the chart and do not overlap", "[reports][study]") {
    LineChart chart{.title = "a & b", .x_name = "lr", .y_name = "gap", .lines = {{.name = "<p>"}}, .has_log_x = true};
    for (const double x : {1e-3, 3e-4, 0.00123456, 1e-2, 1.5e-5, 1e-4})
        chart.lines[0].points.push_back({x, 0.1, -0.1, 0.2});
    const std::string svg = chart_svg(chart);
    CHECK(svg.find("a &amp; b") != std::string::npos);
    CHECK(svg.find("&lt;p&gt;") != std::string::npos);
    // Labels below the axis have this form: <text x="554.0" y="236.0" text-anchor="middle">0.01</text>
    const std::string opening = "<text x=\"", height = "y=\"236.0\" text-anchor=\"middle\">";
    double end = 0, last = 0;
    int labels = 0;
    for (std::size_t at = 0; (at = svg.find(opening, at)) != std::string::npos; ++at) {
        const std::size_t from = at + opening.size(), text = svg.find('>', from) + 1;
        const std::string_view attributes = std::string_view(svg).substr(from, text - from);
        if (!attributes.ends_with(height)) continue;
        const double middle = std::strtod(svg.c_str() + from, nullptr);
        const std::string label = svg.substr(text, svg.find('<', text) - text);
        const double half = 3.1 * static_cast<double>(label.size());  // at font size 11, a digit is 6.1 wide
        CAPTURE(label, middle);
        CHECK(middle - half >= end);
        CHECK(middle + half <= 560);
        CHECK(std::strtod(label.c_str(), nullptr) > last);
        end = middle + half, last = std::strtod(label.c_str(), nullptr);
        ++labels;
    }
    CHECK(last == 0.01);  // the largest value has a label
    CHECK(labels == 5);   // 0.00123 would overlap the label of 0.001
    CHECK(chart_svg({.title = "none"}).empty());
}

}  // namespace study_test
