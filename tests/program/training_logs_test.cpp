// SPDX-License-Identifier: Apache-2.0
// Tests `macheps report` for logs that other training programs wrote: output, the page, options and exit codes.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>
#include <tuple>

namespace training_logs_program_test {

using namespace macheps::test;

namespace {

/// Writes a log of nanoGPT whose loss becomes NaN at iteration 9.
void write_log() {
    std::string text;
    for (int i = 1; i <= 12; ++i)
        text += "iter " + std::to_string(i) + ": loss " + (i < 9 ? "2.5" : "nan") + ", time 120.5ms, mfu 41.2%\n";
    write("run.log", text);
}

}  // namespace

TEST_CASE("report prints the findings in a log of another program, and writes a page with its curves",
          "[program][training_logs]") {
    fs::remove_all(scratch());
    write_log();
    const Outcome text = run("report run.log");
    CAPTURE(text.out, text.err);
    CHECK(text.code == 0);
    CHECK(text.out.starts_with("run.log\n  nanoGPT; 12 rows, iter 1 to 12; columns: loss\n"));
    CHECK(text.out.find("nan-in-loss (certain, iter 9): the loss of 4 of 12 rows is not finite") != std::string::npos);
    CHECK(text.out.find("Not looked for: ") != std::string::npos);
    CHECK(text.err == "wrote run.html\n");
    const std::string page = contents(scratch() / "run.html");
    CHECK(page.find("The loss of 4 of 12 rows is not finite") != std::string::npos);
    CHECK(page.find("<svg") != std::string::npos);
    CHECK(page.find("@@") == std::string::npos);
    CHECK(page.find("id=\"log-loss\"") != std::string::npos);  // the name of the picture of --charts
    CHECK(run("report run.log --diagnose").out == text.out);

    const auto json = nlohmann::json::parse(run("report run.log --json").out);
    CHECK(json.at("logs").size() == 1);
    CHECK(json.at("logs")[0].at("kind") == "nanoGPT");
    CHECK(json.at("logs")[0].at("findings")[0].at("certainty") == "certain");
    CHECK(json.at("logs")[0].at("steps")[8].at("loss") == "nan");
    const Outcome csv = run("report run.log run.log --csv");
    CHECK(csv.out.starts_with("file,step,loss,"));
    CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 25);
    fs::remove_all(scratch());
}

TEST_CASE("report refuses logs that it cannot read, and options that do not apply", "[program][training_logs]") {
    fs::remove_all(scratch());
    write_log();
    write("notes.txt", "a few words\n");
    REQUIRE(run("sum -n 8 -q -o sum.csv").code == 0);
    const std::tuple<const char*, int, const char*> cases[] = {
        {"report notes.txt", 3, "notes.txt: this is neither a folder nor a log that a report can show"},
        {"report run.log sum.csv", 2, "run.log: a log of another program cannot be reported together with"},
        {"report sum.csv --gas 4", 2, "--gas: this option is only for logs of other programs"},
        {"report sum.csv --vocabulary 4", 2, "--vocabulary: this option"},
        {"report run.log --column los=x", 2, "--column: 'los' is not a quantity (did you mean 'loss'?"},
        {"report run.log --column loss", 2, "--column: 'loss' has no name of a column"},
        {"report run.log --vocabulary 1", 2, "--vocabulary"},
        {"report run.log --margin 1", 2, "--margin: this option is not for logs of other programs"},
        {"report run.log --small", 2, "--small: this option is not for logs of other programs"},
        {"report run.log --png a.png --top", 2, "--top: this option is not for logs of other programs"},
        {"report run.log --gpu b200", 2, "--gpu: this option applies to a config"},
        {"report run.log --framework-version 0.16.5", 2,
         "--framework-version: 0.16.5 is a version without the name of a package"},
        {"report missing.log", 3, "missing.log: the file or folder does not exist"},
        {"report run.log -o missing/page.html", 5, "missing/page.html"}};
    for (const auto& [arguments, code, words] : cases) {
        const Outcome outcome = run(arguments);
        CAPTURE(arguments, outcome.out, outcome.err);
        CHECK(outcome.code == code);
        CHECK(outcome.err.find(words) != std::string::npos);
    }
    fs::remove_all(scratch());
}

TEST_CASE("options about a config are refused without --config", "[program][training_logs]") {
    fs::remove_all(scratch());
    write_log();
    write("versions.txt", "deepspeed==0.16.5\n");
    write("environment.txt", "A=1\n");
    REQUIRE(run("sum -n 8 -q -o sum.csv").code == 0);
    for (const std::string option :
         {"--framework deepspeed", "--despite acc-bool-lower", "--gpu h100", "--checkpoint-dtype bf16", "--line 3",
          "--env environment.txt", "--framework-version deepspeed=0.16.5", "--requirements versions.txt"}) {
        const std::string name = option.substr(0, option.find(' '));
        const bool is_version = name == "--framework-version" || name == "--requirements";
        const std::string refusal = "macheps: " + name + ": this option applies to a config, but no config is given";
        for (const std::string verb : {"why nan", "train --steps 1 -q", "report run.log"}) {
            const Outcome outcome = run(verb + " " + option);
            CAPTURE(verb, option, outcome.err);
            // The versions of packages also select the faults that a report on a log names.
            const bool is_refused = verb != "report run.log" || !is_version;
            CHECK(outcome.code == (is_refused ? 2 : 0));
            CHECK(outcome.err.starts_with(refusal) == is_refused);
        }
        const Outcome rows = run("report sum.csv " + option);
        CAPTURE(option, rows.err);
        if (name == "--gpu") continue;  // also selects the peak speeds of runs
        CHECK(rows.code == 2);
        CHECK(rows.err.starts_with("macheps: " + name + ": this option is only for logs of other programs"));
    }
    fs::remove_all(scratch());
}

}  // namespace training_logs_program_test
