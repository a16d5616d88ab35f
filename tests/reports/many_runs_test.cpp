// SPDX-License-Identifier: Apache-2.0
// Tests reports of many run directories, and of run directories that were just created.
#include "core/error.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/pages/drawn.hpp"
#include "reports/pages/html.hpp"
#include "reports/pages/page_data.hpp"
#include "tests/json.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace many_runs_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

/// Writes `folders` run directories. Each has an fp32 run and a run of a policy that no other directory has. The gap to
/// fp32 grows with the number of the directory.
std::vector<fs::path> write_many(const TemporaryFolder& folder, int folders) {
    std::vector<fs::path> paths;
    for (int i = 0; i < folders; ++i) {
        paths.push_back(folder / fmt::format("{:03}", i));
        const test::SamplePolicy own{
            .name = fmt::format("own-{:03}", i), .format = "bf16", .bias = 0.02 * i, .underflow = 0.05};
        test::write_sample_run(paths.back(),
                               {.policies = {{.name = "fp32"}, own}, .steps = 40, .layers = 1, .sample_every = 20});
    }
    return paths;
}

PolicySummary made(const std::string& name, std::optional<double> gap, const std::string& verdict = "one seed") {
    PolicySummary policy;
    policy.row.policy = name;
    policy.row.verdict = verdict;
    policy.relative_gap = gap;
    return policy;
}

std::vector<std::string> names_of(const Summary& summary) {
    std::vector<std::string> names;
    for (const PolicySummary& policy : summary.policies) names.push_back(policy.row.policy);
    return names;
}

}  // namespace

TEST_CASE("a page draws the policies that differ most from fp32, in the order of the summary", "[reports][drawn]") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    Summary summary;
    summary.notes = {"a note"};
    summary.policies = {made("fp32", 0.0, "baseline"), made("small", 0.001), made("below", -0.5),
                        made("unpaired", {}),          made("broken", nan),  made("middle", 0.1),
                        made("gone", 0.0, "diverged")};
    CHECK(names_of(drawn_of(summary, 6)) == names_of(summary));
    CHECK(drawn_of(summary, 6).notes == summary.notes);
    CHECK(names_of(drawn_of(summary, 4)) == std::vector<std::string>{"fp32", "below", "broken", "middle", "gone"});
    CHECK(names_of(drawn_of(summary, 2)) == std::vector<std::string>{"fp32", "broken", "gone"});
    const Summary five = drawn_of(summary, 5);
    CHECK(names_of(five) == std::vector<std::string>{"fp32", "small", "below", "broken", "middle", "gone"});
    REQUIRE(five.notes.size() == 2);
    CHECK(five.notes[0] ==
          "6 policies were compared; this page shows the 5 whose loss differs most from that of fp32, and summary.csv "
          "contains all of them");
    CHECK(five.notes[1] == "a note");
}

TEST_CASE("a summary does not depend on which rows are kept in memory", "[reports][drawn]") {
    const TemporaryFolder folder;
    test::write_sample_run(folder / "a", {.steps = 60, .seeds = 2, .layers = 1});
    test::write_sample_run(folder / "b", {.steps = 50, .seeds = 1, .layers = 1});
    const std::vector<fs::path> folders{folder / "a", folder / "b"};
    const Log whole = read_runs(folders);
    Log lean = read_runs(folders, Keep::summary);
    const Summary summary = summarise(whole);
    CHECK(summary_csv(summarise(lean)) == summary_csv(summary));
    CHECK(summarise(lean).notes == summary.notes);
    for (const RunLog& run : lean.runs) CHECK((run.sites.capacity() == 0 && run.exponents.capacity() == 0));
    // After read_samples(), the log `lean` gives the same page as a log that was read completely at once.
    CHECK(read_samples(lean, names_of(summary)).empty());
    CHECK(page_html(lean, summary) == page_html(whole, summary));
}

TEST_CASE("a page shows fp32 and at most a hundred other policies, and a note gives the total number",
          "[reports][drawn]") {
    const TemporaryFolder folder;
    const std::vector<fs::path> folders = write_many(folder, 130);
    Log log = read_runs(folders, Keep::summary);
    const Summary summary = summarise(log);
    REQUIRE(summary.policies.size() == 131);
    const std::vector<std::string> drawn = names_of(drawn_of(summary));
    REQUIRE(drawn.size() == 101);
    CHECK(read_samples(log, drawn).empty());
    for (const RunLog& run : log.runs) {
        CAPTURE(run.policy);
        const bool is_drawn = std::find(drawn.begin(), drawn.end(), run.policy) != drawn.end();
        CHECK(run.sites.empty() != is_drawn);
        CHECK(run.exponents.empty() != is_drawn);
    }
    const std::string page = page_html(log, summary);
    // The bias grows with a policy's number, so the last hundred policies differ most from fp32.
    CHECK(page.find("own-129") != std::string::npos);
    CHECK(page.find("own-030") != std::string::npos);
    CHECK(page.find("own-029<") == std::string::npos);
    CHECK(page.find("own-029\"") == std::string::npos);
    CHECK(page.find("130 policies were compared; this page shows the 100") != std::string::npos);
    CHECK(page.find("From 000 + 001 + 002 + 003 and 126 more.</p>") != std::string::npos);
    // The page leaves out 30 policies, but only 29 folders. It shows the folder of the first of these policies, because
    // it shows the fp32 run of that folder.
    CHECK(page.find("Not shown: the settings of 29 folders") != std::string::npos);
    CHECK(page.size() < 6'000'000);
    CHECK(summary_csv(summary).find("own-000") != std::string::npos);
}

