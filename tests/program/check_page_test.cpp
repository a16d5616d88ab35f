// SPDX-License-Identifier: Apache-2.0
// Tests docs/check.md and examples/check: every command of the page has the exit code and output that the page shows.
#include "core/codec.hpp"
#include "core/format.hpp"
#include "experiments/check/checked.hpp"
#include "tests/check/npz.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace check_page_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

const fs::path root = MACHEPS_SOURCE_DIR;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// --- the kernels of examples/check/kernels.py, for machines without NumPy

float halved(double x) { return decode(fp16, encode(fp16, x, Round::nearest_even, Overflow::nonsaturate)); }

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t n = (i + 1000003 * seed) * 2654435761 % (std::uint64_t{1} << 32) >> 19;
        x[i] = halved((static_cast<double>(n) - 4096) / 1024);
    }
    return x;
}

StoredArray halves(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    StoredArray one{.name = name, .where = "test", .type = "<f2", .shape = std::move(shape)};
    for (const float x : values) {
        const std::uint32_t code = encode(fp16, x, Round::nearest_even, Overflow::nonsaturate);
        one.bytes += {static_cast<char>(code & 0xff), static_cast<char>(code >> 8)};
    }
    return one;
}

std::vector<float> softmax(const std::vector<float>& x, std::size_t columns, bool is_wrong) {
    std::vector<float> y(x.size());
    for (std::size_t row = 0; row < x.size(); row += columns) {
        const float most = *std::max_element(&x[row], &x[row] + columns);
        double sum = 0;
        for (std::size_t c = 0; c < columns; ++c) {
            y[row + c] = static_cast<float>(std::exp(static_cast<double>(x[row + c] - most)));
            if (!is_wrong || c < columns / 16 * 16) sum += y[row + c];
        }
        for (std::size_t c = 0; c < columns; ++c) y[row + c] = halved(y[row + c] / static_cast<float>(sum));
    }
    return y;
}

std::vector<float> gemm(const std::vector<float>& a, const std::vector<float>& b, std::size_t m, std::size_t k,
                        std::size_t n, bool is_wrong) {
    std::vector<float> out(m * n);
    for (std::size_t p = 0; p < k; ++p) {
        for (std::size_t i = 0; i < m * n; ++i) {
            const float product = a[i / n * k + p] * b[p * n + i % n];
            out[i] = is_wrong ? halved(out[i] + halved(product)) : out[i] + product;
        }
    }
    for (float& y : out) y = halved(y);
    return out;
}

std::vector<float> norm(const std::vector<float>& x, const std::vector<float>& gain, bool is_wrong) {
    const std::size_t columns = gain.size();
    std::vector<float> y(x.size());
    for (std::size_t row = 0; row < x.size(); row += columns) {
        double squares = 0;
        for (std::size_t c = 0; c < columns; ++c) squares += static_cast<double>(x[row + c]) * x[row + c];
        const float square = static_cast<float>(squares / static_cast<double>(columns));
        const float under = is_wrong ? std::sqrt(square) + 1e-5f : std::sqrt(square + 1e-5f);
        for (std::size_t c = 0; c < columns; ++c) y[row + c] = halved(x[row + c] / under * gain[c]);
    }
    return y;
}

void run_kernels(const fs::path& out, bool is_wrong) {
    fs::create_directories(out);
    std::vector<float> x = numbers(64 * 1000, 1);
    write_npz(out / "softmax.npz", {halves("x", {64, 1000}, x), halves("out", {64, 1000}, softmax(x, 1000, is_wrong))});
    const std::vector<float> a = numbers(96 * 200, 2), b = numbers(200 * 80, 3), gain = numbers(512, 5);
    write_npz(out / "gemm.npz", {halves("a", {96, 200}, a), halves("b", {200, 80}, b),
                                 halves("out", {96, 80}, gemm(a, b, 96, 200, 80, is_wrong))});
    x = numbers(32 * 512, 4);
    for (const char* name : {"norm_usual.npz", "norm_small.npz"}) {
        write_npz(out / name, {halves("x", {32, 512}, x), halves("gain", {512}, gain),
                               halves("out", {32, 512}, norm(x, gain, is_wrong))});
        for (float& each : x) each = halved(each / 1024);
    }
}

// --- the page

