// SPDX-License-Identifier: Apache-2.0
// Tests output and input files that other processes use at the same time, or that are links, pipes or devices.
#include "tests/program/program.hpp"
#include "tests/scratch.hpp"

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace files_test {

using macheps::test::contents;
using macheps::test::Outcome;
using macheps::test::quick;
using macheps::test::run;
using macheps::test::scratch;
using macheps::test::write;

namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Runs lines of bash in the scratch folder. In these lines, $M is the path of the program.
Outcome bash(const std::string& lines) {
    write("lines.sh", "M='" MACHEPS_PROGRAM "'\n" + lines);
    const std::string command = "cd '" + scratch().string() + "' && bash lines.sh >bash.out 2>bash.err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(scratch() / "bash.out"),
            contents(scratch() / "bash.err")};
}

void begin() {
    fs::remove_all(scratch());
    scratch();
}

std::vector<std::string> drafts_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with(".new")) names.push_back(name);
    }
    return names;
}

}  // namespace

TEST_CASE("writing an output does not replace a link, a device or a pipe", "[program][files]") {
    begin();
    REQUIRE(run(std::string(quick) + "-p fp32 -o r").code == 0);
    const bool has_device = macheps::test::make_null_device(scratch() / "device");
    fs::create_symlink("device", scratch() / "nothing");
    fs::create_symlink("real.html", scratch() / "page.html");
    fs::create_symlink("real.csv", scratch() / "rows.csv");
    write("real.csv", "old");
    if (has_device) {
        CHECK(run("report r -o nothing").code == 0);
        CHECK(run("gemm -M fp32.chain -f fp32 -k 16 -m 1 -n 1 --quiet -o nothing").code == 0);
        CHECK(fs::is_symlink(scratch() / "nothing"));
        CHECK(fs::is_character_file(scratch() / "device"));
        CHECK_FALSE(fs::exists(scratch() / "summary.csv"));  // none if the page goes to a device file
    }
    CHECK(run("report r -o page.html").code == 0);
    CHECK(fs::is_symlink(scratch() / "page.html"));
    CHECK(contains(contents(scratch() / "real.html"), "</html>"));
    CHECK(fs::exists(scratch() / "summary.csv"));
    CHECK(run("gemm -M fp32.chain -f fp32 -k 16 -m 1 -n 1 --quiet -o rows.csv").code == 0);
    CHECK(fs::is_symlink(scratch() / "rows.csv"));
    CHECK(contains(contents(scratch() / "real.csv"), "machine,"));
    const Outcome piped = bash("mkfifo pipe; $M report r -o pipe >/dev/null 2>&1 & tail -c 8 pipe; wait $!; echo $?");
    CHECK(contains(piped.out, "</html>\n0"));
    CHECK(fs::is_fifo(scratch() / "pipe"));
    CHECK(drafts_in(scratch()).empty());
}

TEST_CASE("two report commands can run at the same time, and report can run during a training run",
          "[program][files]") {
    begin();
    REQUIRE(run(std::string(quick) + "-p fp32,amp-bf16 -o r").code == 0);
    const Outcome both = bash(
        "for i in 1 2 3 4 5 6; do\n"
        "  $M report r >/dev/null 2>&1 & a=$!\n"
        "  $M report r >/dev/null 2>&1 & b=$!\n"
        "  wait $a || echo failed; wait $b || echo failed\n"
        "  tail -c 8 r/report.html | grep -q '</html>' || echo torn\n"
        "done\n");
    CHECK(both.out.empty());
    CHECK(both.err.empty());

    const std::string longer =
        "train --steps 400 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --probe-every 20 "
        "-p fp32,amp-bf16,pure-bf16 ";
    REQUIRE(run(longer + "-o alone").code == 0);
    const Outcome beside = bash("$M " + longer +
                                "-o live >/dev/null 2>&1 & t=$!\n"
                                "n=0\n"
                                "while kill -0 $t 2>/dev/null; do\n"
                                "  if [ -e live/manifest.json ]; then\n"
                                "    $M report live >/dev/null 2>report.err || { echo failed; cat report.err; }\n"
                                "    n=$((n+1))\n"
                                "  fi\n"
                                "done\n"
                                "wait $t || echo training failed\n"
                                "[ $n -gt 1 ] || echo too few\n");
    CHECK(beside.out.empty());
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "live" / name) == contents(scratch() / "alone" / name));
    }
    CHECK(drafts_in(scratch()).empty());
}

