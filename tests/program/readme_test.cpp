// SPDX-License-Identifier: Apache-2.0
// Tests README.md and scripts/demo: every command runs in a clone, every link has a target, and the numbers agree with
// the output of the commands. tests/demo_test.cpp compares README.md with the rows of the demo.
#include "tests/json.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace readme_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

const fs::path root = MACHEPS_SOURCE_DIR;

std::string readme() { return contents(root / "README.md"); }

/// A command of the page, and the folder of the clone in which it runs.
struct Command {
    std::string line, folder;
};

/// Returns the lines in the page's shell blocks that call the program, without comments. `cd` changes the folder of the
/// following commands.
std::vector<Command> commands_of(const std::string& page) {
    std::vector<Command> commands;
    std::istringstream lines(page);
    bool is_shell = false;
    std::string folder = ".";
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            is_shell = line == "```sh";
            folder = ".";
        } else if (is_shell) {
            const std::size_t comment = line.find(" #");
            line = line.substr(0, comment);
            line.erase(line.find_last_not_of(' ') + 1);
            if (line.starts_with("cd ")) folder = (fs::path(folder) / line.substr(3)).lexically_normal();
            if (line.starts_with("macheps ")) commands.push_back({line, folder});
        }
    }
    return commands;
}

/// Copies the files that the commands read to the scratch folder, which then serves as the clone.
void make_clone() {
    fs::remove_all(scratch());
    fs::copy(root / "README.md", scratch() / "README.md");
    fs::copy(root / "examples", scratch() / "examples", fs::copy_options::recursive);
}

/// Runs a command in bash, with the tested program as `macheps`. Shortens training runs.
Outcome run_command(const Command& command) {
    std::string line = command.line;
    const auto has = [&](const char* words) { return line.find(words) != std::string::npos; };
    if (line.starts_with("macheps train") && !has("--dry-run") && !has("--resume")) {
        line = replaced(line, "--steps 500", "--steps 2");
        line = replaced(line, "--dump-step 10", "--dump-step 1");
        line += " --warmup 1 --eval-batches 1 -q";
        if (!has("--steps")) line += " --steps 2";
    }
    if (has("--machine all")) line += " -m 2 -n 2";
    const fs::path folder = scratch() / command.folder;
    write("line.sh", "macheps() { '" MACHEPS_PROGRAM "' \"$@\"; }\nset -o pipefail\n" + line + "\n");
    const std::string script = (scratch() / "line.sh").string();
    const std::string shell = "cd '" + folder.string() + "' && GITHUB_ACTIONS= bash '" + script + "' >'" +
                              (scratch() / "out.txt").string() + "' 2>'" + (scratch() / "err.txt").string() +
                              "' </dev/null";
    const int status = std::system(shell.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(scratch() / "out.txt"),
            contents(scratch() / "err.txt")};
}

json rows_of(const Outcome& outcome) {
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    return json::parse(outcome.out)["rows"];
}

}  // namespace

TEST_CASE("every command of README.md runs in a clone", "[readme]") {
    make_clone();
    const std::vector<Command> commands = commands_of(readme());
    CHECK(commands.size() > 35);
    for (const Command& command : commands) {
        const Outcome outcome = run_command(command);
        CAPTURE(command.line, command.folder, outcome.err);
        CHECK(outcome.code == (command.line.starts_with("macheps policy diff") ? 1 : 0));  // 1: the policies differ
    }
    fs::remove_all(scratch());
}

TEST_CASE("the first example of README.md prints the lines below it", "[readme]") {
    const std::string page = contents(fs::path(MACHEPS_SOURCE_DIR) / "README.md");
    const auto examples = all_matches(page, "```\n\\$ macheps ([^\n]*)\n([^`]*)```\n");
    REQUIRE(examples.size() == 1);
    CHECK(run(examples[0][1] + " --table -q").out.starts_with(examples[0][2]));
}

