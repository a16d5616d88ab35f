// SPDX-License-Identifier: Apache-2.0
// The program from outside: what good and bad input gets. Streams, exit codes, and nothing half-written.
#include "tests/test.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

namespace fs = std::filesystem;

namespace {

struct Outcome {
    int code = -1;
    std::string out, err;
};

std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// A scratch folder of this process, emptied by each test that asks for it.
fs::path scratch() {
    const fs::path path = fs::temp_directory_path() / ("macheps_program_" + std::to_string(getpid()));
    fs::create_directories(path);
    return path;
}

/// Runs `macheps ARGUMENTS` in the scratch folder.
Outcome run(const std::string& arguments, const std::string& environment = "") {
    const fs::path folder = scratch();
    const std::string command = "cd '" + folder.string() + "' && " + environment + " '" MACHEPS_PROGRAM "' " +
                                arguments + " >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out.txt"),
            contents(folder / "err.txt")};
}

void write(const std::string& name, const std::string& text) {
    std::ofstream(scratch() / name, std::ios::binary) << text;
}

constexpr const char* quick =
    "train --steps 2 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --warmup 1 ";

}  // namespace

TEST_CASE("bad input gets one line that says what, where and how to mend it", "[program]") {
    fs::remove_all(scratch());
    write("short.txt", "too short");
    write("typo.toml", "name = \"mine\"\n[[rule]]\nsites = \"*:forward.out\"\ncats = \"bf16\"\n");
    write("format.toml", "name = \"mine\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"bf61\"\n");
    write("ambiguous.toml", "name = \"mine\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"e4m3\"\n");
    write("pattern.toml", "name = \"mine\"\n[[rule]]\nsites = \"blok.*:forward.out\"\ncast = \"bf16\"\n");
    write("syntax.toml", "name = \"mine\n");
    write("file", "");
    fs::create_directories(scratch() / "taken");
    write("taken/manifest.json", "{}");
    struct Case {
        const char *arguments, *says;
        int code;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"train --data nowhere.txt --steps 1", "nowhere.txt", 3, "missing data file"},
             {"train --data . --steps 1", "directory", 3, "a directory for a data file"},
             {"train --data short.txt --steps 1", "short.txt", 3, "a file shorter than one context"},
             {"train --policy amp-bf61 --steps 1", "amp-bf16", 3, "unknown policy: the nearest name"},
             {"train --policy typo.toml --steps 1", "typo.toml:4", 3, "unknown key: file and line"},
             {"train --policy format.toml --steps 1", "bf16", 3, "unknown format: the nearest name"},
             {"train --policy ambiguous.toml --steps 1", "e4m3fn", 3, "plain e4m3 is ambiguous"},
             {"train --policy pattern.toml --steps 1", "pattern.toml:3", 3, "a pattern without a match"},
             {"train --policy syntax.toml --steps 1", "syntax.toml:1", 3, "no TOML"},
             {"train --policy nowhere.toml --steps 1", "nowhere.toml", 3, "missing policy file"},
             {"train --out taken --steps 1", "--force", 2, "an existing run directory"},
             {"train --out file --steps 1", "file", 5, "a file where the directory should be"},
             {"train --out /proc/nowhere/run --steps 1", "/proc/nowhere", 5, "an unwritable directory"},
             {"train --steps 0", "--steps", 2, "no steps"},
             {"train --batch 0", "--batch", 2, "an empty batch"},
             {"train --layers 0", "--layers", 2, "no layers"},
             {"train --width 0", "--width", 2, "no width"},
             {"train --heads 3", "--heads", 2, "heads that do not divide the width"},
             {"train --context 0", "--context", 2, "no context"},
             {"train --vocabulary 0", "--vocabulary", 2, "no tokens"},
             {"train --steps ten", "--steps", 2, "a number that is no number"},
             {"train --lr nan", "--lr", 2, "a learning rate that is no number"},
             {"train --token-weight 0.3", "--token-weight", 2, "no power of two"},
             {"train --token-weight x", "--token-weight", 2, "no number"},
             {"train --size medium", "--size", 2, "unknown size"},
             {"train --seeds 1,1 --steps 1", "--seeds", 2, "a seed twice"},
             {"train --policy tf32,tf32 --steps 1", "tf32", 2, "a policy twice"},
             {"train --threads -1 --steps 1", "thread", 2, "fewer threads than none"},
             {"show twelve", "twelve", 2, "a number that is no number"},
             {"show 1 --format e4m3", "e4m3fn", 2, "an ambiguous format"},
             {"policy show amp-bf61", "amp-bf16", 3, "unknown policy"},
             {"report nowhere", "nowhere", 3, "no such run directory"},
             {"", "subcommand", 2, "no verb"},
             {"trian", "trian", 2, "an unknown verb"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = run(c.arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.err.find(c.says) != std::string::npos);
        CHECK(outcome.out.empty());
        CHECK_FALSE(fs::exists(scratch() / "runs"));  // nothing was begun
    }
    CHECK(contents(scratch() / "taken/manifest.json") == "{}");
    fs::remove_all(scratch());
}

