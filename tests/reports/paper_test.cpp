// SPDX-License-Identifier: Apache-2.0
// Tests the files for a paper: escaping, the LaTeX table against the table on stdout, the paragraph about the methods
// against the manifest, and the figures against the losses.
#include "core/error.hpp"
#include "core/text/json.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/paper/latex_table.hpp"
#include "reports/paper/latex_text.hpp"
#include "reports/paper/methods.hpp"
#include "reports/paper/paper_figures.hpp"
#include "tests/json.hpp"
#include "tests/regex.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace paper_test {

using namespace macheps;
using namespace macheps::reports;
using namespace macheps::test;

namespace {

constexpr double margin = 0.0025;
const std::string name_with_signs = "a_b% $&#{}~^\\<>|\"`'--c";

/// Returns the log of fp32 and of one policy for each list of gaps. The loss of fp32 is 3 + 1 / (1 + step), and the gap
/// is constant.
Log log_of(const std::vector<std::pair<std::string, std::vector<double>>>& policies) {
    Log log;
    log.folders.push_back({.path = "run", .manifest = R"({
        "created_by": "macheps 9.8.7", "git": "0123abc", "device": "4 x cpu.test",
        "model": {"kind": "gpt2", "layers": 3, "width": 48, "heads": 4, "context": 31, "vocabulary": 65,
                  "parameters": 123456},
        "data": {"what": "synthetic language, 65 tokens"},
        "train": {"steps": 480, "batch": 17, "micro_batches": 1, "optimizer": "adamw", "lr": 0.0019, "min_lr": 0.00017,
                  "warmup": 23, "beta1": 0.91, "beta2": 0.953, "eps": 1e-07, "weight_decay": 0.0, "clip": 1.5,
                  "token_weight": 0.000244140625},
        "seeds": [0, 1, 2],
        "machines": {"low": {"matmuls": {"sm80.mma.bf16": 39}, "unverified": []}}})"});
    constexpr std::int64_t steps = 480;
    for (std::int64_t seed = 0; seed < 3; ++seed) {
        const std::size_t baseline = log.runs.size();
        const auto add = [&](const std::string& policy, double gap) {
            RunLog run;
            run.row = {.run = policy + "/" + std::to_string(seed), .policy = policy, .seed = seed, .steps = steps};
            run.row.matmul_formats = policy == "fp32" ? "fp32*fp32:8" : "bf16*e5m2:8";
            run.row.parameters = 123456;
            run.row.bytes_params = 493824;
            run.policy = policy, run.baseline = baseline;
            for (std::int64_t t = 0; t < steps; ++t) {
                run.steps.push_back({.run = run.row.run, .policy = policy, .seed = seed, .step = t});
                run.steps.back().loss = 3 + 1 / (1 + double(t)) + gap;
            }
            log.runs.push_back(std::move(run));
        };
        add("fp32", 0);
        for (const auto& [policy, gaps] : policies) add(policy, gaps.at(std::size_t(seed)));
    }
    return log;
}

/// Describes every machine by its name.
std::string as_named(const std::string& machine) { return "as by " + machine; }

/// Returns a sweep over two learning rates, of fp32 and one policy with three seeds.
SweepSummary sweep_of_rates() {
    SweepSummary sweep{.name = "rates", .axes = {"lr"}, .settings = 2, .units = 6, .runs = 12};
    for (const auto& [setting, rate] : {std::pair(0, "0.0019"), std::pair(1, "0.0057")}) {
        const Log log = log_of({{name_with_signs, {0.03, 0.031, 0.029 + 0.001 * setting}}});
        Json manifest = Json::parse(log.folders[0].manifest);
        manifest["train"]["lr"] = std::stod(rate);
        manifest["policies"] = {{name_with_signs,
                                 {{"description", "matmuls in bf16"},
                                  {"extends", {{{"toml", "name = \"x\"\ndescription = \"a base\"\n"}}}}}}};
        sweep.methods.add(manifest);
        for (PolicySummary& policy : summarise(log).policies) {
            sweep.methods.add_policy(policy.row.policy, policy.row.policy, manifest);
            sweep.rows.push_back({.values = {rate}, .setting = std::size_t(setting), .policy = std::move(policy)});
        }
        for (const RunLog& run : log.runs) sweep.methods.add_run(run.policy, run.row);
    }
    return sweep;
}

/// Returns all numbers in a text, in the form of siunitx: an exponent has no plus sign and no leading zeros.
std::vector<std::string> numbers_in(const std::string& text) {
    std::vector<std::string> numbers;
    for (const Match& number : all_matches(text, R"([+-]?\d+(\.\d+)?(e[+-]?\d+)?)"))
        numbers.push_back(replaced(number[0], R"(e\+?(-?)0*(\d))", "e$1$2"));
    return numbers;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

const PaperFigure& figure(const std::vector<PaperFigure>& figures, const std::string& name) {
    const auto found =
        std::find_if(figures.begin(), figures.end(), [&](const PaperFigure& one) { return one.name == name; });
    REQUIRE(found != figures.end());
    return *found;
}

}  // namespace

TEST_CASE("text for LaTeX contains no character that LaTeX treats specially", "[reports][paper]") {
    CHECK(latex_text("a_b%") == "a\\_b\\%");
    CHECK(latex_text("2^-12 of 2^3, x^2, 12^") ==
          "\\(2^{-12}\\) of \\(2^{3}\\), x\\textasciicircum{}2, 12\\textasciicircum{}");
    CHECK(latex_text("\u00b1 0.25 %") == "\\(\\pm\\) 0.25 \\%");
    CHECK(latex_text("--seeds") == "-{}-{}seeds");
    CHECK(latex_text("a\nb\x7f") == "a b ");
    // Quotations and apostrophes of sentences have the quotes of LaTeX, and other quotes are straight.
    CHECK(latex_text("the verdict \"one seed\", or (\"none\"): \"x\"") ==
          "the verdict ``one seed'', or (``none''): ``x''");
    CHECK(latex_text("fp32's loss") == "fp32's loss");
    CHECK(latex_text("6\" a\"b 'c' \"open") ==
          "6\\char34{} a\\char34{}b \\textquotesingle{}c\\textquotesingle{} \\char34{}open");
    // Replace the commands that the function may write. The rest must not contain a special character.
    const std::string commands =
        R"([A-Za-z0-9]'[A-Za-z]|\\text[a-z]+\{\}|\\char34\{\}|\\[{}$&#%_]|\\\(\d\^\{-?\d+\}\\\)|-\{\}-\{\})";
    for (int first = 0x20; first < 0x7f; ++first) {
        for (int second = 0x20; second < 0x7f; ++second) {
            const std::string text{'x', char(first), char(second), '-'};
            const std::string rest = replaced(latex_text(text), commands, "X");
            CAPTURE(text, latex_text(text));
            CHECK(rest.find_first_of("\\{}$&#%_^~<>|\"`'") == std::string::npos);
            CHECK(rest.find("--") == std::string::npos);
        }
    }
}

TEST_CASE("a number for siunitx has an exponent without a plus sign and leading zeros", "[reports][paper]") {
    struct Case {
        const char *text, *number;
    };
    for (const auto& [text, number] :
         {Case{"-1.5e-06", "-1.5e-6"}, Case{"+0.65", "+0.65"}, Case{"1e+10", "1e10"}, Case{"3e+00", "3e0"},
          Case{"33799", "33799"}, Case{"0", "0"}, Case{"nan", ""}, Case{"-inf", ""}, Case{"-", ""}, Case{"<0.001", ""},
          Case{"", ""}, Case{"1.5x", ""}}) {
        CAPTURE(text);
        CHECK(siunitx_number(text) == number);
    }
}

TEST_CASE("the LaTeX table has the numbers of the table on stdout in the same order, and its notes",
          "[reports][paper]") {
    const Log log =
        log_of({{"low", {1e-7, 3e-7, -2e-7}}, {name_with_signs, {0.03, 0.031, 0.029}}, {"lost", {NAN, NAN, NAN}}});
    const Summary summary = summarise(log);
    const std::string latex = latex_table(summary);
    const std::vector<std::string> lines = lines_of(latex), table = lines_of(summary_table(summary));
    CHECK(latex.find(latex_text(name_with_signs)) != std::string::npos);
    const auto first = std::find(lines.begin(), lines.end(), "    \\midrule");
    REQUIRE(lines.end() - first > 4);
    // A row has 12 cells. A cell over two columns counts as two. Escaped characters are no part of the name here.
    const auto cells_of = [](const std::string& row) {
        const std::string bare = replaced(row, R"(\\&)", "");
        return 1 + std::count(bare.begin(), bare.end(), '&') +
               std::ptrdiff_t(all_matches(bare, R"(\\multicolumn\{2\})").size());
    };
    CHECK(cells_of(*(first - 1)) == 12);
    CHECK(cells_of(*(first - 2)) == 12);
    for (std::size_t i = 0; i < summary.policies.size(); ++i) {
        const std::string& name = summary.policies[i].row.policy;
        std::string row = *(first + 1 + std::ptrdiff_t(i)), shown = table.at(1 + i);
        CAPTURE(name, row, shown);
        REQUIRE(row.starts_with("    " + latex_text(name) + " & "));
        REQUIRE(shown.starts_with(name));
        CHECK(cells_of(row) == 12);
        CHECK(row.ends_with(" \\\\"));
        // The verdict is a text that may contain a number (fp32), so it is compared separately.
        const std::string& verdict = summary.policies[i].row.verdict;
        CHECK(row.find(" & " + verdict + " & ") != std::string::npos);
        row.erase(row.find(verdict), verdict.size()), shown.erase(shown.find(verdict, name.size()), verdict.size());
        row = replaced(row.substr(4 + latex_text(name).size()), R"(\\multicolumn\{2\}\{c\})", "");
        CHECK(numbers_in(row) == numbers_in(shown.substr(name.size())));
    }
    for (const std::string& note : table_notes(summary)) {
        CAPTURE(note);
        CHECK(latex.find("    " + latex_text(note) + "\\par\n") != std::string::npos);
    }
    CHECK(latex.find("NVIDIA A100 SXM") != std::string::npos);
    CHECK(latex.find(R"(    lost & 3 & {nan} & \multicolumn{2}{c}{not finite} & diverged & )") != std::string::npos);
    // Environments are closed in the reverse order.
    std::vector<std::string> open;
    for (const Match& match : all_matches(latex, R"(\\(begin|end)\{([a-z*]+)\})")) {
        if (match[1] == "begin") {
            open.push_back(match[2]);
        } else {
            REQUIRE_FALSE(open.empty());
            CHECK(open.back() == match[2]);
            open.pop_back();
        }
    }
    CHECK(open.empty());
}

TEST_CASE("every number in the paragraph about the methods is a number of the manifest or of the statistics",
          "[reports][paper]") {
    const Log log = log_of({{"low", {1e-7, 3e-7, -2e-7}}});
    const Summary summary = summarise(log);
    const std::string text = methods_text(log, summary, as_named);
    CAPTURE(text);
    // The window has 50 steps, three seeds have 2 degrees of freedom, and the tests are at 95 %, 90 % and 5 %.
    std::multiset<double> allowed{50, 2, 95, 90, 5, 100 * margin, -12, 2, 4096};
    allowed.insert({0.02, 0, 1});  // initial weights
    for (const std::string& number : numbers_in(log.folders[0].manifest)) allowed.insert(std::stod(number));
    const std::string prose =
        replaced(text, R"(%[^\n]*\n|fp32|bf16|e5m2|GPT-2|macheps 9\.8\.7|0123abc|sm80|beta_.)", "");
    for (const std::string& number : numbers_in(prose)) {
        CAPTURE(number);
        CHECK(allowed.contains(std::stod(number)));
    }
    for (const char* part :
         {"the GPT-2 architecture",
          "\\num{3} layers",
          "width \\num{48}",
          "(\\num{123456} parameters)",
          "\\num{480} optimiser steps",
          "\\num{17} sequences per batch",
          "AdamW (learning rate \\num{0.0019}",
          "\\(\\beta_2 = \\num{0.953}\\)",
          "no weight decay, gradient norm clipped at",
          "The learning rate rose linearly during the warm-up and then followed half a cosine down to its final value",
          "normal distribution with standard deviation \\num{0.02}",
          "seeds 0, 1, 2;",
          "The loss is the training loss (cross entropy in nats per token, on the batch of each step), averaged over "
          "the last 50 steps of a run.",
          "multiplied by \\(2^{-12}\\)",
          "as with a batch \\num{4096} times as large",
          "\\texttt{low}: the operands of matrix products are bf16 \\(\\times\\) "
          "e5m2; dot products are summed as by sm80.mma.bf16. ",
          "(2 degrees of freedom)",
          "within 0.25\\,\\% of the fp32 loss",
          "macheps 9.8.7 (revision 0123abc)~\\cite{macheps}",
          "bit for bit, on a CPU."}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
    // A reader of the paper does not know these words of macheps.
    for (const char* word : {"token weight", "slot", "site", "cpu.test", "adamw", "gpt2"}) {
        CAPTURE(word);
        CHECK(text.find(word) == std::string::npos);
    }
    CHECK(text.find("micro-batches") == std::string::npos);  // 1 is not used
}

TEST_CASE("the LaTeX tables of a sweep have the numbers of the tables on stdout in the same order",
          "[reports][paper]") {
    const SweepSummary sweep = sweep_of_rates();
    const std::string latex = latex_tables(sweep);
    CAPTURE(latex);
    std::vector<std::string> rows;
    bool is_row = false;
    for (const std::string& line : lines_of(latex)) {
        if (line == "    \\bottomrule") is_row = false;
        if (is_row) rows.push_back(line);
        if (line == "    \\midrule") is_row = true;
    }
    REQUIRE(rows.size() == 4 + 2);
    std::vector<std::string> shown;
    for (const std::string& line : lines_of(sweep_summary_text(sweep))) {
        if (line.starts_with("0.00") || line.starts_with("fp32 ") || line.starts_with("a_b%")) shown.push_back(line);
    }
    REQUIRE(shown.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto bare = [](std::string text) {
            for (const std::string& name : {latex_text(name_with_signs), name_with_signs, std::string("fp32")}) {
                if (const std::size_t at = text.find(name); at != std::string::npos) text.erase(at, name.size());
            }
            return numbers_in(replaced(text, R"(\\multicolumn\{2\}\{c\})", ""));
        };
        CAPTURE(rows[i], shown[i]);
        CHECK(bare(rows[i]) == bare(shown[i]));
        CHECK((rows[i].find("worse") == std::string::npos) == (shown[i].find("worse") == std::string::npos));
    }
    for (const std::string& warning : sweep_warnings(sweep, best_values(sweep)))
        CHECK(latex.find(latex_text("Warning: " + warning + ".")) != std::string::npos);
    CHECK(latex.find("at its best learning rate") != std::string::npos);
}

TEST_CASE("a table of a sweep that is longer than a page is left out, or refused if it is the only one",
          "[reports][paper]") {
    SweepSummary sweep = sweep_of_rates();
    for (int i = 0; i < 60; ++i) {
        sweep.rows.push_back(sweep.rows[std::size_t(i % 4)]);
        sweep.rows.back().values = {std::to_string(i)};
    }
    const std::string latex = latex_tables(sweep);
    CHECK(latex.find("tab:macheps-best") != std::string::npos);
    CHECK(latex.find("\\label{tab:macheps}") == std::string::npos);
    CHECK(latex.find("Warning: ") != std::string::npos);
    sweep.axes = {"steps"};
    CHECK_THROWS_AS(latex_tables(sweep), Error);
}

TEST_CASE("the paragraph about the methods of a sweep says what was varied", "[reports][paper]") {
    const std::string text = methods_text(sweep_of_rates(), as_named);
    CAPTURE(text);
    for (const char* part : {"AdamW (final learning rate \\num{0.00017}, \\num{23} warm-up steps",
                             "These settings were varied: learning rate (\\num{0.0019} and \\num{0.0057}); \\num{2} "
                             "combinations of them were trained. In total, there are \\num{12} training runs. ",
                             "matmuls in bf16; the operands", "averaged over the last 50 steps of a run",
                             "the fp32 run with the same settings and seed. ",
                             "Policies at their best learning rate are compared with fp32 at its best learning rate"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
}

TEST_CASE("a number with many digits is rounded in the methods, and one of something is in the singular",
          "[reports][paper]") {
    SweepSummary sweep = sweep_of_rates();
    Json manifest = Json::parse(R"({"model": {"layers": 1}, "train": {"min_lr": 0.00030000000000000003}})");
    sweep.methods.settings.clear();
    sweep.methods.add(manifest);
    const std::string text = methods_text(sweep, as_named);
    CAPTURE(text);
    CHECK(text.find("with \\num{1} layer (") != std::string::npos);
    sweep.methods.add(Json::parse(R"({"train": {"optimizer": "adamw"}})"));
    CHECK(methods_text(sweep, as_named).find("final learning rate \\num{0.0003})") != std::string::npos);
}

TEST_CASE("the figures of a sweep show the loss and the gap over the learning rate, and the gaps at the best rates",
          "[reports][paper]") {
    const SweepSummary sweep = sweep_of_rates();
    const std::vector<PaperFigure> figures = paper_figures(sweep);
    REQUIRE(figures.size() == 3);
    CHECK(figure(figures, "loss-lr").svg.find(">learning rate</text>") != std::string::npos);
    // The seeds of fp32 have equal losses, so its points have no interval.
    const auto curves = all_matches(figure(figures, "loss-lr").svg, R"re(<path class="line" d="M[^"]*L)re");
    CHECK(curves.size() == 2 + 2);  // two curves, and an interval for each point of the policy
    CHECK(figure(figures, "gap-lr").svg.find(">fp32</text>") == std::string::npos);
    CHECK(figure(figures, "best").svg.find("lr 0.0019 (fp32: 0.0019): +0.030 ± 0.0025") != std::string::npos);
    SweepSummary wide = sweep;
    wide.axes.push_back("width");
    for (std::size_t i = 0; i < sweep.rows.size(); ++i) {
        wide.rows[i].values.push_back("48");
        wide.rows.push_back(wide.rows[i]);
        wide.rows.back().values[1] = "96";
    }
    wide.rows.back().policy.row.failed_seeds = 1;
    wide.rows[0].policy.row.failed_seeds = 1;  // fp32, which has no gap
    const std::vector<PaperFigure> more = paper_figures(wide);
    CHECK(figure(more, "loss-lr-1").caption.find("Other settings: width 48.") != std::string::npos);
    struct Case {
        const char *figure, *says;
        std::size_t crosses;
    };
    for (const auto& [name, says, crosses] :
         {Case{"loss-lr-1", "(1 of 4 points)", 1}, Case{"loss-lr-2", "(1 of 4 points)", 1}, Case{"gap-lr-1", "", 0},
          Case{"gap-lr-2", "(1 of 2 points)", 1}}) {
        CAPTURE(name);
        const PaperFigure& one = figure(more, name);
        CHECK((one.caption.find("A cross at the top edge marks a point at which a run diverged") !=
               std::string::npos) == (crosses > 0));
        CHECK(one.caption.find(says) != std::string::npos);
        CHECK(all_matches(one.svg, R"re(d="M-3\.5-3\.5L3\.5 3\.5M-3\.5 3\.5L3\.5-3\.5")re").size() == crosses);
    }
}

TEST_CASE("the gap over the learning rate has an axis that is linear within the margin and logarithmic beyond it",
          "[reports][paper]") {
    SweepSummary sweep = sweep_of_rates();
    sweep.rows[3].policy.row.gap_mean = 3;  // 100 times the other gap
    const PaperFigure gap = figure(paper_figures(sweep), "gap-lr");
    CAPTURE(gap.svg);
    const double linear = *sweep.rows[3].policy.row.margin;
    CHECK(gap.caption.find("linear up to about 0.00") != std::string::npos);
    // The labels of the axis give the scale, which is asinh(gap / margin).
    std::vector<std::pair<double, double>> labels;
    for (const Match& label :
         all_matches(gap.svg, R"re(<text x="60\.0" y="([\d.]+)" text-anchor="end">([^<]+)</text>)re"))
        labels.emplace_back(std::asinh(std::stod(label[2]) / linear), std::stod(label[1]));
    REQUIRE(labels.size() > 3);
    const auto slope = [&](std::size_t i) {
        return (labels[i].second - labels[0].second) / (labels[i].first - labels[0].first);
    };
    for (std::size_t i = 2; i < labels.size(); ++i) CHECK(slope(i) == Approx(slope(1)).epsilon(0.01));
    CHECK(gap.svg.find(">1</text>") != std::string::npos);
    CHECK(gap.svg.find(">0.03</text>") != std::string::npos);
}

TEST_CASE(
    "the methods give the share of a final learning rate that follows from the varied one, say what diverged "
    "means, and describe a policy for the trained model only",
    "[reports][paper]") {
    SweepSummary sweep = sweep_of_rates();
    for (MethodFacts::Setting& setting : sweep.methods.settings) {
        if (setting.name == "min_lr") setting.values = {"0.00019", "0.00057"};
        if (setting.name == "weight_decay") setting.values = {"0.1"};
        if (setting.name == "warmup") setting.values = {"0"};
    }
    for (MethodFacts::Policy& policy : sweep.methods.policies)
        policy.description = "casts; the loss of a gpt2 in bf16, of a llama in fp32";
    sweep.rows[3].policy.row.failed_seeds = 1;
    const std::string text = methods_text(sweep, as_named);
    CAPTURE(text);
    for (const char* part :
         {"The learning rate followed half a cosine down to \\num{0.1} of its largest value,",
          "weight decay \\num{0.1} (matrices only)", ": casts; the loss in bf16; the operands",
          "A run counts as diverged if its loss became NaN or infinite, if its smoothed loss stayed more than 1 nat "
          "above "
          "its minimum for 50 steps, or if its loss at the end (mean of the last 50 steps) is above that of its first "
          "step. "}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(all_matches(text, R"(0\.0057)").size() == 1);  // the values of an axis are listed once
    CHECK(text.find("llama") == std::string::npos);
    CHECK(text.find("final learning rate") == std::string::npos);
    CHECK(methods_text(sweep_of_rates(), as_named).find("diverged if") == std::string::npos);
}

TEST_CASE("the methods of runs without a manifest or with different settings are refused", "[reports][paper]") {
    Log without = log_of({{"low", {0, 0, 0}}});
    const Summary summary = summarise(without);
    Log two = without;
    two.folders.push_back(two.folders.front());
    CHECK_NOTHROW(methods_text(two, summary, as_named));
    const std::string steps = "\"steps\": 480";
    std::string& manifest = two.folders.back().manifest;
    manifest.replace(manifest.find(steps), steps.size(), "\"steps\": 481");
    without.folders.front().manifest.clear();
    for (const auto& [log, exit] : {std::pair(&without, Exit::bad_input), std::pair(&two, Exit::usage)}) {
        try {
            methods_text(*log, summary, as_named);
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(error.exit() == exit);
        }
    }
}

TEST_CASE("figures for a paper have no title, a white background, text, and a caption each", "[reports][paper]") {
    const Log log = log_of({{"low", {1e-7, 3e-7, -2e-7}}, {name_with_signs, {0.03, 0.031, 0.029}}});
    const std::vector<PaperFigure> figures = paper_figures(log, summarise(log));
    REQUIRE(figures.size() == 3);
    const std::string captions = captions_tex(figures);
    for (const PaperFigure& one : figures) {
        CAPTURE(one.name, one.svg);
        CHECK(one.svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"3"));
        CHECK(one.svg.find("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>") != std::string::npos);
        CHECK(one.svg.find("<text ") != std::string::npos);
        CHECK(one.svg.find("var(") == std::string::npos);  // a file has no style of a page
        CHECK(one.svg.find(one.caption) == std::string::npos);
        CHECK(one.svg.find("a_b% $&amp;#{}~^\\&lt;&gt;|") != std::string::npos);
        CHECK(captions.find("\\includegraphics{" + one.name + "}\n  \\caption{" + latex_text(one.caption) + "}") !=
              std::string::npos);
    }
}

TEST_CASE("the curves of the figures end at the losses and gaps of the last steps", "[reports][paper]") {
    const Log log = log_of({{"low", {0.02, 0.03, 0.04}}});
    const std::vector<PaperFigure> figures = paper_figures(log, summarise(log));
    // 480 steps in 48 intervals: the last point is the mean of ten steps.
    double last = 0;
    for (int t = 470; t < 480; ++t) last += (3 + 1 / (1.0 + t)) / 10;
    for (const auto& [name, expected] : {std::pair("loss", last + 0.03), std::pair("gap", 0.03)}) {
        const std::string& svg = figure(figures, name).svg;
        CAPTURE(name, svg);
        // The labels of the y axis give the scale.
        std::map<double, double> labels;
        for (const Match& label :
             all_matches(svg, R"re(<text x="60\.0" y="([\d.]+)" text-anchor="end">([^<]+)</text>)re"))
            labels[std::stod(label[1]) - 4] = std::stod(label[2]);
        REQUIRE(labels.size() > 2);
        const auto [low_y, low] = *labels.begin();
        const auto [high_y, high] = *labels.rbegin();
        const auto curves = all_matches(svg, R"re(<g class="c1"><path class="line" d="M[^"]*L([\d.]+) ([\d.]+)"/>)re");
        REQUIRE(curves.size() == 1);
        const double y = std::stod(curves[0][2]), per_pixel = (high - low) / (high_y - low_y);
        CHECK(low + (y - low_y) * per_pixel == Approx(expected).margin(0.2 * std::abs(per_pixel)));
    }
}

TEST_CASE("the figure of policies shows the gap and its intervals as shares of the fp32 loss", "[reports][paper]") {
    const Log log = log_of({{"same", {0, 0, 0}}, {"low", {0.02, 0.03, 0.04}}});
    const std::string svg = figure(paper_figures(log, summarise(log)), "policies").svg;
    CAPTURE(svg);
    CHECK(svg.find(" width=\"360\" ") != std::string::npos);
    const std::string row =
        R"re(stroke-width: 1\.2" d="M([\d.]+) [\d.]+H([\d.]+)"/><path class="line" style="stroke-width: 3" d="M([\d.]+) [\d.]+H([\d.]+)"/><circle cx="([\d.]+)")re";
    std::vector<std::vector<double>> rows;
    for (const Match& match : all_matches(svg, row)) {
        rows.emplace_back();
        for (std::size_t i = 1; i <= 5; ++i) rows.back().push_back(std::stod(match[i]));
    }
    REQUIRE(rows.size() == 2);
    for (const double x : rows[0]) CHECK(x == 180);  // a gap of zero is in the middle
    // The axis is asinh(share / margin). The edges of the shaded band at -1 and +1 margins give its scale.
    const auto bands = all_matches(svg, R"re(class="band" x="([\d.]+)" y="[\d.]+" width="([\d.]+)")re");
    REQUIRE(bands.size() == 1);
    const double scale = std::stod(bands[0][2]) / 2 / std::asinh(1);
    double loss = 0;
    for (int t = 430; t < 480; ++t) loss += (3 + 1 / (1.0 + t)) / 50;
    // The gaps 0.02, 0.03 and 0.04 have a standard error of 0.01 / sqrt(3). t is 4.303 (95 %) and 2.920 (90 %).
    const double error = 0.01 / std::sqrt(3.0);
    const std::vector<double> gaps{0.03 - 4.302653 * error, 0.03 + 4.302653 * error, 0.03 - 2.919986 * error,
                                   0.03 + 2.919986 * error, 0.03};
    for (std::size_t i = 0; i < gaps.size(); ++i) {
        CAPTURE(i);
        CHECK(rows[1][i] == Approx(180 + scale * std::asinh(gaps[i] / loss / margin)).margin(0.2));
    }
}

TEST_CASE("matrix products have a figure for each kind of operands, with the largest error of each machine",
          "[reports][paper]") {
    Log log;
    for (const char* distribution : {"normal", "positive"}) {
        for (const std::int64_t k : {16, 64, 256}) {
            for (const std::int64_t seed : {0, 1}) {
                GemmRow row{.machine = "fp32.chain", .format_a = "bf16", .format_b = "bf16", .output = "fp32"};
                row.distribution = distribution, row.seed = seed, row.m = row.n = 4, row.k = k;
                row.max_error = 1e-7 * double(k) * (1 + double(seed)), row.bound = 1e-5 * double(k);
                log.gemm.push_back(row);
            }
        }
    }
    const std::vector<PaperFigure> figures = paper_figures(log, summarise(log));
    REQUIRE(figures.size() == 2);
    CHECK(figures[0].name == "gemm-1");
    CHECK(figures[0].caption.find("bf16") != std::string::npos);
    CHECK(figures[0].svg.find("fp32.chain: 256, 5.12e-05") != std::string::npos);  // seed 1 has the larger error
    CHECK(figures[0].svg.find("class=\"line dashed\"") != std::string::npos);
    CHECK(figures[0].svg.find("class=\"line dotted\"") == std::string::npos);  // no probable bound is known
}

}  // namespace paper_test
