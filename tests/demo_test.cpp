// SPDX-License-Identifier: Apache-2.0
// Compares README.md with the rows of the demo. A whole demo takes a minute, so the rows that README.md quotes are kept
// in tests/golden/demo. The slow test makes the rows again and requires the same figures.
#include "core/host/publish.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/logs/manifest_facts.hpp"
#include "reports/rows/csv.hpp"
#include "tests/json.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace demo_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::reports;

namespace {

const fs::path golden = fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/demo";

/// Figures of a policy that are not in its summary row. Shares are fractions of all weights, averaged over seeds.
struct FigureRow {
    std::string policy{};
    std::int64_t window = 0, longest_window = 0;
    double lost_per_step = 0;
    double lost_share = 0;       ///< share of all updates of the run that changed nothing
    double lost_share_last = 0;  ///< share of the updates of the last step that changed nothing
    std::string model{};         ///< the model's name in sentences of a report
    std::optional<double> gradient_underflow{};

    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("policy", &FigureRow::policy), column("window", &FigureRow::window),
                   column("longest_window", &FigureRow::longest_window),
                   column("lost_per_step", &FigureRow::lost_per_step), column("lost_share", &FigureRow::lost_share),
                   column("lost_share_last", &FigureRow::lost_share_last), column("model", &FigureRow::model),
                   column("gradient_underflow", &FigureRow::gradient_underflow));
    }
};

std::vector<FigureRow> figures_of(const Log& log, const Summary& summary) {
    const auto manifest = nlohmann::json::parse(log.folders.at(0).manifest);
    const auto parameters = manifest.at("model").at("parameters").get<double>();
    std::vector<FigureRow> figures;
    for (const PolicySummary& policy : summary.policies) {
        FigureRow row{.policy = policy.row.policy,
                      .window = policy.window,
                      .longest_window = policy.longest_window,
                      .lost_per_step = policy.lost_updates_per_step,
                      .model = policy.model,
                      .gradient_underflow = policy.gradient_underflow_rate};
        row.lost_share = row.lost_per_step / parameters;
        for (const RunLog& run : log.runs) {
            if (run.policy != row.policy) continue;
            row.lost_share_last +=
                static_cast<double>(run.steps.back().lost_updates) / parameters / static_cast<double>(policy.row.seeds);
        }
        figures.push_back(row);
    }
    return figures;
}

template <class Row>
std::string csv_text(const std::vector<Row>& rows) {
    std::string text = csv::header<Row>() + '\n';
    for (const Row& row : rows) csv::append_line(text, row);
    return text;
}

Summary read_golden() {
    Summary summary;
    summary.setup = setup_words(std::vector{ManifestFacts{.seeds = {0, 1, 2}, .token_weight = 0x1p-12}});
    const std::vector<FigureRow> figures = CsvReader<FigureRow>(golden / "figures.csv").rows();
    for (SummaryRow& row : CsvReader<SummaryRow>(golden / "summary.csv").rows()) {
        const FigureRow& figure = figures.at(summary.policies.size());
        REQUIRE(figure.policy == row.policy);
        PolicySummary policy;
        policy.row = std::move(row);
        policy.window = figure.window;
        policy.longest_window = figure.longest_window;
        policy.lost_updates_per_step = figure.lost_per_step;
        policy.model = figure.model;
        policy.gradient_underflow_rate = figure.gradient_underflow;
        policy.token_weight = 0x1p-12;
        if (policy.row.margin) {
            policy.relative_gap = *policy.row.gap_mean / (*policy.row.margin / DivergenceRules::equivalence_margin);
        }
        summary.policies.push_back(std::move(policy));
    }
    return summary;
}

/// Returns the cells of each line of the table. Two spaces separate cells.
std::vector<std::vector<std::string>> cells_of(const std::string& table) {
    std::vector<std::vector<std::string>> lines;
    std::istringstream in(table);
    for (std::string line; std::getline(in, line);) {
        std::vector<std::string> cells;
        for (std::size_t at = 0; at < line.size();) {
            const std::size_t begin = line.find_first_not_of(' ', at);
            if (begin == std::string::npos) break;
            const std::size_t end = std::min(line.find("  ", begin), line.size());
            cells.push_back(line.substr(begin, end - begin));
            at = end;
        }
        lines.push_back(cells);
    }
    return lines;
}

/// Returns README.md with single spaces instead of line ends and indentation, so that sentences can be found.
std::string readme_prose() { return replaced(contents(fs::path(MACHEPS_SOURCE_DIR) / "README.md"), "\\s+", " "); }

const PolicySummary& policy_in(const Summary& summary, const std::string& name) {
    const auto found = std::find_if(summary.policies.begin(), summary.policies.end(),
                                    [&](const PolicySummary& policy) { return policy.row.policy == name; });
    REQUIRE(found != summary.policies.end());
    return *found;
}

}  // namespace

TEST_CASE("the table in README.md is the summary table of the demo's rows", "[demo]") {
    const std::string readme = contents(fs::path(MACHEPS_SOURCE_DIR) / "README.md");
    const std::size_t begin = readme.find("```\npolicy ");
    REQUIRE(begin != std::string::npos);
    const std::string table = readme.substr(begin + 4, readme.find("```", begin + 4) - begin - 4);
    const auto written = cells_of(table), measured = cells_of(summary_table(read_golden()));
    REQUIRE(written.size() == measured.size());
    for (std::size_t i = 0; i < written.size(); ++i) CHECK(written[i] == measured[i]);
}

