// SPDX-License-Identifier: Apache-2.0
// Tests `macheps_train`, the program that scripts/demo builds first. It must write the same rows as `macheps train`.
#include "tests/program/program.hpp"

#include <string>

namespace train_program_test {

using namespace macheps::test;

TEST_CASE("macheps_train, which has only the verb train, writes the same rows as macheps", "[program]") {
    const std::string arguments = std::string(quick) + "--policy fp32,amp-fp16,fp8-tensorwise --seeds 0,1 --out ";
    REQUIRE(run(arguments + "whole").code == 0);
    const std::string alone = "cd '" + scratch().string() + "' && '" MACHEPS_TRAIN_PROGRAM "' " + arguments +
                              "alone >out.txt 2>err.txt </dev/null";
    REQUIRE(std::system(alone.c_str()) == 0);
    for (const char* name : {"steps.csv", "summary.csv", "sites.csv"}) {
        const std::string rows = contents(scratch() / "whole" / name);
        CAPTURE(name);
        CHECK(!rows.empty());
        CHECK(contents(scratch() / "alone" / name) == rows);
    }
    // Any other verb is a usage error.
    CHECK(std::system(("'" MACHEPS_TRAIN_PROGRAM "' show 0.1 2>'" + (scratch() / "err.txt").string() + "'").c_str()) >>
              8 ==
          2);
    CHECK(contents(scratch() / "err.txt").find("show") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("the git revision is only in the section .macheps_revision, which scripts/demo removes to compare programs",
          "[program]") {
    const std::string version = run("--version").out;
    const std::size_t open = version.rfind('('), close = version.rfind(')');
    REQUIRE((open != std::string::npos && close > open + 1));
    const std::string revision = version.substr(open + 1, close - open - 1);
    const std::string folder = scratch().string();
    const std::string command = "cd '" + folder +
                                "' && cp '" MACHEPS_TRAIN_PROGRAM
                                "' trainer && "
                                "objcopy --dump-section .macheps_revision=section trainer && "
                                "objcopy --remove-section=.macheps_revision trainer";
    REQUIRE(std::system(command.c_str()) == 0);
    const std::string section = contents(scratch() / "section");
    CHECK(section.size() == 96);  // for any revision
    CHECK(section.c_str() == revision);
    if (revision != "unknown") CHECK(contents(scratch() / "trainer").find(revision) == std::string::npos);
    fs::remove_all(scratch());
}

}  // namespace train_program_test
