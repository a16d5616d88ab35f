// SPDX-License-Identifier: Apache-2.0
// Tests the options of `macheps report` for papers: --latex, --methods, --bibtex, --charts with --as and --paper.
#include "tests/json.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace report_paper_test {

using namespace macheps::test;

namespace {

/// Trains a small model under two policies with two seeds into the folder `run`. The name of one policy has characters
/// that LaTeX treats specially.
void train() {
    fs::remove_all(scratch());
    write("own.toml", "name = \"a_b%\"\nextends = \"a100-amp-bf16\"\n");
    REQUIRE(run(std::string(quick) + "--policy fp16-noscale,./own.toml --seeds 0,1 --out run").code == 0);
}

bool has_converter() { return std::system("command -v rsvg-convert >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE("report writes a LaTeX table and a paragraph about the methods", "[program][paper]") {
    train();
    const Outcome outcome = run("report run --latex table.tex --methods methods.tex");
    CAPTURE(outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.err.find("wrote table.tex\n") != std::string::npos);
    CHECK(outcome.err.find("wrote methods.tex\n") != std::string::npos);
    const std::string table = contents(scratch() / "table.tex"), methods = contents(scratch() / "methods.tex");
    CHECK(table.find("\n    fp32 & 2 & ") != std::string::npos);
    CHECK(table.find("\n    fp16-noscale & 2 & ") != std::string::npos);
    CHECK(table.find("\n    a\\_b\\% & 2 & ") != std::string::npos);
    CHECK(methods.find("the operands of matrix products are bf16 \\(\\times\\) bf16; dot products are summed as by the "
                       "matrix instruction mma of NVIDIA sm\\_80 and sm\\_86 (sm80.mma.bf16 in macheps)") !=
          std::string::npos);
    CHECK(methods.find(
              "dot products are summed as follows: one fp32 fused multiply-add per term, in ascending order of the "
              "index of summation (fp32.chain in macheps)") != std::string::npos);
    const auto version = nlohmann::json::parse(run("version --json").out);
    CHECK(methods.find("macheps " + version.at("version").get<std::string>() + " (revision ") != std::string::npos);
    // The table on stdout does not depend on these options.
    CHECK(run("report run").out == outcome.out);
    fs::remove_all(scratch());
}

TEST_CASE("the column peak uses the GPU of a policy's machines, and --gpu overrides it", "[program][paper]") {
    train();
    const auto gpus = [](const std::string& options) {
        std::vector<std::string> gpus;
        const auto summary = nlohmann::json::parse(run("report run --json" + options).out);
        for (const auto& policy : summary.at("policies")) gpus.push_back(policy.at("peak_gpu"));
        return gpus;
    };
    CHECK(gpus("") == std::vector<std::string>(3, "a100"));
    CHECK(gpus(" --gpu b200") == std::vector<std::string>(3, "b200"));
    CHECK(run("report run").out.find("on NVIDIA A100 SXM, dense, bf16 = 1x") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("report --charts --paper writes figures and their captions without a browser", "[program][paper]") {
    train();
    const Outcome svg = run("report run --charts figs --as svg --paper", "PATH= MACHEPS_BROWSER=/nowhere");
    CAPTURE(svg.err);
    REQUIRE(svg.code == 0);
    const std::string captions = contents(scratch() / "figs/captions.tex");
    for (const char* name : {"loss", "gap", "policies"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "figs" / (std::string(name) + ".svg")).find("a_b%") != std::string::npos);
        CHECK(captions.find(std::string("\\includegraphics{") + name + "}") != std::string::npos);
    }
    CHECK(run("report run --charts gap.svg").code == 0);
    CHECK(contents(scratch() / "gap.svg") == contents(scratch() / "figs/gap.svg"));
    CHECK_FALSE(fs::exists(scratch() / "captions.tex"));

    const Outcome missing = run("report run --charts gap.pdf", "PATH=");
    CHECK(missing.code == 5);
    CHECK(missing.err.find("librsvg2-bin") != std::string::npos);
    CHECK_FALSE(fs::exists(scratch() / "gap.pdf"));
    if (has_converter()) {
        CHECK(run("report run --charts all --as pdf,png,svg --paper").code == 0);
        CHECK(contents(scratch() / "all/loss.pdf").starts_with("%PDF-"));
        CHECK(contents(scratch() / "all/loss.png").starts_with("\x89PNG"));
        CHECK(contents(scratch() / "all/loss.svg") == contents(scratch() / "figs/loss.svg"));
        CHECK(run("report run --charts sub/gap.pdf").code == 0);
        CHECK(contents(scratch() / "sub/gap.pdf").starts_with("%PDF-"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("report writes the table, the methods and the figures of a sweep", "[program][paper]") {
    fs::remove_all(scratch());
    write("rates.toml",
          "[train]\nsteps = 4\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 16\nbatch = 2\n"
          "[axes]\npolicy = [\"fp16-noscale\"]\nseeds = \"0..1\"\nlr = [1e-3, 3e-3]\n");
    REQUIRE(run("sweep run rates.toml").code == 0);
    const Outcome outcome =
        run("report rates --latex table.tex --methods methods.tex --charts figs --as svg --paper", "PATH=");
    CAPTURE(outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(contents(scratch() / "table.tex").find("    0.003 & fp16-noscale & 2 & ") != std::string::npos);
    CHECK(contents(scratch() / "table.tex").find("\\label{tab:macheps-best}") != std::string::npos);
    CHECK(contents(scratch() / "methods.tex")
              .find("learning rate (\\num{0.001} and \\num{0.003}); \\num{2} "
                    "combinations of them were trained. In total, there are \\num{8} "
                    "training runs.") != std::string::npos);
    for (const char* name : {"loss-lr", "gap-lr", "best"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "figs" / (std::string(name) + ".svg")).starts_with("<svg "));
        CHECK(contents(scratch() / "figs/captions.tex").find(std::string("{") + name + "}") != std::string::npos);
    }
    CHECK(run("report rates --charts gap-lr.svg").code == 0);
    CHECK(contents(scratch() / "gap-lr.svg") == contents(scratch() / "figs/gap-lr.svg"));
    const auto json = nlohmann::json::parse(run("report rates --json").out);
    REQUIRE(json.at("best").size() == 2);
    CHECK(json.at("best")[1].at("policy") == "fp16-noscale");
    CHECK(json.at("best")[1].at("gap_ci_low") < json.at("best")[1].at("gap"));
    CHECK(json.at("warnings").size() >= 3);  // few steps, few seeds, an end of the grid
    const Outcome diagnosed = run("report rates --diagnose");
    CHECK(diagnosed.code == 0);
    CHECK(diagnosed.out.find("\nFindings of ") != std::string::npos);
    for (const char* policy : {"fp32", "fp16-noscale"}) {
        for (const char* rate : {"0.001", "0.003"}) {
            CAPTURE(policy, rate);
            CHECK(diagnosed.out.find(std::string(policy) + " (lr=" + rate + ")") != std::string::npos);
        }
    }
    CHECK(nlohmann::json::parse(run("report rates --diagnose --json").out).at("diagnosis").contains("findings"));
    const Outcome page = run("report rates --charts figs");
    CHECK(page.code == 2);
    CHECK(page.err.find("add --paper") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("options for papers that do not fit together are refused, and the error says what to write",
          "[program][paper]") {
    train();
    REQUIRE(run("gemm -m 2 -n 2 --sweep k=16..64 -q -o gemm.csv").code == 0);
    write("trainer_state.json", R"({"log_history": [{"loss": 2.5, "step": 1}, {"loss": 2.4, "step": 2}]})");
    struct Case {
        const char *arguments, *says, *why;
    };
    for (const auto& [arguments, says, why] :
         {Case{"run --charts figs --as pdf", "add --paper", "the charts of the page are canvases"},
          Case{"run --charts x.pdf", "name one of loss, gap, policies (loss.pdf)", "no figure has this name"},
          Case{"run --charts gap.pdf --as svg", "--charts figures --as svg --paper", "a file has one format"},
          Case{"run --as svg --paper", "--charts", "no folder"},
          Case{"run --charts figs --paper --dark", "--dark", "paper is white"},
          Case{"run --charts figs --as eps --paper", "svg", "not a format"},
          Case{"gemm.csv --latex t.tex", "pass a run directory", "no training runs"},
          Case{"gemm.csv --methods m.tex", "pass a run directory", "no training runs"},
          Case{"trainer_state.json --latex t.tex", "--latex", "a log of another program"},
          Case{"trainer_state.json --charts figs --paper", "--paper", "a log of another program"}}) {
        const Outcome outcome = run(std::string("report ") + arguments);
        CAPTURE(arguments, why, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.err.find(says) != std::string::npos);
    }
    for (const char* name : {"figs", "t.tex", "m.tex", "x.pdf", "gap.pdf"}) CHECK_FALSE(fs::exists(scratch() / name));
    CHECK(run("report gemm.csv --charts errors.svg").code == 0);  // the only figure may have any name
    CHECK(contents(scratch() / "errors.svg").starts_with("<svg "));
    fs::remove_all(scratch());
}

TEST_CASE("report --bibtex prints the facts of CITATION.cff and the version of the program", "[program][paper]") {
    const Outcome outcome = run("report --bibtex");
    CHECK(outcome.code == 0);
    CAPTURE(outcome.out);
    CHECK(outcome.out.starts_with("@misc{macheps,\n"));
    const std::string citation = contents(fs::path(MACHEPS_SOURCE_DIR) / "CITATION.cff");
    struct Case {
        std::string key, before;
    };
    for (const auto& [key, before] : {Case{"title", "title = {"}, Case{"version", "Version "}, Case{"license", ", "}}) {
        const auto lines = all_matches(citation, std::string("\n") + key + R"re(: "?([^"\n]+)"?\n)re");
        REQUIRE(lines.size() == 1);
        CHECK(outcome.out.find(before + lines[0][1]) != std::string::npos);
    }
    const auto version = nlohmann::json::parse(run("version --json").out);
    CHECK(outcome.out.find("Version " + version.at("version").get<std::string>() + ", revision ") != std::string::npos);
    // The year is that of the release, or else of the commit. Sources without git may have neither.
    const bool has_year = citation.find("\ndate-released:") != std::string::npos ||
                          outcome.out.find("revision unknown") == std::string::npos;
    CHECK(all_matches(outcome.out, R"re(\n  year = \{20\d\d\},\n)re").size() == (has_year ? 1 : 0));
    CHECK((outcome.out.find("url = ") == std::string::npos) ==
          (citation.find("\nrepository-code:") == std::string::npos));
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '{') ==
          std::count(outcome.out.begin(), outcome.out.end(), '}'));
}

}  // namespace report_paper_test
