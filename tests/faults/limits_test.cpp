// SPDX-License-Identifier: Apache-2.0
// Tests numbers that are out of range, runs that need more memory than there is, plans with very many steps, and
// signals during a long step.
#include "tests/faults/faulty_program.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

namespace limits_test {

using namespace macheps::test;

namespace {

const std::string tiny = "train --policy fp32 --warmup 0 --eval-batches 1 ";

Start with_address_space(rlim_t bytes) {
    return {.prepare = [bytes] {
        const rlimit limit{bytes, bytes};
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(97);
    }};
}

/// Returns the options of a verb that take a whole number, according to its help.
std::vector<std::string> integer_options(const Folder& folder, const std::string& verb) {
    std::istringstream help(folder.run(verb + " --help").out);
    std::vector<std::string> options;
    for (std::string line; std::getline(help, line);) {
        const std::size_t at = line.find("--"), end = line.find_first_of(" ,", at);
        if (!line.starts_with("  -") || at == std::string::npos || end == std::string::npos) continue;
        const std::string rest = line.substr(end, 40);
        if (rest.find(" INT") != std::string::npos || rest.find(" UINT") != std::string::npos)
            options.push_back(line.substr(at, end - at));
    }
    return options;
}

}  // namespace

TEST_CASE("every option that takes a whole number refuses numbers out of its range", "[faults]") {
    const Folder folder;
    int options = 0;
    struct Verb {
        const char *name, *positionals;
    };
    for (const Verb& verb : std::initializer_list<Verb>{{"train", ""},
                                                        {"gemm", ""},
                                                        {"show", " 1"},
                                                        {"convert", " --to fp16"},
                                                        {"machine eval", " -"},
                                                        {"reveal", ""},
                                                        {"testfloat", " f16_add"},
                                                        {"policy explain", " fp32"},
                                                        {"policy diff", " fp32 tf32"},
                                                        {"verify", ""}}) {
        for (const std::string& option : integer_options(folder, verb.name)) {
            ++options;
            for (const char* value : {"18446744073709551615", "18446744073709551617", "9223372036854775808", "-1e0",
                                      "-9223372036854775809", "99999999999999999999999999", "1.5", "ten", "-5"}) {
                const Outcome outcome =
                    folder.run(std::string(verb.name) + verb.positionals + " " + option + "=" + value);
                CAPTURE(verb.name, option, value, outcome.err);
                CHECK(outcome.code == 2);
                CHECK(outcome.err.starts_with("macheps: " + option + ": '" + value + "' is "));
                CHECK(outcome.err.find("(give ") != std::string::npos);
                CHECK(error_lines(outcome.err).size() == 1);
            }
        }
    }
    CHECK(options > 25);
}

TEST_CASE("seeds, steps and sizes have documented ranges", "[faults]") {
    const Folder folder;
    struct Case {
        const char *arguments, *line;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"--seeds 0,18446744073709551615",
              "--seeds: '18446744073709551615' is out of range (give 0 to 9223372036854775807)"},
             {"--seeds -1", "--seeds: '-1' is out of range (give 0 to 9223372036854775807)"},
             {"--steps=1099511627777", "--steps: '1099511627777' is out of range (give 1 to 1099511627776)"},
             {"--steps 18446744073709551617",
              "--steps: '18446744073709551617' is out of range (give 1 to 1099511627776)"},
             {"--batch 4611686018427387904", "--batch: '4611686018427387904' is out of range (give 1 to 1048576)"},
             {"--layers 2147483648", "--layers: '2147483648' is out of range (give 1 to 1048576)"},
             {"--width 9223372036854775807", "--width: '9223372036854775807' is out of range (give 1 to 1048576)"},
             {"--threads 2147483647", "--threads: '2147483647' is out of range (give 0 to 4096)"},
             {"--steps 1099511627776 --batch 1048576 --context 1048576",
              "--steps: a run of 1.21e+24 tokens is too long to be counted (use fewer steps, or a smaller batch)"},
             {"--memory 8X",
              "--memory: '8X' is not a valid size (give bytes, or a number with K, M, G or T, such as 8G)"}}) {
        const Outcome outcome = folder.run(tiny + "--dry-run --out run " + c.arguments);
        CHECK(outcome.code == 2);
        CHECK(outcome.err == std::string("macheps: ") + c.line + "\n");
    }
    // The largest seed is valid, and leading zeros do not mean octal.
    CHECK(folder.run(tiny + "--steps 1 --seeds 9223372036854775807 --out a").code == 0);
    CHECK(contents(folder / "a/runs.csv").find("fp32/9223372036854775807,") != std::string::npos);
    CHECK(folder.run(tiny + "--steps 1 --seeds 010 --out b").code == 0);
    CHECK(contents(folder / "b/runs.csv").find("fp32/10,") != std::string::npos);
}

