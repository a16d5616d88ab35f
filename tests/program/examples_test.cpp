// SPDX-License-Identifier: Apache-2.0
// Runs every example of every help text in a folder that has the files and programs which the examples use. Additional
// options shorten the examples that would take minutes; the table `ways` lists them.
#include "reports/findings/divergence.hpp"
#include "reports/rows/csv.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace examples_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::reports;

namespace {

/// How the test runs an example. The first row of `ways` whose text `holds` occurs in the example applies. If there is
/// no such row, the example runs unchanged.
struct Way {
    std::string_view holds;
    std::string_view smaller{};    ///< options that are added to the example
    std::string_view elsewhere{};  ///< another test that runs the example with its own files; skipped here if set
    int code = 0, or_code = code;
};
constexpr std::string_view tiny =
    " --steps 2 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --warmup 1";
constexpr Way ways[] = {
    {.holds = "macheps train --resume"},
    {.holds = "macheps train --from"},
    {.holds = "--size base --dry-run",
     .smaller = " --steps 2 --layers 1 --width 16 --heads 2 --context 8 --vocabulary 16"},
    {.holds = "macheps train", .smaller = tiny},
    {.holds = "macheps check make-inputs recipe.toml"},
    {.holds = "macheps check make-inputs --list"},
    {.holds = "macheps check", .elsewhere = "every example of the check's help runs; docs/check-inputs.md"},
    {.holds = "macheps diagnose", .elsewhere = "diagnose: every example of its help is valid"},
    {.holds = "macheps policy import", .elsewhere = "policy import: every example of its help runs"},
    {.holds = "macheps policy advise",
     .elsewhere = "every example of the help of policy advise and policy explain runs"},
    {.holds = "macheps policy explain",
     .elsewhere = "every example of the help of policy advise and policy explain runs"},
    {.holds = "--png", .elsewhere = "tests/page, if there is a browser"},
    {.holds = "--paper"},
    {.holds = "--charts", .elsewhere = "tests/page, if there is a browser"},
    {.holds = "--results", .elsewhere = "tests/program/machine_test.cpp, with its own results"},
    {.holds = "--replay", .elsewhere = "tests/gpu/verify_test.cpp"},
    {.holds = "macheps policy diff", .code = 1, .or_code = 0},  // 1 if the policies differ
    {.holds = "macheps verify --list"},
    {.holds = "macheps verify --device cpu", .smaller = " --only 'cpu:v*'"},  // AMX would take twenty seconds
    {.holds = "--rule blas.onednn", .code = 1, .or_code = 0},                 // 1 if the library is missing
    {.holds = "macheps verify --library"},                                    // reports a missing library as absent
    {.holds = "macheps verify", .code = 4},                                   // no GPU here
    {.holds = "macheps gemm --sweep k=16", .smaller = " -m 2 -n 2"},
    {.holds = "macheps gemm --machine all", .smaller = " -m 2 -n 2 -k 64"},
    {.holds = "macheps solve --matrix randsvd --sweep", .smaller = " -n 16"},
};

/// Shell functions that replace the programs in the pipes of examples.
constexpr const char* prelude = R"(
export HOME="$PWD"
mkdir -p .zfunc .local/share/bash-completion/completions .config/fish/completions
PATH="$PWD:$PATH"
man() { cat >/dev/null; }
dot() { cat; }
zstd() { cat vectors.jsonl; }
my_adder_test() { cat >/dev/null; }
testfloat_gen() { macheps testfloat "$@" --generate; }
set -o pipefail
)";

const Way& way_of(const std::string& example) {
    static constexpr Way as_it_is{};
    const auto found = std::find_if(std::begin(ways), std::end(ways),
                                    [&](const Way& way) { return example.find(way.holds) != std::string::npos; });
    return found == std::end(ways) ? as_it_is : *found;
}

/// Returns the lines of `help` from `title` to the next empty line or `Usage:`.
std::vector<std::string> part_of(const std::string& help, const std::string& title) {
    std::vector<std::string> part;
    std::istringstream lines(help);
    bool is_inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line == title) {
            is_inside = true;
        } else if (is_inside && (line.empty() || line.starts_with("Usage:"))) {
            break;
        } else if (is_inside) {
            part.push_back(line);
        }
    }
    return part;
}

