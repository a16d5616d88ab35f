// SPDX-License-Identifier: Apache-2.0
// Tests conditions that the program does not control: closed streams, streams that cannot be written, floating-point
// modes that a library has set, impossible file names, and limits on files, threads and memory.
#include "tests/faults/faulty_program.hpp"
#include "tests/faults/float_modes.hpp"

#include <cerrno>

namespace hostile_test {

using namespace macheps::test;

namespace {

Start closed(std::vector<int> descriptors) {
    return {.prepare = [descriptors] {
        for (const int descriptor : descriptors) ::close(descriptor);
    }};
}

Start with_stderr_on(const char* device) {
    return {.prepare = [device] { redirect(device, O_WRONLY, STDERR_FILENO); }};
}

/// Makes stderr a pipe whose reading end is closed.
Start with_broken_stderr() {
    return {.prepare = [] {
        int ends[2];
        if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(97);
        ::close(ends[0]);
        ::close(ends[1]);
    }};
}

std::map<std::string, std::string> undisturbed() {
    const Folder folder;
    REQUIRE(folder.run(short_run).code == 0);
    return rows_of(folder / "run");
}

}  // namespace

TEST_CASE("no file that the program opens gets the descriptor of a closed standard stream", "[faults]") {
    const auto wanted = undisturbed();
    for (const std::vector<int>& descriptors :
         std::vector<std::vector<int>>{{0}, {2}, {0, 2}, {1, 2}, {0, 1, 2}, {1}, {0, 1}}) {
        const Folder folder;
        const Outcome outcome = folder.run(short_run, closed(descriptors));
        CAPTURE(descriptors.front(), descriptors.size(), outcome.err);
        // If stdout is closed, the output is lost, and the exit code is 5.
        const bool has_stdout = std::find(descriptors.begin(), descriptors.end(), 1) == descriptors.end();
        CHECK(outcome.code == (has_stdout ? 0 : 5));
        CHECK(differing(wanted, rows_of(folder / "run")) == "");
        CHECK(folder.run("report run").code == 0);
        CHECK(folder.run("train --resume run").code == 0);
    }
    const Folder folder;
    CHECK(folder.run("formats", closed({1})).code == 5);
    CHECK(folder.run("machine eval -", closed({0})).code == 3);
}

TEST_CASE("a stderr that cannot be written does not change the exit code", "[faults]") {
    const auto wanted = undisturbed();
    for (const bool is_pipe : {false, true}) {
        const Start start = is_pipe ? with_broken_stderr() : with_stderr_on("/dev/full");
        CAPTURE(is_pipe);
        const Folder folder;
        CHECK(folder.run(short_run, start).code == 0);
        CHECK(differing(wanted, rows_of(folder / "run")) == "");
        CHECK(folder.run("report run", start).code == 0);
        CHECK(folder.run("train --resume run", start).code == 0);
        CHECK(folder.run("gemm -k 16 -m 2 -n 2 -o rows.csv", start).code == 0);
        CHECK(fs::file_size(folder / "rows.csv") > 0);
        CHECK(folder.run("reveal -k 4 -f fp16 --emit-operands operands.npy", start).code == 0);
        CHECK(folder.run("policy explain fp8-tensorwise --layers 1", start).code == 0);
        CHECK(folder.run("verify --quick --only none:such", start).code ==
              folder.run("verify --quick --only none:such").code);
        CHECK(folder.run("train --steps 0", start).code == 2);
        CHECK(folder.run("trian", start).code == 2);
        CHECK(folder.run("report nowhere", start).code == 3);
    }
}

TEST_CASE("a floating-point mode that a library sets while it is being loaded does not change the results",
          "[faults][float_modes]") {
    const std::vector<std::string> commands{
        short_run_with("2^-99") + " -q",
        "report run",
        "gemm -k 96 -m 4 -n 4 -M fp32.chain,sm90.wgmma.fp8 -f e4m3fn --scale 1e-18 -q",
        "show 0.1 1e-40 3e-45 --json",
        "policy show fp8-tensorwise",
        "formats --json",
        "reveal -k 16",
        "testfloat f32_mul --generate --count 500",
    };
    const Folder plain;
    std::vector<std::string> wanted;
    for (const std::string& command : commands) {
        const Outcome outcome = plain.run(command);
        CAPTURE(command, outcome.err);
        REQUIRE(outcome.code == 0);
        wanted.push_back(outcome.out);
    }
    for (const FloatMode& mode : float_modes) {
        const Folder folder;
        const Start start{
            .environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FLOAT_MODE, "MACHEPS_FLOAT_MODE=" + std::string(mode.name)}};
        for (std::size_t i = 0; i < commands.size(); ++i) {
            const Outcome outcome = folder.run(commands[i], start);
            CAPTURE(std::string(mode.name), commands[i], outcome.err);
            CHECK(outcome.code == 0);
            if (i > 1) CHECK((outcome.out == wanted[i]));  // the output of the first two commands contains times
        }
        CAPTURE(std::string(mode.name));
        CHECK(differing(rows_of(plain / "run"), rows_of(folder / "run")) == "");
        CHECK(without_times(contents(plain / "run/summary.csv")) ==
              without_times(contents(folder / "run/summary.csv")));
    }
}

