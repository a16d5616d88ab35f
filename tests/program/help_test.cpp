// SPDX-License-Identifier: Apache-2.0
// Tests the help texts, the manual page, shell completion, and suggestions for misspelt names.
#include "tests/program/program.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace help_test {

using namespace macheps::test;

namespace {

const std::vector<std::string> verbs{"",
                                     "train ",
                                     "show ",
                                     "formats ",
                                     "gemm ",
                                     "check ",
                                     "check make-inputs ",
                                     "check power ",
                                     "machine ",
                                     "machine list ",
                                     "machine show ",
                                     "machine eval ",
                                     "reveal ",
                                     "policy ",
                                     "policy list ",
                                     "policy show ",
                                     "policy explain ",
                                     "policy advise ",
                                     "policy diff ",
                                     "policy import ",
                                     "policy words ",
                                     "scale ",
                                     "scaler ",
                                     "why ",
                                     "report ",
                                     "version ",
                                     "help ",
                                     "completion ",
                                     "man "};

bool has_program(const std::string& name) {
    return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

/// Writes a script to a file and runs it, so that the script does not have to be quoted.
Outcome shell(const std::string& program, const std::string& script) {
    write("script", script);
    const fs::path folder = scratch();
    const std::string command = "cd '" + folder.string() + "' && " + program + " script >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, contents(folder / "out.txt"), contents(folder / "err.txt")};
}

/// Returns the options that a help text lists. Each element is the entry of one option, joined to a single line: its
/// names, its placeholder and its description.
std::vector<std::string> entries_of(const std::string& help) {
    std::istringstream lines(help.substr(help.find("\nUsage:") + 1));
    std::vector<std::string> entries;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("  -")) {
            entries.push_back(line.substr(2));
        } else if (!entries.empty() && line.starts_with(std::string(28, ' '))) {
            entries.back() += " " + line.substr(28);
        }
    }
    return entries;
}

/// Returns whether the option `name` has an entry.
bool lists(const std::vector<std::string>& entries, const std::string& name) {
    return std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
        return entry == name || entry.starts_with(name + " ") || entry.find(", " + name + " ") != std::string::npos;
    });
}

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("help begins with the purpose of the verb and with examples", "[program]") {
    for (const std::string& verb : verbs) {
        CAPTURE(verb);
        const Outcome outcome = run(verb + "--help");
        CHECK(outcome.code == 0);
        CHECK(outcome.err.empty());
        const auto examples = outcome.out.find("Examples:"), usage = outcome.out.find("\nUsage: macheps");
        REQUIRE(examples != std::string::npos);
        REQUIRE(usage != std::string::npos);
        CHECK(examples < usage);
        CHECK(outcome.out[outcome.out.find('\n') - 1] == '.');  // lists of verbs show only the first line
        CHECK(std::count(outcome.out.begin(), outcome.out.begin() + std::ptrdiff_t(examples), '\n') <= 2);
        CHECK(outcome.out.find('\x1b') == std::string::npos);
    }
    const Outcome version = run("--version");
    CHECK(version.code == 0);
    CHECK(version.out.starts_with("macheps "));
    fs::remove_all(scratch());
}