/// Collects `verb` and, recursively, every verb that its help lists: "", "train ", "policy ", "policy list ", ...
void collect_verbs(const std::string& verb, std::vector<std::string>& verbs) {
    verbs.push_back(verb);
    for (const std::string& line : part_of(run(verb + "--help").out, "Verbs:")) {
        if (line.size() < 3 || line[2] == ' ') continue;  // continues the text of the previous line
        collect_verbs(verb + line.substr(2, line.find(' ', 2) - 2) + " ", verbs);
    }
}

/// Returns the commands in the examples of a verb's help. Two spaces separate a command from its description.
std::vector<std::string> examples_of(const std::string& verb) {
    std::vector<std::string> examples;
    const std::string help = run(verb + "--help").out;
    for (const char* title : {"Examples:", "More examples:"}) {
        for (const std::string& line : part_of(help, title)) {
            if (!line.starts_with("  ") || line[2] == ' ') continue;
            const std::string command = line.substr(2, line.find("  ", 2) - 2);
            if (command.find("macheps ") != std::string::npos) examples.push_back(command);
        }
    }
    return examples;
}

Outcome shell(const std::string& command) {
    write("example", std::string(prelude) + command + "\n");
    const std::string line = "cd '" + scratch().string() + "' && bash example >out.txt 2>err.txt </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(scratch() / "out.txt"),
            contents(scratch() / "err.txt")};
}

void write_files() {
    fs::create_symlink(MACHEPS_PROGRAM, scratch() / "macheps");
    write("requirements.txt", "deepspeed==0.18.2\n");
    write("ds.json", R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0})");
    write("hf_args.yaml", "bf16: true\nper_device_train_batch_size: 4\nlearning_rate: 1.0e-4\noutput_dir: out\n");
    write(
        "recipe.toml",
        "[recipe]\nop = \"gemm\"\na = \"fp16\"\nb = \"fp16\"\nout = \"fp32\"\nm = 33\nn = 30\nk = 100\ncanaries = 1\n");
    std::string text;
    for (int i = 0; i < 4000; ++i) text += "the quick brown fox "[i % 20];
    write("corpus.txt", text);
    write("train.log", "step 7\nRuntimeError: FlashAttention only support fp16 and bf16 data type\n");
    write("x.f32", std::string(64, '\0')), write("codes.u8", std::string(16, '\x38')),
        write("x.f64", std::string(64, '\0'));
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 128), }";
    header.append(117 - header.size(), ' ');
    write("x.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + std::string(1024, '\0'));
    std::string codes;
    for (int i = 2; i < 32; ++i) codes += ",\"00\"";
    write("vectors.jsonl",
          "{\"arch\":\"sm_90\",\"instr\":\"wgmma\",\"qual\":\"m64n8k32.f32.e4m3.e4m3\",\"cls\":\"example\",\"a\":["
          "\"3c\",\"b9\"" +
              codes + "],\"b\":[\"3c\",\"19\"" + codes + "],\"c\":\"42c80080\",\"d\":\"42cc5800\"}\n");
    std::string run_log, export_csv = "Step,my_loss\n", state;
    for (int i = 1; i <= 8; ++i) {
        run_log += "iter " + std::to_string(i) + ": loss 2.5, time 120.5ms, mfu 41.2%\n";
        export_csv += std::to_string(i) + ",2.5\n";
        state += (i == 1 ? "" : ", ") + ("{\"loss\": 2.5, \"step\": " + std::to_string(i)) + "}";
    }
    write("run.log", run_log), write("wandb.csv", export_csv);
    write("trainer_state.json", "{\"log_history\": [" + state + "]}");
    REQUIRE(run("policy show amp-bf16 > mine.toml; sed -i 's/amp-bf16/mine/' mine.toml; true").code == 0);
    for (const char* folder : {"runs/001", "runs/002"}) {
        const Outcome outcome = run("train --policy tf32 -q --out " + std::string(folder) + std::string(tiny));
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
    }
    REQUIRE(run("gemm -m 2 -n 2 -k 64 -q -o gemm.csv").code == 0);
    REQUIRE(run("solve -n 8 --factor fp16 --method ir --steps steps.csv -q -o solve.csv").code == 0);
    REQUIRE(run("sum -n 64 -q -o sum.csv").code == 0);
    REQUIRE(run("eval x+1 -f e4m3fn --points-out points.csv -q -o eval.csv").code == 0);
    write("formulas.fpcore", "(FPCore (x) :name \"NMSE example 3.1\" :pre (<= 0 x) (- (sqrt (+ x 1)) (sqrt x)))\n");
    write(
        "formats.toml",
        "[train]\nsteps = 2\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\nbatch = 2\neval-batches = 1\nwarmup = 1\n"
        "[axes]\npolicy = \"tf32\"\nseeds = 0\n");
    REQUIRE(run("sweep run formats.toml -q").code == 0);
}

}  // namespace