TEST_CASE("an impossible file name ends a command with exit 3 or 5 and is not reported as a defect", "[faults]") {
    const Folder folder;
    fs::create_symlink("loop_b", folder / "loop_a");
    fs::create_symlink("loop_a", folder / "loop_b");
    const std::string too_long(300, 'x'), no_utf8 = "\xff\xfe";
    folder.write(no_utf8, std::string(4096, 'a'));
    folder.write(no_utf8 + ".toml", "name = \"mine\"\nextends = \"fp32\"\n");
    const std::string tiny =
        "train --steps 1 --layers 1 --width 8 --heads 2 --context 6 --batch 2 --policy fp32 --seeds 0";
    struct Case {
        std::vector<std::string> more;
        int code;
    };
    const auto with = [](const std::string& begin, const std::vector<std::string>& more) {
        std::vector<std::string> all = words(begin);
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    std::vector<Case> cases;
    for (const std::string& name : {std::string("loop_a"), too_long, too_long + "/x", std::string("loop_a/x")}) {
        cases.push_back({{"report", name}, 3});
        cases.push_back({{"train", "--resume", name}, 3});
        cases.push_back({{"train", "--from", name}, 3});
        cases.push_back({with(tiny, {"--out", name}), 5});
        cases.push_back({with(tiny, {"--data", name}), 3});
        cases.push_back({with(tiny, {"--policy", "./" + name + ".toml"}), 3});
        cases.push_back({{"machine", "eval", name}, 3});
        cases.push_back({{"gemm", "-k", "16", "-m", "2", "-n", "2", "-q", "-o", name + "/rows.csv"}, 5});
        cases.push_back({{"verify", "--replay", name}, 3});
    }
    // A manifest cannot contain a name that is not UTF-8, so the run could not be repeated from its manifest.
    cases.push_back({with(tiny, {"--data", no_utf8}), 3});
    cases.push_back({with(tiny, {"--policy", "./" + no_utf8 + ".toml"}), 3});
    for (const Case& c : cases) {
        const Outcome outcome = folder.run(c.more);
        std::string line;
        for (const std::string& word : c.more) line += word.substr(0, 40) + " ";
        CAPTURE(line, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(error_lines(outcome.err).size() == 1);
        CHECK(outcome.err.find("defect") == std::string::npos);
    }
    // The name of a run directory need not be UTF-8.
    const Outcome outcome = folder.run(with(tiny, {"--out", no_utf8 + "run"}));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(folder.run(std::vector<std::string>{"report", no_utf8 + "run", "--json"}).code == 0);
    CHECK(folder.run(std::vector<std::string>{"train", "--resume", no_utf8 + "run"}).code == 0);
}

TEST_CASE("a command on a folder without permissions ends with exit 3 or 5", "[faults]") {
    if (geteuid() == 0) SKIP_TEST("root may read everything");
    const Folder folder;
    fs::create_directories(folder / "shut/inside");
    fs::permissions(folder / "shut", fs::perms::none);
    CHECK(folder.run("report shut/inside").code == 3);
    CHECK(folder.run("train --resume shut/inside").code == 3);
    CHECK(folder.run(short_run + "x --out shut/inside").code == 2);
    CHECK(folder.run("train --steps 1 --layers 1 --width 8 --heads 2 --context 6 --out shut/run").code == 5);
    fs::permissions(folder / "shut", fs::perms::owner_all);
}

TEST_CASE("a number that is too large for fp64 is an error that names the line", "[faults]") {
    const Folder folder;
    folder.write("line.jsonl", R"({"instruction":"x","a":[1e999]})");
    const Outcome outcome = folder.run("machine eval line.jsonl");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 3);
    CHECK(outcome.err.find("line.jsonl:1: a number is too large for fp64") != std::string::npos);
}

TEST_CASE("a limit on file sizes makes a write fail with exit 5", "[faults]") {
    const Folder folder;
    const Start start{.prepare = [] {
        const rlimit limit{1000, 1000};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(97);
    }};
    for (const std::string& command : {short_run, std::string("gemm -k 16 -m 2 -n 2 -M all -f fp16 -q -o rows.csv")}) {
        const Outcome outcome = folder.run(command, start);
        CAPTURE(command, outcome.err);
        CHECK(outcome.code == 5);
        CHECK(error_lines(outcome.err).size() == 1);
    }
}

TEST_CASE("if the system grants no more threads, a run uses fewer threads and writes the same bytes", "[faults]") {
    const auto wanted = undisturbed();
    const Folder folder;
    const Outcome outcome = folder.run(
        short_run, {.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS,
                                    "MACHEPS_FAULT=pthread_create:1:" + std::to_string(EAGAIN) + ":sticky"}});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(differing(wanted, rows_of(folder / "run")) == "");
}

TEST_CASE("if memory runs out while the program starts, it ends with an error message", "[faults]") {
    const Folder folder;
    int ended = 0;
    for (int number = 1; number <= 40; ++number) {
        const Outcome outcome = folder.run("version", {.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS,
                                                                       "MACHEPS_FAULT=new:" + std::to_string(number) +
                                                                           ":" + std::to_string(ENOMEM) + ":sticky"}});
        CAPTURE(number, outcome.err);
        if (outcome.code == 0) continue;
        ++ended;
        CHECK(outcome.code == 3);
        CHECK(outcome.err.find("macheps: out of memory (") == 0);
        CHECK(error_lines(outcome.err).size() == 1);
    }
    CHECK(ended > 10);
}

}  // namespace hostile_test
