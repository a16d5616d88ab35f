// SPDX-License-Identifier: Apache-2.0
// Tests the conclusion at the top of an HTML report. It answers each question with one sentence, composed from
// verdicts, memory sizes and diagnoses.
#include "reports/findings/conclusion.hpp"

#include "reports/pages/html.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <string>
#include <tuple>
#include <vector>

namespace conclusion_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

PolicySummary policy(std::string name, std::string verdict, double relative_gap = 0) {
    PolicySummary summary;
    summary.row.policy = std::move(name);
    summary.row.verdict = std::move(verdict);
    summary.row.seeds = 3;
    summary.row.steps = 300;
    summary.row.loss = 2;
    if (summary.row.verdict == "baseline") return summary;
    summary.row.gap_mean = 2 * relative_gap;
    summary.relative_gap = relative_gap;
    return summary;
}

Log log_of(const Summary& summary) {
    Log log;
    for (const PolicySummary& each : summary.policies) {
        for (std::int64_t seed = 0; seed < 3; ++seed) {
            log.runs.push_back({.row = {.policy = each.row.policy, .seed = seed}, .policy = each.row.policy});
        }
    }
    return log;
}

std::string answer(const Summary& summary, std::string_view question, const Verdicts& verdicts = {}) {
    for (const Answer& each : conclude(log_of(summary), summary, verdicts).answers) {
        if (each.question == question) return each.sentence;
    }
    return {};
}

constexpr std::string_view safe = "Which recipe is safe?", cost = "What does it cost?", where = "Where does it hurt?";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("names are listed with commas and a final 'and'", "[reports][conclusion]") {
    CHECK(listed({}).empty());
    CHECK(listed({"a"}) == "a");
    CHECK(listed({"a", "b"}) == "a and b");
    CHECK(listed({"a", "b", "c"}) == "a, b and c");
    CHECK(listed({"a", "b", "c", "d"}, 3) == "a, b and 2 more");
    CHECK(listed({"a", "b", "c"}, 3) == "a, b and c");
}

TEST_CASE("the title of a report names the policies that were compared", "[reports][conclusion]") {
    Summary summary;
    CHECK(conclude({}, summary, {}).title.empty());
    summary.policies = {policy("fp32", "baseline")};
    CHECK(conclude(log_of(summary), summary, {}).title == "fp32 only, with nothing to compare");
    summary.policies.push_back(policy("tf32", "no difference found"));
    CHECK(conclude(log_of(summary), summary, {}).title == "tf32 against fp32");
    for (const char* name : {"a", "b", "c", "d"}) summary.policies.push_back(policy(name, "worse", 0.01));
    CHECK(conclude(log_of(summary), summary, {}).title == "tf32, a, b and 2 more against fp32");
    CHECK(has(conclude(log_of(summary), summary, {}).lead, "18 runs of 6 policies, 3 seeds"));
    summary.policies.erase(summary.policies.begin());
    CHECK(has(conclude(log_of(summary), summary, {}).title, ", without an fp32 run"));
}

TEST_CASE("the conclusion's answer about safe policies mentions the verdict of each policy", "[reports][conclusion]") {
    Summary summary;
    summary.policies = {policy("fp32", "baseline"),   policy("same", "no difference found", 1e-5),
                        policy("bad", "worse", 0.01), policy("worst", "worse", 0.2),
                        policy("broken", "diverged"), policy("open", "undecided", 1e-3)};
    summary.policies[1].row.detectable_gap = 0.0013;
    const std::string all = answer(summary, safe);
    CAPTURE(all);
    CHECK(
        all.starts_with("Safe in these runs: same (no difference from fp32 that matters; 300 steps, 3 seeds; smallest "
                        "detectable gap 0.0013 nats per token). "));
    CHECK(has(all, "worst is worse by 20 % of fp32's loss, bad by 1.0 %"));
    CHECK(has(all, "broken diverged"));
    summary.policies[4].row.failures = "ended_above_start:3";
    CHECK(has(answer(summary, safe), "broken (the loss ended above that of the first step) diverged"));
    CHECK(has(all, "open is undecided: run more seeds"));

    summary.policies = {policy("fp32", "baseline"), policy("bad", "worse", 0.01)};
    CHECK(answer(summary, safe).starts_with("Only fp32, the baseline, is safe in these runs. bad is worse by 1.0 %"));
    summary.policies[0].row.loss = std::nan("");
    CHECK(answer(summary, safe).starts_with("None, as far as these runs show. bad is worse by 1.0 %"));
    summary.policies = {policy("bad", "diverged")};  // no run in fp32
    CHECK(answer(summary, safe).starts_with("None, as far as these runs show. bad diverged"));

    summary.policies = {policy("fp32", "baseline"), policy("single", "one seed", 0.01)};
    for (PolicySummary& each : summary.policies) each.row.seeds = 1, each.row.steps = 30;
    const std::string weak = answer(summary, safe);
    CAPTURE(weak);
    CHECK(has(weak, "single was run with one seed, which cannot distinguish a gap from chance"));
    CHECK(has(weak, "30 steps"));  // the basis of the verdict
    CHECK_FALSE(has(weak, "Safe"));
}