bool has_numpy() { return std::system("python3 -c 'import numpy' >/dev/null 2>&1") == 0; }

/// Runs a shell line of the page in the scratch folder. Without NumPy, the C++ kernels of this file replace the Python
/// kernels of the examples.
Outcome shell(const std::string& line, bool is_with_numpy) {
    const std::optional<Match> kernels = matches(line, R"(python3 examples/check/kernels\.py (\w+)( --wrong)?)");
    if (!is_with_numpy && kernels) {
        run_kernels(scratch() / (*kernels)[1], !(*kernels)[2].empty());
        return {0, "", ""};
    }
    const std::string programs = fs::path(MACHEPS_PROGRAM).parent_path().string();
    write("line.sh", "PATH='" + programs + "':$PATH\nunset GITHUB_ACTIONS GITHUB_STEP_SUMMARY\n" + line + "\n");
    const std::string command = "cd '" + scratch().string() + "' && sh line.sh >out.txt 2>&1 </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(scratch() / "out.txt"), ""};
}

/// Replaces numbers by `#`, because the page may have been written with other versions of the libraries.
std::string without_figures(const std::string& line) {
    return replaced(replaced(line, R"([-+]?\d+(\.\d+)?(e[-+]?\d+)?)", "#"), "  +", "  ");
}

bool prints(const std::string& out, const std::string& wanted) {
    const bool is_begun = wanted.ends_with("...");
    const std::string line = without_figures(is_begun ? wanted.substr(0, wanted.size() - 3) : wanted);
    std::istringstream lines(out);
    for (std::string each; std::getline(lines, each);) {
        each = without_figures(each);
        if (is_begun ? each.starts_with(line) : each == line) return true;
    }
    return false;
}

void follow(const std::string& page, bool is_with_numpy) {
    fs::remove_all(scratch());
    fs::create_symlink(root / "examples", scratch() / "examples");
    std::istringstream lines(page);
    bool is_console = false;
    int commands = 0, compared = 0;
    Outcome last;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            is_console = line == "```console";
            continue;
        }
        if (!is_console || line.empty() || line == "...") continue;
        CAPTURE(line, last.out, last.code);
        if (line == "$ echo $?") {
            REQUIRE(std::getline(lines, line));
            CHECK(std::to_string(last.code) == line);
        } else if (line.starts_with("$ ")) {
            last = shell(line.substr(2), is_with_numpy);
            ++commands;
        } else {
            CHECK(prints(last.out, line));
            ++compared;
        }
    }
    CHECK(commands >= 14);
    CHECK(compared >= 20);
    fs::remove_all(scratch());
}

// --- the CI jobs on the page

std::size_t indentation(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// Returns the shell commands of each job in a text with GitHub, GitLab and Jenkins jobs. The commands are the lines of
/// a block after `run: |`, `script:` or `sh '''`.
std::vector<std::string> shell_of_jobs(const std::string& text) {
    std::vector<std::string> jobs;
    std::optional<std::size_t> outer;  // the indentation of the line before the block
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t indent = indentation(line);
        std::string words = line.substr(indent);
        if (outer && indent > *outer && words != "'''") {
            if (words.starts_with("- ")) words.erase(0, 2);
            jobs.back() += words + "\n";
            continue;
        }
        outer.reset();
        if (words.ends_with("run: |") || words == "script:" || words == "sh '''") {
            outer = indent;
            jobs.emplace_back();
        }
    }
    return jobs;
}

/// Replaces `python3 -m venv` by a script, so that no package is installed: the script makes a `pip` that installs the
/// tested program if the wheel is there. If MACHEPS_WHEEL names a wheel, that wheel is really installed.
void prepare_installation() {
    fs::create_directories(scratch() / "ci");
    if (const char* wheel = std::getenv("MACHEPS_WHEEL")) {
        fs::copy_file(wheel, scratch() / "ci" / fs::path(wheel).filename());
        return;
    }
    write("ci/macheps-0.1.0-cp310-abi3-manylinux_2_36_x86_64.whl", "");
    fs::create_directories(scratch() / "path");
    write("path/python3",
          "#!/bin/sh\n[ \"$1 $2\" = '-m venv' ] && mkdir -p \"$3/bin\" && cp path/pip \"$3/bin/pip\"\n");
    write("path/pip",
          "#!/bin/sh\n[ \"$1\" = install ] && [ -f \"$2\" ] && "
          "ln -sf '" MACHEPS_PROGRAM "' \"${0%/*}/macheps\"\n");
    for (const char* name : {"path/python3", "path/pip"}) fs::permissions(scratch() / name, fs::perms::owner_all);
}

