// SPDX-License-Identifier: Apache-2.0
// Tests the line about value ranges in a verdict. It says how close forward values came to the limits of their formats,
// and whether they overflowed.
#include "reports/findings/value_range.hpp"

#include "core/format_table.hpp"
#include "reports/findings/conclusion.hpp"
#include "reports/findings/divergence.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "tests/json.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace value_range_test {

using namespace macheps;
using namespace macheps::reports;

namespace {

struct Site {
    std::string site, format;
    float amax;
    std::uint64_t overflow = 0;
    float scale = 1;
};

/// Returns runs of fp32 and of the policy `low` with the same losses. The runs of `low` sample the sites in every 25th
/// step.
Log log_of(const std::vector<Site>& sites, std::int64_t steps = 300, const std::string& weight = "1") {
    Log log;
    log.folders.push_back(
        {.path = "run", .manifest = R"({"seeds": [0, 1], "train": {"token_weight": )" + weight + "}}"});
    for (std::int64_t seed = 0; seed < 2; ++seed) {
        for (const std::string policy : {"fp32", "low"}) {
            RunLog run;
            run.row = {.run = fmt::format("{}/{}", policy, seed), .policy = policy, .seed = seed, .steps = steps};
            run.policy = policy;
            for (std::int64_t t = 0; t < steps; ++t)
                run.steps.push_back(
                    {.run = run.row.run, .policy = policy, .seed = seed, .step = t, .loss = t == 0 ? 4.0 : 3.0});
            for (std::int64_t t = 0; t < steps && policy == "low"; t += 25) {
                for (const Site& site : sites) {
                    run.sites.push_back({.run = run.row.run,
                                         .policy = policy,
                                         .seed = seed,
                                         .step = t,
                                         .site = site.site,
                                         .format = site.format,
                                         .scale_inv_min = site.scale,
                                         .scale_inv_max = site.scale,
                                         .count = 100,
                                         .overflow = site.overflow,
                                         .amax = site.amax});
                }
            }
            log.runs.push_back(std::move(run));
            log.runs.back().baseline = log.runs.size() - (policy == "low" ? 2 : 1);
        }
    }
    return log;
}

std::string line(const Log& log) { return range_line(summarise(log).policies.at(1)); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a verdict gives the largest forward value, and says that it cannot rule out an overflow",
          "[reports][range]") {
    const std::string words = line(log_of({{"block.0.mlp.down:forward.a", "fp16", 31},
                                           {"block.0.norm1:forward.out", "fp32", 1e6f},
                                           {"block.0.mlp.down:input_grad.a", "fp16", 9000}}));
    CHECK(words ==
          "range: largest forward value 31 of 65504 (fp16); this cannot rule out an overflow in a pretrained model (12 "
          "of 300 steps sampled)");
    const Summary summary = summarise(log_of({{"embed:forward.out", "fp16", 31}}));
    CHECK(has(
        summary_table(summary),
        "\n"
        "    range: largest forward value 31 of 65504 (fp16); this cannot rule out an overflow in a pretrained model"));
    const auto json = nlohmann::json::parse(summary_json(summary));
    CHECK(json["policies"][1]["range"] == range_line(summary.policies[1]));
    CHECK(json["policies"][0]["range"] == "");  // fp32 itself has no verdict
    CHECK(json["policies"][1]["forward_ranges"] == "fp16:31/65504");
    CHECK(json["policies"][1]["sampled_steps"] == 12);
}

TEST_CASE("a verdict warns if outliers of a pretrained model would exceed the range of the format",
          "[reports][range]") {
    // The largest value is 653 times the rms in SmolLM2-135M, and 8.9 times the rms with random weights. The ratio is
    // 73.37, and 65504 / 73.37 = 892.8.
    CHECK(has(line(log_of({{"embed:forward.out", "fp16", 892}})),
              "; this cannot rule out an overflow in a pretrained model"));
    const std::string close = line(log_of({{"embed:forward.out", "fp16", 893}}));
    CHECK(has(close,
              "largest forward value 893 of 65504 (fp16); outliers as large as in a pretrained model, up to 73 times "
              "these values, "
              "would overflow"));
    CHECK_FALSE(has(close, "cannot rule out"));
    CHECK(has(line(log_of({{"embed:forward.out", "e4m3fn", 6}})),
              "largest forward value 6.0 of 448 (e4m3fn); this cannot rule out"));
    CHECK(has(line(log_of({{"embed:forward.out", "e4m3fn", 7}})), "7.0 of 448 (e4m3fn); outliers"));
}

TEST_CASE("an overflow is reported with its format, site and step, even if the step was not sampled",
          "[reports][range]") {
    const std::string overflowed =
        line(log_of({{"embed:forward.out", "fp16", 2}, {"block.0.mlp.act:forward.out", "fp16", 7e4f, 3}}));
    CHECK(overflowed ==
          "range: forward values overflowed fp16 (largest 65504), first in block.0.mlp.act:forward.out at step 0");

    Log between = log_of({{"block.0.mlp.act:forward.out", "fp16", 31}});
    RunLog& run = between.runs[1];
    run.steps[7].overflow = 2, run.steps[7].overflow_site = "block.0.mlp.act:forward.out";
    CHECK(line(between) ==
          "range: forward values overflowed fp16 (largest 65504), first in block.0.mlp.act:forward.out at step 7");
    // Gradients that overflow are not reported, because the loss scaler handles them. Values that are NaN because the
    // weights are NaN do not count as an overflow of the forward site.
    run.steps[7].overflow_site = "block.0.mlp.act:grad.out";
    CHECK(has(line(between), "cannot rule out"));
    run.steps[7].overflow_site = "block.0.mlp.act:forward.out", run.steps[7].overflow = 0;
    CHECK(has(line(between), "cannot rule out"));
    run.steps[6].loss = NAN, run.steps[7].overflow = 2;
    CHECK(has(line(between), "cannot rule out"));
}

TEST_CASE(
    "formats with as many exponent bits as fp32 have the range of fp32, and scaled values fit the range of their "
    "format",
    "[reports][range]") {
    CHECK(line(log_of({{"embed:forward.out", "bf16", 31}, {"lm_head:forward.a", "tf32", 31}})) ==
          "range: the same as fp32 (bf16, tf32)");
    CHECK(line(log_of({{"embed:forward.out", "fp32", 31}})) == "range: the same as fp32");
    CHECK(line(log_of({{"lm_head:forward.a", "e4m3fn", 31, 1, 0.0625f}})) ==
          "range: casts to e4m3fn are scaled to fit its range");
    const std::string both =
        line(log_of({{"lm_head:forward.a", "e4m3fn", 31, 0, 0.0625f}, {"embed:forward.out", "fp16", 31}}));
    CHECK(has(both,
              "largest forward value 31 of 65504 (fp16); this cannot rule out an overflow in a pretrained model; "
              "casts to e4m3fn are scaled to fit its range"));
    // If a format has scaled and unscaled values, only the unscaled values can overflow. The order of the samples does
    // not matter.
    const Site fitted{"lm_head:forward.a", "e4m3fn", 31, 0, 0.0625f}, bare{"embed:forward.out", "e4m3fn", 6};
    for (const std::vector<Site>& sites : {std::vector{fitted, bare}, {bare, fitted}})
        CHECK(has(line(log_of(sites)),
                  "largest forward value 6.0 of 448 (e4m3fn); this cannot rule out an overflow in a pretrained model"));
    CHECK(line(log_of({})) == "range: not measured, because no site was sampled (--probe-every)");
    // Every format of the table is narrow, except those with at least as many exponent bits as fp32.
    const std::set<std::string> wide{"fp32", "tf32", "bf16", "fp64"};
    for (const NamedFormat& row : all_formats) {
        const FormatRange range{.largest = largest_of(row.name).value_or(0)};
        if (!(range.largest > 0) || std::string_view(row.name) == "e8m0fnu") continue;
        CAPTURE(row.name, range.largest);
        CHECK(range.is_narrow() != wide.contains(std::string(row.name)));
    }
}

TEST_CASE("ranges are written to one cell of summary.csv and read back", "[reports][range]") {
    const std::vector<FormatRange> ranges{{.format = "fp16", .amax = 5.25, .largest = 65504},
                                          {.format = "e4m3fn", .largest = 448, .is_scaled = true}};
    CHECK(ranges_text(ranges) == "fp16:5.25/65504;e4m3fn:scaled");
    CHECK(read_ranges(ranges_text(ranges)) == ranges);
    for (const char* bad : {"", ";", "fp16", "fp16:", "fp16:x/1", ":/", "fp16:1/"}) CHECK(read_ranges(bad).empty());
}

TEST_CASE("the sentence of a verdict gives the token weight, if the runs have one", "[reports][range]") {
    CHECK(has(verdict_sentence(summarise(log_of({}, 300, "0.000244140625")).policies[1]),
              "(300 steps, 2 seeds, token weight 2^-12"));
    CHECK_FALSE(has(verdict_sentence(summarise(log_of({})).policies[1]), "token weight"));
}

TEST_CASE("a page calls a policy safe only for the given runs, and never if its stressed runs failed",
          "[reports][range]") {
    Log log = log_of({{"block.0.mlp.act:forward.out", "fp16", 31}});
    const auto first = [](const Log& runs) { return conclude(runs, summarise(runs), {}).answers.at(0).sentence; };
    const std::string plain = first(log);
    CAPTURE(plain);
    CHECK(plain.starts_with("Safe in these runs: low (no difference from fp32 that matters; 300 steps, 2 seeds"));
    CHECK(has(plain,
              "Range of low: largest forward value 31 of 65504 (fp16); this cannot rule out an overflow in a "
              "pretrained model"));

    const auto add = [&log](const std::string& name, double loss, const std::vector<Site>& sites) {
        Log stressed = log_of(sites);
        for (const std::size_t i : {1u, 3u}) {
            RunLog run = stressed.runs[i];
            run.row.policy = run.policy = name;
            run.row.stress = "outliers=2^11";
            for (StepRow& step : run.steps) step.loss = step.step == 0 ? 4.0 : loss;
            run.baseline = i - 1;
            log.runs.push_back(std::move(run));
        }
    };
    add("fp32+outliers", 3.0, {});
    add("low+outliers", NAN, {{"block.0.mlp.act:forward.out", "fp16", 7e4f, 3}});
    const Summary summary = summarise(log);
    const std::string words = conclude(log, summary, {}).answers.at(0).sentence;
    CAPTURE(words);
    CHECK_FALSE(has(words, "Safe in these runs"));
    CHECK(has(words,
              "low shows no difference from fp32 without stress, but it is not safe: with outliers=2^11 it diverged; "
              "forward values overflowed fp16 (largest 65504), first in block.0.mlp.act:forward.out at step 0"));
    CHECK(has(words, "fp32+outliers passed the stress"));
    for (const Answer& answer : conclude(log, summary, {}).answers)
        CHECK_FALSE(has(answer.sentence, "without a difference: low"));
    CHECK(has(verdict_sentence(summary.policies.back()), "stressed with outliers=2^11"));
    const Conclusion page = conclude(log, summary, {});
    CHECK(page.title == "low against fp32");
    CHECK(has(page.lead, "were stressed with outliers=2^11"));
}

TEST_CASE("a short run whose last losses are all NaN has diverged", "[reports][range]") {
    Log log = log_of({}, 12);
    for (StepRow& step : log.runs[1].steps) step.loss = NAN, step.skipped = true;
    CHECK(summarise(log).policies[1].row.verdict == "diverged");
}

}  // namespace value_range_test