TEST_CASE("every option with a value shows its default, or describes what happens without it", "[program]") {
    for (const std::string& verb : verbs) {
        for (const std::string& entry : entries_of(run(verb + "--help").out)) {
            // If the option has a value, a placeholder in capitals follows its names.
            std::size_t at = entry.find(' ');
            while (at != std::string::npos && entry[at + 1] == '-') at = entry.find(' ', at + 1);
            const bool has_value = at != std::string::npos && entry[at + 1] != ' ' &&
                                   std::isupper(static_cast<unsigned char>(entry[at + 1])) != 0;
            if (!has_value) continue;
            CAPTURE(verb, entry);
            bool says = false;
            for (const char* words : {"default:", "required", "Default:", "when left out", "by --size", "in the demo",
                                      "none", "0: ", "Repeat", "Go on", "Write", "Required"})
                says |= entry.find(words) != std::string::npos;
            CHECK(says);
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("texts of options are wrapped at 100 columns, and --help is the last option", "[program]") {
    for (const std::string& verb : verbs) {
        const std::string text = run(verb + "--help").out;
        std::istringstream lines(text.substr(text.find("\nUsage:")));
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with("  -") && !line.starts_with(std::string(28, ' '))) continue;
            CAPTURE(verb, line);
            CHECK((line.size() <= 100 || line.find(' ', 28) == std::string::npos));
            if (line.starts_with("  -h, --help")) break;  // the notes of the verb follow
        }
        CHECK(entries_of(text).back().starts_with("-h, --help"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("check --help lists common declarations, and check --help OP those of one operation", "[program]") {
    const std::vector<std::string> general = entries_of(run("check --help").out);
    for (const char* name : {"--op", "--a", "--out", "--machine", "--rtol", "--require", "--json", "--junit"}) {
        CAPTURE(name);
        CHECK(lists(general, name));
    }
    struct Case {
        const char *operation, *has, *has_not;
    };
    for (const Case& c :
         {Case{"gemm", "--alpha", "--eps"}, Case{"rmsnorm", "--eps", "--alpha"}, Case{"softmax", "--block", "--gain"},
          Case{"quantize", "--granularity", "--block"}, Case{"cross_entropy", "--ignore-index", "--machine"}}) {
        CAPTURE(c.operation);
        const Outcome outcome = run(std::string("check --help ") + c.operation);
        const std::vector<std::string> entries = entries_of(outcome.out);
        CHECK(outcome.code == 0);
        CHECK(outcome.out.starts_with(c.operation));
        CHECK(lists(entries, c.has));
        CHECK(lists(entries, "--out"));
        CHECK_FALSE(lists(entries, c.has_not));
        CHECK_FALSE(lists(entries, "--junit"));
        // Other command lines print the same help.
        CHECK(run(std::string("help check ") + c.operation).out == outcome.out);
        CHECK(run(std::string("check out.npz --op ") + c.operation + " --help").out == outcome.out);
        CHECK(lists(entries_of(run(std::string("check make-inputs --help ") + c.operation).out), c.has));
    }
    const Outcome unknown = run("check --help sofmax");
    CHECK(unknown.code == 2);
    CHECK(unknown.err == "macheps: check: --help: there is no help on 'sofmax' (did you mean 'softmax'?)\n");
    // The man page lists the declarations of all operations.
    const std::string page = run("man").out;
    for (const char* name : {"alpha", "eps", "granularity", "ignore\\-index"}) {
        CAPTURE(name);
        CHECK(page.find(std::string("\\fB\\-\\-") + name + "\\fR") != std::string::npos);
    }
    fs::remove_all(scratch());
}

TEST_CASE("a misspelt verb or option gets the nearest name in one line", "[program]") {
    struct Case {
        const char *arguments, *says;
    };
    for (const Case& c : std::initializer_list<Case>{{"trian", "did you mean 'train'"},
                                                     {"train --polcy tf32", "did you mean '--policy'"},
                                                     {"train --stepz=3", "did you mean '--steps'"},
                                                     {"policy exlain tf32", "did you mean 'explain'"},
                                                     {"policy diff tf32 fp32 --sizes tiny", "did you mean '--size'"},
                                                     {"policy list more", "one argument too many: 'more'"},
                                                     {"policy diff tf32", "B is required"},
                                                     {"show 1 --satruate", "did you mean '--saturate'"},
                                                     {"report --jsn", "did you mean '--json'"},
                                                     {"completion tcsh", "bash,zsh,fish"}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.out.empty());
        CHECK(outcome.err.find(c.says) != std::string::npos);
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    fs::remove_all(scratch());
}

TEST_CASE("bash completes verbs, options, choices, policies and formats", "[program]") {
    const Outcome script = run("completion bash");
    REQUIRE(script.code == 0);
    struct Case {
        const char *words, *offered, *not_offered;
    };
    for (const Case& c : std::initializer_list<Case>{{"macheps ''", "train", "amp-bf16"},
                                                     {"macheps po", "policy", "train"},
                                                     {"macheps policy ''", "diff", "train"},
                                                     {"macheps policy diff tf32 amp", "amp-bf16", "fp32"},
                                                     {"macheps train --po", "--policy", "--seeds"},
                                                     {"macheps train --policy ''", "fp32", "--policy"},
                                                     {"macheps train --policy tf32,amp-b", "tf32,amp-bf16", "amp-bf16"},
                                                     {"macheps train --policy = amp-b", "amp-bf16", "fp32"},
                                                     {"macheps train --gelu ''", "tanh", "sgd"},
                                                     {"macheps train --size t", "tiny", "small"},
                                                     {"macheps train --data my", "my.txt", "train"},
                                                     {"macheps train --policy mi", "mine.toml", "my.txt"},
                                                     {"macheps show --format e4", "e4m3fn", "bf16"},
                                                     {"macheps report fold", "folder", "my.txt"}}) {
        write("my.txt", "");
        write("mine.toml", "");
        fs::create_directories(scratch() / "folder");
        CAPTURE(c.words);
        const Outcome outcome =
            shell("bash", script.out + "\ncomplete -p macheps >/dev/null || exit 9\nCOMP_WORDS=(" + c.words +
                              ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_macheps\n"
                              "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == 0);
        CHECK(outcome.err.empty());
        CHECK(has_line(outcome.out, c.offered));
        CHECK_FALSE(has_line(outcome.out, c.not_offered));
    }
    fs::remove_all(scratch());
}

TEST_CASE("fish completes verbs, options, choices and policies", "[program]") {
    if (!has_program("fish")) SKIP_TEST("no fish");
    const Outcome script = run("completion fish");
    struct Case {
        const char *words, *offered, *not_offered;
    };
    for (const Case& c : std::initializer_list<Case>{{"macheps ", "train", "diff"},
                                                     {"macheps policy ", "diff", "train"},
                                                     {"macheps policy show amp-b", "amp-bf16", "tf32"},
                                                     {"macheps train --gelu ", "tanh", "sgd"},
                                                     {"macheps train --policy tf32,amp-b", "tf32,amp-bf16", "amp-bf16"},
                                                     {"macheps train --st", "--steps", "--seeds"}}) {
        CAPTURE(c.words);
        const Outcome outcome = shell("fish --no-config", script.out + "\ncomplete -C '" + c.words + "'\n");
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == 0);
        const std::string lines = "\n" + outcome.out;
        const auto offers = [&](const std::string& word) {
            return lines.find("\n" + word + "\t") != std::string::npos ||
                   lines.find("\n" + word + "\n") != std::string::npos;
        };
        CHECK(offers(c.offered));
        CHECK_FALSE(offers(c.not_offered));
    }
    fs::remove_all(scratch());
}

TEST_CASE("zsh loads its completion script", "[program]") {
    if (!has_program("zsh")) SKIP_TEST("no zsh");
    const Outcome outcome =
        shell("zsh -f", "autoload -Uz compinit\ncompinit -u -d ./dump\n" + run("completion zsh").out +
                            "\nprint -r -- $_comps[macheps] $+functions[_macheps_policy_diff]\n");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK(outcome.out == "_macheps 1\n");
    fs::remove_all(scratch());
}

TEST_CASE("the manual page has every section, and groff gives no warnings", "[program]") {
    const Outcome page = run("man");
    REQUIRE(page.code == 0);
    for (const char* part :
         {".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXIT STATUS", ".SH ENVIRONMENT", ".SH FILES", ".SH EXAMPLES",
          "MACHEPS_SIMD", "MACHEPS_SIMD_EXTENSIONS", "NO_COLOR", "\\fB75\\fR", "\\fB\\-\\-histogram\\-every\\fR"}) {
        CAPTURE(part);
        CHECK(page.out.find(part) != std::string::npos);
    }
    if (!has_program("groff")) SKIP_TEST("no groff");
    write("macheps.1", page.out);
    const std::string command = "cd '" + scratch().string() + "' && groff -man -ww -Tutf8 macheps.1 >out.txt 2>err.txt";
    CHECK(std::system(command.c_str()) == 0);
    CHECK(contents(scratch() / "err.txt").empty());
    CHECK(contents(scratch() / "out.txt").size() > 10000);
    fs::remove_all(scratch());
}

TEST_CASE("the program constructs only the options of the verb that runs", "[program]") {
    // Constructing the options of all verbs takes 5,600 allocations. The test counts the allocations of the whole
    // process, including the work of the verb.
    for (const char* arguments : {"--help", "show 1 --format fp16"}) {
        CAPTURE(arguments);
        fs::remove(scratch() / "allocations");
        run(arguments, "MACHEPS_ALLOCATIONS=allocations LD_PRELOAD='" MACHEPS_COUNT_ALLOCATIONS "'");
        if (!fs::exists(scratch() / "allocations")) SKIP_TEST("allocations cannot be counted in this build");
        const unsigned long count = std::stoul(contents(scratch() / "allocations"));
        CHECK(count > 10);
        CHECK(count < 500);
    }
    fs::remove_all(scratch());
}

TEST_CASE("if stdout cannot be written, the exit code is 5, no matter how long the output is", "[program]") {
    if (!std::filesystem::exists("/dev/full")) return;
    for (const char* arguments : {"--help", "--version", "train --help", "formats", "formats --json",
                                  "policy explain amp-fp16", "policy words", "policy words --json", "machine list",
                                  "machine list --json", "show 0.1", "completion bash", "man", "version"}) {
        const std::string errors = (scratch() / "err.txt").string();
        const std::string command =
            "'" MACHEPS_PROGRAM "' " + std::string(arguments) + " >/dev/full 2>'" + errors + "'";
        const int status = std::system(command.c_str());
        const std::string said = contents(errors);
        CAPTURE(arguments, said);
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 5));
        CHECK(said.find("macheps: standard output: cannot write") == 0);
    }
}

TEST_CASE("an error keeps its exit code if stderr cannot be written", "[program]") {
    if (!std::filesystem::exists("/dev/full")) return;
    struct Case {
        const char* arguments;
        int code;
    };
    for (const Case& c : {Case{"formats >/dev/full", 5}, Case{"--help >/dev/full", 5}, Case{"nonsense", 2},
                          Case{"policy explain nonsense", 2}, Case{"formats", 0}}) {
        const std::string out = (scratch() / "out.txt").string();
        const std::string command = "'" MACHEPS_PROGRAM "' 2>/dev/full >'" + out + "' " + c.arguments;
        const int status = std::system(command.c_str());
        CAPTURE(c.arguments, status);
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == c.code));
    }
}

}  // namespace help_test