TEST_CASE("costs are in bytes, equal costs are grouped, and the safe policy with the fewest bytes is named",
          "[reports][conclusion]") {
    Summary summary;
    summary.policies = {policy("fp32", "baseline"), policy("amp", "no difference found"),
                        policy("fp8", "no difference found"), policy("pure", "worse", 0.01)};
    CHECK(answer(summary, cost).empty());
    const double kept[] = {16, 16, 16, 8}, activations[] = {40, 30, 30, 20}, ratio[] = {1, 0.82, 0.82, 0.5};
    for (std::size_t i = 0; i < 4; ++i) {
        SummaryRow& row = summary.policies[i].row;
        row.static_bytes = kept[i], row.activation_bytes = activations[i], row.memory_ratio = ratio[i];
    }
    CHECK(answer(summary, cost) ==
          "Bytes per parameter (kept from step to step + activations): 8.0 + 20 with pure; 16 + 30 with amp and fp8; "
          "16 + 40 with fp32. The smallest policy without a difference from fp32: amp, with 82 % of fp32's bytes.");
    // The policy with the fewest bytes is named, regardless of the order of the policies.
    for (const auto& [amp, fp8, words] :
         {std::tuple{0.6, 0.7, "amp, with 60 %"}, std::tuple{0.7, 0.6, "fp8, with 60 %"}}) {
        summary.policies[1].row.memory_ratio = amp, summary.policies[2].row.memory_ratio = fp8;
        CHECK(answer(summary, cost)
                  .ends_with("The smallest policy without a difference from fp32: " + std::string(words) +
                             " of fp32's bytes."));
    }
}

TEST_CASE("causes are given only for policies that are worse than fp32, and the worst policy comes first",
          "[reports][conclusion]") {
    Summary summary;
    summary.policies = {policy("fp32", "baseline"), policy("same", "no difference found"), policy("bad", "worse", 0.01),
                        policy("worst", "worse", 0.2)};
    Verdicts verdicts{.policies = {"fp32", "same", "bad", "worst"}, .findings = {}, .unseen = {}};
    CHECK(answer(summary, where, verdicts) == "Nowhere that affects the loss.");
    const auto named = [](std::string_view id) {
        for (const Diagnosis& each : diagnoses()) {
            if (each.id == id) return &each;
        }
        FAIL("no diagnosis " << id);
        return &diagnoses().front();
    };
    const auto finding = [&](std::string_view id, const char* name, Sighting seen) {
        verdicts.findings.push_back(
            {.diagnosis = named(id), .policy = name, .seeds = 3, .of_seeds = 3, .seen = std::move(seen)});
    };
    finding("no-master", "same", {.figures = {{"bytes", 2}}});
    CHECK(answer(summary, where, verdicts) == "Nowhere that affects the loss, although there is a finding below.");
    finding("stagnation", "bad", {.step = 4, .figures = {{"percent", 90.0}, {"lost", 12.0}}});
    finding("gradient-underflow", "worst",
            {.step = 75, .site = "loss:grad.out", .figures = {{"percent", 98.0}, {"first", 0.0}}});
    const std::string all = answer(summary, where, verdicts);
    CAPTURE(all);
    CHECK(all.starts_with("worst: a gradient first lost more than 1 % of its elements"));
    CHECK(all.find("98 % of the elements of a gradient became zero (loss:grad.out, step 75)") != std::string::npos);
    CHECK(has(all, "(loss:grad.out, step 75). bad: the weights moved 90 %"));
    CHECK_FALSE(has(all, "same:"));
    CHECK(has(all, "1 more finding below."));
}

TEST_CASE("an HTML report begins with its conclusion, and names in the conclusion are escaped",
          "[reports][conclusion]") {
    const TemporaryFolder folder;
    test::write_sample_run(folder / "run", {.steps = 60, .seeds = 2, .layers = 1});
    const std::vector<std::filesystem::path> folders{folder / "run"};
    const Log log = read_runs(folders);
    const std::string page = page_html(log, summarise(log));
    const std::size_t heading = page.find("<h1>"), conclusion = page.find("<section id=\"conclusion\""),
                      table = page.find("<section id=\"summary\""), chart = page.find("<canvas id=\"forest\"");
    REQUIRE(conclusion != std::string::npos);
    CHECK(heading < conclusion);
    CHECK(conclusion < chart);
    CHECK(conclusion < table);
    CHECK(page.substr(heading, page.find("</h1>") - heading) ==
          "<h1>amp-bf16, amp-fp16, pure-bf16 and 4 more against fp32");
    CHECK(page.find("e5m2 <b>") == std::string::npos);
}

}  // namespace conclusion_test