TEST_CASE("every example of every help text runs", "[examples]") {
    write_files();
    std::vector<std::string> verbs;
    collect_verbs("", verbs);
    CHECK(verbs.size() >= 25);
    std::set<std::string> done;
    int count = 0;
    for (const std::string& verb : verbs) {
        const std::vector<std::string> examples = examples_of(verb);
        CAPTURE(verb);
        CHECK_FALSE(examples.empty());
        for (const std::string& example : examples) {
            if (!done.insert(example).second) continue;
            const Way& way = way_of(example);
            if (!way.elsewhere.empty()) continue;
            // Insert the additional options before a pipe or a redirection.
            const std::size_t end = example.find_first_of("|>", example.find("macheps "));
            std::string command = example;
            command.insert(std::min(end, command.size()), std::string(way.smaller) + " ");
            if (command.find("$(") == std::string::npos && command.find("<(") != std::string::npos) command = example;
            const Outcome outcome = shell(command);
            CAPTURE(command, outcome.out, outcome.err);
            CHECK((outcome.code == way.code || outcome.code == way.or_code));
            ++count;
        }
    }
    CHECK(count >= 60);
    fs::remove_all(scratch());
}

TEST_CASE("the second example in the help of train shows the stall of the demo, with the same rows",
          "[examples][slow]") {
    const std::vector<std::string> examples = examples_of("train ");
    REQUIRE(examples.at(0) == "macheps train");
    REQUIRE(examples.at(1) == "macheps train --policy amp-fp16,fp16-noscale");
    fs::create_directories(scratch());
    const Outcome outcome = run(examples[1].substr(8) + " -q --out run");
    CAPTURE(outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.out.find("seeds 0, 1, 2; the loss of every token is weighted by 2^-12") != std::string::npos);
    CHECK(outcome.out.find("  fp16-noscale: worse by 0.65 ± 0.067 (19 % of fp32's loss; 2 layers x 64, 300 steps, 3 "
                           "seeds, token weight 2^-12).") != std::string::npos);
    CHECK(outcome.out.find("  amp-fp16: no difference found (2 layers x 64, 300 steps, 3 seeds, token weight 2^-12; "
                           "smallest detectable gap ") != std::string::npos);
    // Every row of the summary is also in the golden summary of the demo.
    const fs::path golden = fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/demo/summary.csv";
    const std::vector<SummaryRow> demo = CsvReader<SummaryRow>(golden).rows();
    for (const SummaryRow& row : CsvReader<SummaryRow>(scratch() / "run/summary.csv").rows()) {
        CAPTURE(row.policy);
        CHECK(std::count(demo.begin(), demo.end(), row) == 1);
    }
    fs::remove_all(scratch());
}

TEST_CASE("the defaults are the same with and without --policy; a line on stdout and on the page lists them",
          "[examples]") {
    const std::string line =
        "seeds 0, 1, 2; the loss of every token is weighted by 2^-12 in the backward pass, which makes the gradients "
        "as small as those of a batch 4096 times as large";
    for (const char* policy : {"", "--policy tf32 "}) {
        const Outcome outcome = run("train " + std::string(policy) + "-q --force --out run" + std::string(tiny));
        CAPTURE(policy, outcome.err);
        REQUIRE(outcome.code == 0);
        CHECK(outcome.out.find(line) != std::string::npos);
        const std::string page = contents(scratch() / "run/report.html");
        CHECK(page.find("seeds 0, 1, 2; the loss of every token is weighted by 2^-12") != std::string::npos);
        CHECK(page.find("0.000244140625") == std::string::npos);
    }
    const Outcome other =
        run("train --policy tf32 --seeds 5 --token-weight 1 -q --force --out run" + std::string(tiny));
    CHECK(other.out.find("seed 5; the loss of every token has weight 1") != std::string::npos);
    fs::remove_all(scratch());
}

}  // namespace examples_test