TEST_CASE("every command quoted in a sentence of README.md runs", "[readme]") {
    make_clone();
    const std::string page = readme();
    int count = 0;
    for (const Match& quoted : all_matches(page, "`(macheps [a-z][^`]*)`")) {
        const std::string& line = quoted[1];
        // Skip commands with placeholders, and commands that need a browser, a finished run or outputs of a kernel.
        const bool is_shape =
            finds(line, "DIR|VERB|bash\\|zsh|--charts|machine show$|train --resume|report --|check inputs");
        if (is_shape) continue;
        const Outcome outcome = run_command({line, "."});
        CAPTURE(line, outcome.err);
        if (line.starts_with("macheps eval") && outcome.code == 4) continue;  // a build without Arb
        CHECK(outcome.code == 0);
        ++count;
    }
    CHECK(count >= 6);
    fs::remove_all(scratch());
}

TEST_CASE("every link and picture in README.md, docs and examples exists", "[readme]") {
    std::vector<fs::path> pages{root / "README.md", root / "examples/README.md"};
    for (const auto& entry : fs::directory_iterator(root / "docs")) {
        if (entry.path().extension() == ".md") pages.push_back(entry.path());
    }
    int count = 0;
    for (const fs::path& page : pages) {
        const std::string text = contents(page);
        for (const Match& link : all_matches(text, "\\]\\(([^)#]+)(#[^)]*)?\\)")) {
            const std::string& target = link[1];
            if (target.find("://") != std::string::npos) continue;
            CAPTURE(page.string(), target);
            CHECK(fs::exists(page.parent_path() / target));
            ++count;
        }
    }
    CHECK(count > 20);
}

TEST_CASE("README.md names every framework with an importer, and counts faults and symptoms as the program does",
          "[readme]") {
    const std::string page = readme();
    const auto count_of = [](const std::string& command) { return json::parse(run(command).out).size(); };
    CHECK(page.find(" lists " + std::to_string(count_of("policy history --json")) + " such faults") !=
          std::string::npos);
    CHECK(page.find(" knows " + std::to_string(count_of("why --list --json")) + " error messages") !=
          std::string::npos);
    // The names differ from the titles in hyphens and capitals: `gpt-neox` is GPT-NeoX.
    const auto plain = [](std::string text) {
        std::erase(text, '-');
        for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        return text;
    };
    const std::size_t start = page.find("## Your own config"), end = page.find("\n## ", start + 1);
    const std::string section = plain(page.substr(start, end - start));
    const Outcome refused = run("policy import no.json --framework nonsense");
    const std::size_t open = refused.err.find('{'), close = refused.err.find('}');
    REQUIRE(close != std::string::npos);
    std::istringstream names(refused.err.substr(open + 1, close - open - 1));
    std::size_t count = 0;
    for (std::string name; std::getline(names, name, ','); ++count) {
        CAPTURE(name);
        CHECK(section.find(plain(name)) != std::string::npos);
    }
    CHECK(count >= 18);
}

TEST_CASE("without promotion, the sum in Hopper's accumulator stops at 64, as README.md states", "[readme]") {
    const std::string page = readme();
    const std::vector<Command> commands = commands_of(page);
    const auto equal = std::find_if(commands.begin(), commands.end(), [](const Command& each) {
        return each.line.find("-d equal") != std::string::npos;
    });
    REQUIRE(equal != commands.end());
    CHECK(replaced(page, "\\s+", " ").find("Hopper's accumulator keeps 14 bits and stops at 64 after 512") !=
          std::string::npos);
    int stalled = 0, promoted = 0;
    for (const json& row : rows_of(run(equal->line.substr(8) + " -q --json"))) {
        const double k = row["k"];
        const bool is_promoted = row["machine"] != "sm90.wgmma.fp8";
        CHECK(row["first"] == (is_promoted ? k / 256 : 64));
        ++(is_promoted ? promoted : stalled);
    }
    CHECK(stalled == 3);
    CHECK(promoted == 3);
    fs::remove_all(scratch());
}