TEST_CASE("every number and claim about the demo in README.md agrees with the demo's rows", "[demo]") {
    const std::string readme = readme_prose();
    const Summary demo = read_golden();
    const std::vector<FigureRow> figures = CsvReader<FigureRow>(golden / "figures.csv").rows();
    const auto figure = [&](const std::string& policy) {
        return *std::find_if(figures.begin(), figures.end(), [&](const auto& row) { return row.policy == policy; });
    };
    const auto says = [&](const std::string& sentence) {
        CAPTURE(sentence);
        CHECK(readme.find(sentence) != std::string::npos);
    };
    constexpr std::array numbers{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
    says(fmt::format("under {} precision policies and, for comparison, in fp32", numbers.at(demo.policies.size() - 1)));
    says(fmt::format("It repeats the training with {} seeds.",
                     numbers.at(static_cast<std::size_t>(demo.policies[0].row.seeds))));

    const double cosine = policy_in(demo, "fp16-noscale").row.grad_cosine.value();
    says(
        fmt::format("In fp16 without loss scaling, most of the gradient with respect to the logits underflows to zero. "
                    "For each token, only the gradient of the target's logit survives. The remaining gradient points "
                    "in a different direction (its cosine similarity to the fp32 gradient is {:.2f} on average), so "
                    "training stalls. With loss scaling, training does not stall.",
                    cosine));
    CHECK(policy_in(demo, "amp-fp16").row.grad_cosine.value() > 0.999);
    const SummaryRow unscaled = policy_in(demo, "fp16-noscale").row, scaled = policy_in(demo, "amp-fp16").row;
    CHECK(unscaled.underflow_rate.value() > 100 * scaled.underflow_rate.value());
    CHECK(unscaled.verdict == "worse");
    CHECK(unscaled.loss > 0.95 * std::log(64));  // log of the vocabulary size is the loss of an untrained model
    CHECK(scaled.verdict == "no difference found");

    // The slow test of tests/program/examples_test.cpp runs this command and requires the demo's rows.
    says(
        "`macheps train --policy amp-fp16,fp16-noscale` trains only fp16 with and without loss scaling. The rows of "
        "these two policies are the same as in the demo");
    for (const PolicySummary& policy : demo.policies) {
        if (policy.row.verdict != "baseline") says("`" + policy.row.verdict + "`");
    }
    says(fmt::format("lies within {:g} % of fp32's loss", 100 * demo.margin));

    const FigureRow pure = figure("pure-bf16"), drawn = figure("pure-bf16-sr");
    says(fmt::format("{:.0f} % of all updates over the run, {:.0f} % in its last step", 100 * pure.lost_share,
                     100 * pure.lost_share_last));
    says(fmt::format("With stochastic rounding, nearly as many updates leave their weight unchanged ({:.0f} %)",
                     100 * drawn.lost_share));
    says("On average no update is lost, and the verdict is `no difference found`.");
    CHECK(drawn.lost_share > 0.8 * pure.lost_share);
    CHECK(policy_in(demo, "pure-bf16").row.verdict == "worse");
    CHECK(policy_in(demo, "pure-bf16-sr").row.verdict == "no difference found");

    says("At this model size, fp8 with one scale per tensor is as good as bf16.");
    CHECK(policy_in(demo, "fp8-tensorwise").row.verdict == "no difference found");
    CHECK(policy_in(demo, "amp-bf16").row.verdict == "no difference found");

    const std::vector<SummaryRow> plain = CsvReader<SummaryRow>(golden / "unweighted.csv").rows();
    REQUIRE(plain.at(1).policy == "fp16-noscale");
    says(
        fmt::format("if the loss is not weighted, {:.2f} % of the cast values underflow under the policy "
                    "`fp16-noscale` (fp16 without loss scaling), and the verdict is `no difference found`",
                    100 * plain[1].underflow_rate.value()));
    CHECK(plain[1].verdict == "no difference found");
}

TEST_CASE("the demo reproduces the recorded rows with which the figures in README.md are compared", "[demo][slow]") {
    const auto same = [](const std::string& name, const std::string& text) {
        CAPTURE(name);
        const fs::path file = golden / name;
        const bool is_same = fs::exists(file) && contents(file) == text;
        CHECK(is_same);
        if (is_same) return;
        fs::path beside = file;
        publish(beside.replace_extension(".new.csv"), text);  // to be inspected and accepted by hand
    };
    const auto log_of = [](const std::string& arguments) {
        const Outcome outcome = run("train " + arguments + " --force --out demo");
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        const fs::path folder = scratch() / "demo";
        return read_runs(std::span(&folder, 1));
    };
    {
        const Log log = log_of("");
        const Summary summary = summarise(log);
        same("summary.csv", summary_csv(summary));
        same("figures.csv", csv_text(figures_of(log, summary)));
    }
    same("unweighted.csv", summary_csv(summarise(log_of("--policy fp32,fp16-noscale --seeds 0,1,2 --token-weight 1"))));
    fs::remove_all(scratch());
}

}  // namespace demo_test