TEST_CASE("work that does not fit into memory is refused before memory is allocated", "[faults]") {
    const Folder folder;
    for (const char* sizes : {"--batch 1048576 --context 1048576", "--layers 1048576", "--width 1048576",
                              "--vocabulary 1048576 --width 1048576 --data text", "--batch 1048576 --context 65536",
                              "--hidden 1048576 --layers 1000"}) {
        folder.write("text", std::string(4000000, 'x'));
        for (const char* dry : {"", "--dry-run "}) {
            // An allocation of this size would fail under this limit of the address space. The messages below show that
            // none was tried.
            const Outcome outcome =
                folder.run(tiny + dry + sizes + " --out run --memory 1G", with_address_space(1'000'000'000));
            CAPTURE(sizes, dry, outcome.err);
            CHECK(outcome.code == 2);
            CHECK(outcome.err.starts_with("macheps: --memory: training this model needs about "));
            CHECK(outcome.err.find("--memory allows only 1.0 GiB") != std::string::npos);
            CHECK_FALSE(fs::exists(folder / "run"));
        }
    }
    // Without --memory, the limit is the memory of the machine, which is always smaller than this run needs.
    const Outcome machine = folder.run(tiny + "--batch 1048576 --context 1048576 --out run");
    CAPTURE(machine.err);
    CHECK(machine.code == 2);
    CHECK((machine.err.find("this machine has") != std::string::npos ||
           machine.err.find("this control group has") != std::string::npos ||
           machine.err.find("this process may use") != std::string::npos));
    const Outcome gemm = folder.run("gemm -m 100000 -n 100000 -k 100000 --memory 2G");
    CAPTURE(gemm.err);
    CHECK(gemm.code == 2);
    CHECK(gemm.err.find("--memory allows only 2.0 GiB") != std::string::npos);
}

TEST_CASE("the memory limit of the process is respected, unless --memory raises it", "[faults]") {
    const Folder folder;
    // 200 MB of address space are enough for the program, but not for this model.
    const std::string large =
        "train --size small --batch 16 --steps 1 --threads 1 --policy fp32 --seeds 0 --eval-batches 1 --out run";
    const Outcome refused = folder.run(large, with_address_space(200'000'000));
    CAPTURE(refused.err);
    CHECK(refused.code == 2);
    CHECK(refused.err.find("this process may use only 191 MiB") != std::string::npos);
    // With a larger --memory, the program tries to train, and reports that memory ran out.
    const Outcome tried = folder.run(large + " --memory 4G", with_address_space(200'000'000));
    CAPTURE(tried.err);
    CHECK(tried.code == 3);
    CHECK(tried.err.find("macheps: out of memory (") != std::string::npos);
    CHECK(error_lines(tried.err).size() == 1);
}

namespace {

/// Returns the maximum resident size, in bytes, of a program that `run` starts, or 0 if the program fails.
template <class Run>
double peak_of(const Run& run) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        rusage usage{};
        const bool is_good = run().code == 0 && ::getrusage(RUSAGE_CHILDREN, &usage) == 0;
        const double bytes = is_good ? 1024.0 * static_cast<double>(usage.ru_maxrss) : 0;
        ::_exit(::write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
    }
    ::close(ends[1]);
    double bytes = 0;
    const ssize_t got = ::read(ends[0], &bytes, sizeof bytes);
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    return got == sizeof bytes ? bytes : 0;
}

}  // namespace

TEST_CASE("the planned memory is a lower bound of the memory that a run uses, and at least 40 % of it",
          "[faults][slow]") {
    const Folder folder;
    for (const char* sizes : {"--size small", "--size small --model llama", "--size small --batch 32",
                              "--size tiny --width 512 --context 8 --batch 1 --optimizer sgd",
                              "--size tiny --layers 150 --width 8 --heads 2 --context 4 --batch 1"}) {
        const Outcome plan = folder.run(
            std::string("train --dry-run --json --steps 2 --policy fp32 --seeds 0 --eval-batches 1 ") + sizes);
        CAPTURE(sizes, plan.err);
        REQUIRE(plan.code == 0);
        const auto number_at = [&](const std::string& key) {
            const std::size_t at = plan.out.find("\"" + key + "\": ");
            REQUIRE(at != std::string::npos);
            return std::stod(plan.out.substr(at + key.size() + 4));
        };
        // The run is the only child of a separate process, so the peak memory of the children of that process is that
        // of the run. In this process, the peak would also cover the dry run above, which may have timed a smaller
        // model.
        const double planned = number_at("least_bytes"),
                     taken = peak_of([&] {
                         return folder.run(
                             std::string("train --steps 2 --policy fp32 --seeds 0 --eval-batches 1 --no-report -q "
                                         "--force --threads 1 --out run ") +
                             sizes);
                     });
        CAPTURE(planned, taken);
        CHECK(planned < taken);                 // otherwise a run that fits in memory could be refused
        CHECK(planned > 0.4 * (taken - 24e6));  // the program itself takes 24 MB
    }
}

TEST_CASE("the time to plan a run does not grow with the number of its steps", "[faults]") {
    const Folder folder;
    // A program that counts the steps one by one exceeds this limit of CPU time.
    const Start limited{.prepare = [] {
        const rlimit limit{20, 20};
        if (setrlimit(RLIMIT_CPU, &limit) != 0) _exit(97);
    }};
    const Outcome outcome =
        folder.run(tiny + "--dry-run --json --steps 1000000000000 --layers 1 --probe-every 1", limited);
    CAPTURE(outcome.err);
    CHECK((outcome.code == 0 || outcome.code == 5));  // 5: the disk is too small for the rows
    CHECK(outcome.out.find("\"steps\": 1000000000000") != std::string::npos);
}

TEST_CASE("a second signal interrupts the current step, and no completed step is lost", "[faults]") {
    // Each step has many micro-batches, and the second step is interrupted in its middle.
    const std::string run =
        "train --layers 1 --width 16 --heads 2 --context 16 --batch 4 --eval-every 1 --eval-batches 1 --probe-every 1 "
        "--histogram-every 1 --threads 1 --policy amp-fp16 --seeds 0 --token-weight 1 --save-every 0 --steps 3 --out "
        "run --micro-batches ";
    const auto wait_for_rows = [](const Folder& folder, int rows) {
        for (int i = 0; i < 6000; ++i) {
            const std::string text = contents(folder / "run/steps.csv");
            if (std::count(text.begin(), text.end(), '\n') > rows) return;
            usleep(10000);
        }
        FAIL("no step was completed");
    };
    // Measures the time of one micro-batch. A step of the long run has as many micro-batches as take a second, but at
    // least 100.
    const Folder measured;
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(measured.run(run + "50").code == 0);
    const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 300;
    const std::string long_run = run + std::to_string(std::max(100, static_cast<int>(1.0 / each)));
    for (const int signal : {SIGTERM, SIGINT}) {
        const Folder folder;
        const pid_t child = folder.begin(long_run);
        wait_for_rows(folder, 1);
        usleep(200000);
        REQUIRE(kill(child, signal) == 0);
        usleep(100000);
        const auto rows = [&] {
            const std::string text = contents(folder / "run/steps.csv");
            return std::count(text.begin(), text.end(), '\n');
        };
        const auto before = rows();
        REQUIRE(kill(child, signal) == 0);
        const Outcome outcome = folder.finish(child);
        CAPTURE(signal, outcome.err);
        CHECK(outcome.code == 75);
        CHECK(outcome.err.find("macheps train --resume run") != std::string::npos);
        CHECK(folder.run("report run").code == 0);
        CHECK(rows() == before);  // on a busy machine, more than one step may have been completed before
        // A resumed run repeats the interrupted step, and writes the same bytes as an uninterrupted run.
        CHECK(fs::exists(folder / "run/checkpoints"));
        if (signal == SIGINT) continue;
        const Outcome resumed = folder.run("train --resume run");
        CAPTURE(resumed.err);
        REQUIRE(resumed.code == 0);
        const Folder whole;
        REQUIRE(whole.run(long_run).code == 0);
        CHECK(differing(rows_of(whole / "run"), rows_of(folder / "run")) == "");
    }
}

}  // namespace limits_test