TEST_CASE("a report removes the temporary file that a killed process has left", "[program][files]") {
    begin();
    REQUIRE(run(std::string(quick) + "-p fp32 -o r").code == 0);
    write("r/.macheps-1-0.new", "half a page of a process that is no more");
    CHECK(run("report r").code == 0);
    CHECK(drafts_in(scratch()).empty());
}

TEST_CASE("if a data file is truncated, the training ends with an error message", "[program][files]") {
    begin();
    write("data.txt", std::string(200'000, 'a'));
    const Outcome cut = bash(
        "$M train -p fp32 --steps 1000000 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --data data.txt -o r "
        ">/dev/null 2>train.err & t=$!\n"
        "while [ ! -s r/manifest.json ]; do sleep 0.05; kill -0 $t || break; done\n"
        "sleep 0.3; : >data.txt; wait $t; echo $?\n");
    CHECK(cut.out == "3\n");
    CHECK(contains(contents(scratch() / "train.err"), "data.txt: this file was cut short while it was in use"));
    CHECK(run("report r").code == 0);
}

TEST_CASE("data from a pipe trains like data from a file, and a device is refused", "[program][files]") {
    begin();
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * i) + "\n";
    write("data.txt", text);
    REQUIRE(run(std::string(quick) + "-p fp32 --data data.txt -o file").code == 0);
    const Outcome piped = bash("$M " + std::string(quick) + "-p fp32 --data <(cat data.txt) -o pipe; echo $?");
    CAPTURE(piped.err);
    CHECK(contains(piped.out, "0\n"));
    CHECK_FALSE(contents(scratch() / "pipe/steps.csv").empty());
    CHECK(contents(scratch() / "pipe/steps.csv") == contents(scratch() / "file/steps.csv"));

    write("zero.toml", "extends = \"/dev/zero\"");
    for (const std::string& arguments :
         {std::string(quick) + "-p fp32 --data /dev/zero",
          std::string(quick) + "-p fp32 --data data.txt --val-data /dev/zero",
          std::string("policy explain ./zero.toml"), std::string("policy explain /dev/zero"),
          std::string("report /dev/zero"), std::string("train --from /dev/zero -o n"),
          std::string("machine eval /dev/zero")}) {
        const Outcome o = run(arguments);
        CAPTURE(arguments, o.err);
        CHECK(o.code == 3);
        CHECK(contains(o.err, "neither a regular file nor a pipe"));
    }
}

TEST_CASE("a pattern on the command line that is too long or nested too deeply is a usage error", "[program][files]") {
    begin();
    const std::string deep = std::string(20'000, '{') + "a" + std::string(20'000, '}');
    const Outcome long_one = run("policy explain fp32 --sites '" + deep + "'");
    CHECK(long_one.code == 2);
    CHECK(contains(long_one.err, "--sites: the pattern has 40001 bytes, more than 4096"));
    const Outcome deep_one =
        run("policy explain fp32 --sites '" + std::string(300, '{') + "a" + std::string(300, '}') + "'");
    CHECK(deep_one.code == 2);
    CHECK(contains(deep_one.err, "nest deeper than 256 levels"));
    const Outcome only = run("verify --only '" + deep + "'");
    CHECK(only.code == 2);
    CHECK(contains(only.err, "--only: the pattern has"));
}

}  // namespace files_test
