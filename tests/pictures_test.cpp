// SPDX-License-Identifier: Apache-2.0
// Tests of the files in docs/ that the program generates: the pictures (made by scripts/pictures), the demo report, and
// the page that lists the columns of every output file.
#include "tests/program/program.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace pictures_test {

using namespace macheps::test;

namespace {

const fs::path source = MACHEPS_SOURCE_DIR;

/// Runs a command with stdout and stderr redirected to files in the scratch folder.
Outcome command(const std::string& text) {
    const std::string out = (scratch() / "out.txt").string(), err = (scratch() / "err.txt").string();
    const int status = std::system((text + " >'" + out + "' 2>'" + err + "' </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out), contents(err)};
}

std::string script() { return "MACHEPS='" MACHEPS_PROGRAM "' '" + (source / "scripts/pictures").string() + "' "; }

std::set<std::string> listed_files() {
    std::istringstream lines(command(script() + "--list").out);
    std::set<std::string> files;
    for (std::string line; std::getline(lines, line);) files.insert(line);
    return files;
}

/// Returns the names of the files in `folder` with the extension `ending`.
std::set<std::string> names_in(const fs::path& folder, const std::string& ending) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ending) names.insert(entry.path().filename().string());
    }
    return names;
}

bool has_browser() {
    if (std::getenv("MACHEPS_BROWSER") != nullptr) return true;
    for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}) {
        if (std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("docs/columns.md lists the columns of the row types and of a run's files", "[docs][columns]") {
    fs::remove_all(scratch());
    const Outcome columns = run("report --columns");
    CHECK(columns.code == 0);
    CHECK(columns.err.empty());
    const bool is_same = columns.out == contents(source / "docs/columns.md");
    INFO("to update the page, run: macheps report --columns >docs/columns.md");
    CHECK(is_same);
    // A file of a run has exactly the columns that the page lists.
    REQUIRE(run(quick + std::string("--policy amp-bf16 --out run")).code == 0);
    for (const char* file : {"runs.csv", "steps.csv", "evals.csv", "sites.csv", "exponents.csv", "summary.csv"}) {
        CAPTURE(file);
        std::istringstream section(columns.out.substr(columns.out.find(std::string("\n## ") + file + "\n")));
        std::string header;
        std::getline(section, header), std::getline(section, header);
        std::string named;
        for (std::string line; std::getline(section, line) && !line.starts_with("## ");) {
            if (!line.starts_with("| `")) continue;
            named += (named.empty() ? "" : ",") + line.substr(3, line.find('`', 3) - 3);
        }
        const std::string text = contents(scratch() / "run" / file);
        CHECK(text.substr(0, text.find('\n')) == named);
    }
    fs::remove_all(scratch());
}

TEST_CASE("report needs a folder, and --top needs --png", "[docs][columns]") {
    fs::remove_all(scratch());
    const Outcome nothing = run("report");
    CHECK(nothing.code == 2);
    CHECK(nothing.err.find("DIR is required") != std::string::npos);
    CHECK(run("report somewhere --top").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("every picture in docs/ comes from scripts/pictures, and every picture on a page exists",
          "[docs][pictures]") {
    fs::remove_all(scratch());
    const std::set<std::string> listed = listed_files();
    REQUIRE(listed.size() >= 5);
    for (const std::string& file : listed) {
        CAPTURE(file);
        CHECK(fs::exists(source / "docs" / file));
    }
    for (const char* ending : {".png", ".html"}) {
        for (const std::string& file : names_in(source / "docs", ending)) {
            CAPTURE(file);
            CHECK(listed.contains(file));
        }
    }
    std::vector<fs::path> pages{source / "README.md"};
    for (const std::string& page : names_in(source / "docs", ".md")) pages.push_back(source / "docs" / page);
    for (const fs::path& page : pages) {
        const std::string text = contents(page);
        for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 2)) {
            const std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
            if (!target.ends_with(".png") && !target.ends_with(".html")) continue;
            if (target.starts_with("http")) continue;
            CAPTURE(page.string(), target);
            CHECK(fs::exists(page.parent_path() / target));
        }
    }
    // The demo's report is complete, and small enough to open with one click.
    const std::string demo = contents(source / "docs/demo.html");
    CHECK(demo.size() > 300'000);
    CHECK(demo.size() < 800'000);
    CHECK(demo.find("Which recipe is safe?") != std::string::npos);
    CHECK(demo.find("fp16-noscale") != std::string::npos);
    CHECK(demo.find("<pre><code>macheps train --out demo</code></pre>") != std::string::npos);  // no absolute paths
    CHECK(command(script() + "--nonsense").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("the commands of scripts/pictures make every picture in docs/", "[docs][pictures]") {
    if (!has_browser()) SKIP_TEST("no Chromium or Chrome on PATH, nor in MACHEPS_BROWSER");
    fs::remove_all(scratch());
    const fs::path folder = scratch() / "pictures";
    const Outcome outcome = command(script() + "--quick '" + folder.string() + "'");
    CAPTURE(outcome.err);
    if (outcome.err.find("the browser failed") != std::string::npos) SKIP_TEST("the browser does not start here");
    REQUIRE(outcome.code == 0);
    for (const std::string& file : listed_files()) {
        CAPTURE(file);
        const std::string text = contents(folder / file);
        CHECK(text.size() > 2000);
        if (file.ends_with(".png")) CHECK(text.starts_with("\x89PNG\r\n"));
        if (file == "demo.html") CHECK(text.find("<pre><code>macheps train --out demo ") != std::string::npos);
    }
    fs::remove_all(scratch());
}

}  // namespace pictures_test