TEST_CASE("MACHEPS_SIMD names a path or is refused", "[program]") {
    CHECK(run(std::string(quick) + "--policy tf32 --out simd", "MACHEPS_SIMD=scalar").code == 0);
    const Outcome outcome = run(std::string(quick) + "--out simd2", "MACHEPS_SIMD=mmx");
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("MACHEPS_SIMD") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("a run writes every promised file, and a report can be made again from them", "[program]") {
    const Outcome outcome = run(std::string(quick) + "--policy amp-bf16 --out run");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.out.find("amp-bf16") != std::string::npos);
    for (const char* name : {"manifest.json", "runs.csv", "steps.csv", "evals.csv", "sites.csv", "exponents.csv",
                             "summary.csv", "report.html"}) {
        CAPTURE(name);
        CHECK(fs::file_size(scratch() / "run" / name) > 0);
    }
    const std::string summary = contents(scratch() / "run/summary.csv");
    fs::remove(scratch() / "run/summary.csv");
    fs::remove(scratch() / "run/report.html");
    CHECK(run("report run").code == 0);
    CHECK(contents(scratch() / "run/summary.csv") == summary);
    CHECK(fs::exists(scratch() / "run/report.html"));
    fs::remove_all(scratch());
}

TEST_CASE("two runs of one command write the same rows", "[program]") {
    REQUIRE(run(std::string(quick) + "--policy pure-bf16-sr --out a --threads 1").code == 0);
    REQUIRE(run(std::string(quick) + "--policy pure-bf16-sr --out b --threads 3").code == 0);
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "a" / name) == contents(scratch() / "b" / name));
    }
    fs::remove_all(scratch());
}

TEST_CASE("a full disk ends with exit 5 and a clear line", "[program]") {
    fs::create_directories(scratch() / "full");
    // A file system of one page stands in for a full disk; only root may mount it.
    const std::string mount = "mount -t tmpfs -o size=64k tmpfs '" + (scratch() / "full").string() + "' 2>/dev/null";
    if (std::system(mount.c_str()) != 0) {
        fs::remove_all(scratch());
        SKIP_TEST("mounting a small tmpfs is not allowed here");
    }
    const Outcome outcome =
        run("train --steps 200 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --probe-every 1 --out full/run");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 5);
    CHECK(outcome.err.find("full/run") != std::string::npos);
    REQUIRE(std::system(("umount '" + (scratch() / "full").string() + "'").c_str()) == 0);
    fs::remove_all(scratch());
}

TEST_CASE("Ctrl-C and SIGTERM leave whole rows and exit 130", "[program]") {
    for (const int signal : {SIGINT, SIGTERM}) {
        fs::remove_all(scratch());
        const fs::path folder = scratch();
        const pid_t child = fork();
        if (child == 0) {
            if (chdir(folder.c_str()) != 0) _exit(99);
            std::freopen("out.txt", "w", stdout);
            std::freopen("err.txt", "w", stderr);
            execl(MACHEPS_PROGRAM, "macheps", "train", "--steps", "100000", "--layers", "1", "--width", "16", "--heads",
                  "2", "--context", "8", "--batch", "2", "--out", "run", static_cast<char*>(nullptr));
            _exit(98);
        }
        const fs::path steps = folder / "run/steps.csv";
        for (int i = 0; i < 1000 && (!fs::exists(steps) || fs::file_size(steps) < 4096); ++i) usleep(20000);
        REQUIRE(kill(child, signal) == 0);
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CAPTURE(signal, contents(folder / "err.txt"));
        REQUIRE(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 130);
        const std::string rows = contents(steps);
        CHECK(rows.back() == '\n');
        CHECK(contents(folder / "run/runs.csv").find("interrupted") != std::string::npos);
        CHECK(run("report run").code == 0);
    }
    fs::remove_all(scratch());
}

TEST_CASE("help begins with what the verb is for and examples", "[program]") {
    for (const char* verb : {"", "train ", "show ", "formats ", "policy ", "report "}) {
        CAPTURE(verb);
        const Outcome outcome = run(std::string(verb) + "--help");
        CHECK(outcome.code == 0);
        const auto examples = outcome.out.find("Examples:"), options = outcome.out.find("Options:");
        CHECK(examples != std::string::npos);
        CHECK(examples < options);
    }
    const Outcome version = run("--version");
    CHECK(version.code == 0);
    CHECK(version.out.starts_with("macheps "));
    fs::remove_all(scratch());
}
