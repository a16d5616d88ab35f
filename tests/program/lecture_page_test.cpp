// SPDX-License-Identifier: Apache-2.0
// Tests docs/lecture.md: every command runs, and the lines below it are the first lines of its output.
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <string>

namespace lecture_page_test {

using namespace macheps::test;

TEST_CASE("every command of docs/lecture.md prints the lines below it", "[program][docs]") {
    const std::string page = contents(fs::path(MACHEPS_SOURCE_DIR) / "docs/lecture.md");
    int count = 0;
    for (const Match& part : all_matches(page, "```sh\nmacheps ([^\n]*)\n```\n\n```\n([^`]*)```\n")) {
        const std::string& command = part[1];
        const bool is_study = !command.starts_with("show ");  // a verb that prints CSV unless it is on a terminal
        const Outcome outcome = run(command + (is_study ? " --table -q" : ""));
        CAPTURE(command, outcome.err);
        ++count;
        if (command.starts_with("eval ") && outcome.code == 4) continue;  // a build without Arb
        REQUIRE(outcome.code == 0);
        CHECK(outcome.out.substr(0, part[2].length()) == part[2]);
    }
    CHECK(count == 7);
    // Every part has a question.
    CHECK(all_matches(page, "\n## [0-9]\\. ").size() == 8);
    CHECK(all_matches(page, "\n\\*Question: ").size() == 8);
}

TEST_CASE("the commands in the sentences of docs/lecture.md run", "[program][docs]") {
    const std::string page = contents(fs::path(MACHEPS_SOURCE_DIR) / "docs/lecture.md");
    int count = 0;
    for (const Match& quoted : all_matches(page, "`macheps ([a-z][^`]*)`")) {
        const std::string command = quoted[1];
        if (command.find("NAME") != std::string::npos) continue;
        CAPTURE(command);
        CHECK(run(command).code == 0);
        ++count;
    }
    CHECK(count == 2);
}

}  // namespace lecture_page_test