TEST_CASE("steps are joined into fewer points if all curves together exceed the limit of a page", "[reports][drawn]") {
    const TemporaryFolder folder;
    test::write_sample_run(folder / "run", {.steps = 100, .seeds = 2, .layers = 1});
    const std::vector<fs::path> folders{folder / "run"};
    const Log log = read_runs(folders);
    const Summary summary = summarise(log);
    CHECK(points_bucket(log, summary) == 1);
    CHECK(points_bucket(log, summary, {.all_points = 16 * 100}) == 1);
    CHECK(points_bucket(log, summary, {.all_points = 16 * 100 - 1}) == 2);
    CHECK(points_bucket(log, drawn_of(summary, 1), {.all_points = 400}) == 1);  // 2 policies x 2 seeds x 100 steps
}

TEST_CASE("a run directory is readable from the moment of its creation", "[reports][run_log]") {
    const TemporaryFolder folder;
    const fs::path whole = folder / "whole", cut = folder / "cut";
    test::write_sample_run(whole, {.policies = {{.name = "fp32"}, {.name = "bf16", .format = "bf16"}},
                                   .steps = 4,
                                   .layers = 1,
                                   .sample_every = 2});
    const std::vector<std::string> files{"manifest.json", "runs.csv",  "steps.csv",
                                         "evals.csv",     "sites.csv", "exponents.csv"};
    const auto read = [&](const std::string& what) {
        CAPTURE(what);
        Log log = read_runs(std::span(&cut, 1), Keep::summary);
        const Summary summary = summarise(log);
        std::vector<std::string> notes = summary.notes;
        for (std::string& note : read_samples(log, names_of(summary))) notes.push_back(std::move(note));
        CHECK(page_html(log, summary).size() > 10000);
        return notes;
    };
    for (const std::string& name : files) {
        const std::string text = csv::read_text(whole / name);
        const bool is_manifest = name == "manifest.json";
        const bool is_optional = name == "evals.csv" || name == "sites.csv" || name == "exponents.csv";
        fs::remove_all(cut);
        fs::copy(whole, cut);
        fs::remove(cut / name);
        CHECK(read(name + " is missing").empty() == is_optional);
        // The file is cut at every seventh byte within its header and first rows, and at larger distances after them.
        // A manifest is either complete or empty, because it is replaced atomically.
        for (std::size_t length = 0; length <= (is_manifest ? 0 : text.size()); length += length < 600 ? 7 : 1997) {
            std::ofstream(cut / name, std::ios::binary) << text.substr(0, length);
            const std::vector<std::string> notes = read(fmt::format("{} has {} bytes", name, length));
            const bool is_half = length == 0 || text[length - 1] != '\n';
            CAPTURE(name, length);
            const bool is_noted = std::any_of(notes.begin(), notes.end(), [&](const std::string& note) {
                return note.find(is_manifest ? "manifest.json is empty" : (cut / name).string() + ": ") !=
                       std::string::npos;
            });
            CHECK(is_noted == is_half);
        }
    }
    // A directory without rows is read if it has a manifest, and refused otherwise.
    fs::remove_all(cut);
    fs::create_directories(cut);
    fs::copy(whole / "manifest.json", cut / "manifest.json");
    CHECK(read("a manifest alone").size() == 2);
    fs::remove(cut / "manifest.json");
    std::ofstream(cut / "notes.txt") << "mine";
    CHECK_THROWS_AS(read_runs(std::span(&cut, 1)), Error);
}

TEST_CASE("a manifest that is too large or nested too deeply is refused, and the error names the line",
          "[reports][run_log]") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    test::write_sample_run(run, {.steps = 2, .layers = 1});
    const auto complaint = [&](const std::string& text) -> std::string {
        std::ofstream(run / "manifest.json", std::ios::binary) << text;
        try {
            read_runs(std::span(&run, 1));
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            return error.what();
        }
        return "";
    };
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    CHECK(complaint("{\"a\":\n" + deep + "}")
              .find("manifest.json:2: the brackets are nested more than 256 levels deep") != std::string::npos);
    CHECK(complaint(deep).find("manifest.json:1: ") != std::string::npos);
    CHECK(complaint("{\"a\": \"" + deep + "\"}").empty());
    CHECK(complaint("{\"a\": \"" + std::string(std::size_t{64} << 20, 'x') + "\"}").find("67108864 bytes") !=
          std::string::npos);
}

}  // namespace many_runs_test