TEST_CASE("the errors of long fp8 sums agree with the figures in README.md", "[readme]") {
    const std::string page = replaced(readme(), "\\s+", " ");
    const auto says = [&](const std::string& sentence) {
        CAPTURE(sentence);
        CHECK(page.find(sentence) != std::string::npos);
    };
    const std::size_t at = page.find("`macheps gemm -d positive ");
    REQUIRE(at != std::string::npos);
    const std::string command = page.substr(at + 9, page.find(" -q -o", at) - at - 9);
    std::map<std::pair<std::string, int>, double> errors;
    for (const json& row : rows_of(run(command + " -q --json"))) {
        errors[{row["machine"], row["k"]}] = row["max_error"];
        CHECK(row["beyond_bound"] == 0);
        CHECK(row["beyond_probable"] == 0);
        if (row["machine"] == "sm90.wgmma.fp8+promote128") CHECK(row["max_error"] < 0.001);
        if (row["machine"] == "sm100.tcgen05.fp8") CHECK(row["max_error"] < 0.00012);
        const int k = row["k"];
        if (row["machine"] == "sm90.wgmma.fp8" && k >= 1024 && k <= 16384) {
            const double share = row["max_error"].get<double>() / row["probable_bound"].get<double>();
            CHECK(share > 0.20);
            CHECK(share < 0.26);
        }
    }
    const auto hopper = [&](int k) { return errors.at({"sm90.wgmma.fp8", k}); };
    says("0.09 % of the sum at k = 128, 7 % at 4,096, three quarters at 131,072");
    CHECK(std::round(hopper(128) * 1e4) == 9);
    CHECK(std::round(hopper(4096) * 1e2) == 7);
    CHECK(std::fabs(hopper(131072) - 0.75) < 0.02);
    says("From k = 1,024 to 16,384, the error is between 20 % and 26 % of the probable bound");
    says("Promotion keeps the error below 0.1 % for every k, and Blackwell's error is at most 0.012 %");
    says("the same command without `-d positive` gives at most 0.04 %");
    const std::string either = replaced(command, "-d positive ", "");
    for (const json& row : rows_of(run(either + " -q --json"))) CHECK(row["max_error"] < 0.00045);
    fs::remove_all(scratch());
}

TEST_CASE("sums in bf16 with both roundings agree with the figures in README.md", "[readme]") {
    const std::string page = replaced(readme(), "\\s+", " ");
    const std::vector<Command> commands = commands_of(readme());
    const auto sum = std::find_if(commands.begin(), commands.end(), [](const Command& each) {
        return each.line.starts_with("macheps sum -d positive") &&
               each.line.find("nearest_even,stochastic") != std::string::npos;
    });
    REQUIRE(sum != commands.end());
    for (const char* sentence :
         {"the sum stops at 256 at the term with index 505", "At 65,536 terms, 99.2 % of the sum is lost",
          "The root mean square of the error is 5.1 % of the sum (20 trials), and from 1,024 terms on it no longer "
          "grows"}) {
        CAPTURE(sentence);
        CHECK(page.find(sentence) != std::string::npos);
    }
    constexpr double unit = 0x1p-8;  // the unit roundoff of bf16: rms_unit * unit is relative to the sum
    std::map<int, double> stochastic;
    for (const json& row : rows_of(run(sum->line.substr(8) + " -q --json"))) {
        const int n = row["n"];
        const double error = row["rms_unit"].get<double>() * unit;
        CAPTURE(n, error);
        if (row["round"] == "stochastic") {
            stochastic[n] = error;
            continue;
        }
        if (n < 512) continue;
        CHECK(row["value"] == 256);
        CHECK(row["stagnated_at"] == 505);
        if (n == 65536) CHECK(std::round(error * 1000) == 992);
    }
    CHECK(std::round(stochastic.at(65536) * 1000) == 51);
    for (int n = 2048; n <= 65536; n *= 2) CHECK(stochastic.at(n) < 1.3 * stochastic.at(1024));
    fs::remove_all(scratch());
}

TEST_CASE("the commands that scripts/demo prints at its end run", "[readme]") {
    fs::create_directories(scratch());
    std::istringstream lines(contents(root / "scripts/demo"));
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("  $program ")) continue;
        const std::string command = line.substr(11, line.find("  ", 11) - 11);
        const Outcome outcome = run(command);
        CAPTURE(command, outcome.err);
        CHECK(outcome.code == 0);
        ++count;
    }
    CHECK(count == 3);
    fs::remove_all(scratch());
}

}  // namespace readme_test