/// Runs the commands of a job in the scratch folder, as CI systems do: the first command that fails ends the job.
int run_job(const std::string& commands) {
    write("job.sh", "PATH=\"$PWD/path:$PATH\"\nunset GITHUB_ACTIONS GITHUB_STEP_SUMMARY\nset -e\n" + commands);
    const int status = std::system(("cd '" + scratch().string() + "' && sh job.sh >out.txt 2>&1 </dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("the CI jobs on docs/check.md install macheps, and fail if a kernel is wrong", "[program][check]") {
    const std::string page = contents(root / "docs/check.md");
    const std::size_t from = page.find("\n## In CI\n");
    REQUIRE(from != std::string::npos);
    const std::vector<std::string> jobs = shell_of_jobs(page.substr(from, page.find("\n## ", from + 1) - from));
    REQUIRE(jobs.size() == 4);
    for (const std::string& commands : jobs) {
        if (holds(commands, "pytest")) continue;  // tests/python/test_check.py runs this job
        CAPTURE(commands);
        fs::remove_all(scratch());
        prepare_installation();
        fs::create_directories(scratch() / "checks");
        fs::copy_file(root / "examples/check/suite.toml", scratch() / "checks/suite.toml");
        run_kernels(scratch() / "out", false);
        REQUIRE(run("check checks/suite.toml --baseline checks/check.lock --update-baseline").code == 0);
        const std::vector<Match> reports = all_matches(commands, R"(--(junit|sarif) (\S+))");
        REQUIRE(reports.size() == 1);
        for (const bool is_wrong : {false, true}) {
            run_kernels(scratch() / "out", is_wrong);
            const int code = run_job(commands);
            CAPTURE(is_wrong, contents(scratch() / "out.txt"));
            CHECK(code == (is_wrong ? 1 : 0));
            CHECK(holds(contents(scratch() / reports[0][2]), "KC020") == is_wrong);
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("every command on docs/check.md has the exit code and output that the page shows", "[program][check]") {
    const std::string page = contents(root / "docs/check.md");
    follow(page, false);
    if (has_numpy())
        follow(page, true);
    else
        WARN("no NumPy: the same kernels ran in C++ instead of examples/check/kernels.py");
}

TEST_CASE("docs/check.md contains the suite of the examples and every reason code", "[program][check]") {
    const std::string page = contents(root / "docs/check.md"), suite = contents(root / "examples/check/suite.toml");
    CHECK(holds(page, suite.substr(suite.find("[suite]"))));
    for (const auto& [code, sentence] : check::reason_codes()) {
        CAPTURE(code);
        CHECK(holds(page, "| " + code + " | " + sentence + " |"));
    }
}

TEST_CASE("each line number in the example suite is the line of a function in kernels.py", "[program][check]") {
    const std::string suite = contents(root / "examples/check/suite.toml");
    std::istringstream source(contents(root / "examples/check/kernels.py"));
    std::vector<std::string> lines{""};
    for (std::string line; std::getline(source, line);) lines.push_back(line);
    const std::vector<Match> places = all_matches(suite, R"(\nline = (\d+))");
    CHECK(places.size() == 3);
    for (const Match& place : places) {
        const auto line = static_cast<std::size_t>(std::stoi(place[1]));
        REQUIRE(line < lines.size());
        CHECK(lines[line].starts_with("def "));
    }
}

TEST_CASE("the example action calls macheps with options that exist", "[program][check]") {
    const std::string action = contents(root / "examples/check/action.yml"), help = run("check --help").out;
    const std::size_t from = action.find("  run: |", action.find("SARIF: "));
    REQUIRE(from != std::string::npos);
    const std::string script = action.substr(from, action.find("- if:", from) - from);
    const std::vector<Match> options = all_matches(script, "--[a-z-]+");
    CHECK(options.size() == 3);
    for (const Match& option : options) CHECK(holds(help, "  " + option[0] + " "));
    CHECK(fs::is_regular_file(root / "scripts/setup"));
    fs::remove_all(scratch());
}

}  // namespace check_page_test
