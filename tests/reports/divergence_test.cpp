// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/divergence.hpp"

#include "core/error.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/rows/csv.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace divergence_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// Returns a run whose loss at step t = 1, 2, ... is loss(t).
RunLog made(const std::string& policy, std::int64_t seed, std::int64_t steps,
            const std::function<float(std::int64_t)>& loss) {
    RunLog run;
    run.row = {.run = policy + "." + std::to_string(seed), .policy = policy, .seed = seed, .steps = steps};
    run.row.seconds = 2, run.row.bytes_params = 100, run.row.bytes_activations = 300;
    run.policy = policy;
    for (std::int64_t t = 1; t <= steps; ++t) {
        run.steps.push_back({.run = run.row.run, .policy = policy, .seed = seed, .step = t, .loss = loss(t)});
    }
    return run;
}

/// Returns runs of policy fp32 at a constant loss of 2, and of policy `low` at a constant loss of 2 + gaps[seed].
Log pairs(const std::vector<float>& gaps, std::int64_t steps = 100) {
    Log log;
    for (std::size_t seed = 0; seed < gaps.size(); ++seed) {
        log.runs.push_back(made("fp32", std::int64_t(seed), steps, [](std::int64_t) { return 2.0f; }));
        log.runs.back().baseline = log.runs.size() - 1;
        log.runs.push_back(made("low", std::int64_t(seed), steps, [&](std::int64_t) { return 2.0f + gaps[seed]; }));
        log.runs.back().baseline = log.runs.size() - 2;
    }
    return log;
}

PolicySummary of(const Log& log, const std::string& name = "low") {
    for (const PolicySummary& policy : summarise(log).policies) {
        if (policy.row.policy == name) return policy;
    }
    FAIL("no policy " << name);
    return {};
}

}  // namespace

TEST_CASE("quantiles of Student's t agree with the published table", "[reports][divergence]") {
    struct Case {
        std::int64_t df;
        double p95, p975;
    };
    // From Abramowitz and Stegun, table 26.10, which has three decimals.
    const Case cases[] = {{1, 6.314, 12.706}, {2, 2.920, 4.303},  {3, 2.353, 3.182},  {4, 2.132, 2.776},
                          {5, 2.015, 2.571},  {9, 1.833, 2.262},  {10, 1.812, 2.228}, {15, 1.753, 2.131},
                          {20, 1.725, 2.086}, {29, 1.699, 2.045}, {30, 1.697, 2.042}, {40, 1.684, 2.021},
                          {60, 1.671, 2.000}, {120, 1.658, 1.980}};
    for (const Case& c : cases) {
        CAPTURE(c.df);
        // The bound is half a unit in the last digit of the table.
        CHECK(std::abs(t_quantile_95(c.df) - c.p95) <= 0.0005);
        CHECK(std::abs(t_quantile_975(c.df) - c.p975) <= 0.0005);
    }
    for (std::int64_t df = 1; df < 200; ++df) {
        CAPTURE(df);
        CHECK(t_quantile_975(df) > t_quantile_975(df + 1));
        CHECK(t_quantile_95(df) > t_quantile_95(df + 1));
    }
}

TEST_CASE("the confidence interval of a paired mean agrees with a calculation by hand", "[reports][divergence]") {
    // The mean of 1, 2, 3, 4 is 2.5 and the standard deviation sd is sqrt(5/3). The standard error is sd/2 = 0.6454972.
    // Its product with t(0.975, 3) = 3.182446 is 2.054260.
    const PairedMean four = paired_mean(std::vector<double>{1, 2, 3, 4});
    CHECK(four.mean == 2.5);
    CHECK(four.half_width_95.value() == Approx(2.0542602).epsilon(1e-6));
    CHECK(four.half_width_90.value() == Approx(1.5190893).epsilon(1e-6));
    const PairedMean one = paired_mean(std::vector<double>{0.25});
    CHECK(one.mean == 0.25);
    CHECK_FALSE(one.half_width_95.has_value());
    CHECK(paired_mean(std::vector<double>{0.5, 0.5}).half_width_95.value() == 0);
}

TEST_CASE("the verdict follows from the confidence interval of the gap and the margin", "[reports][divergence]") {
    struct Case {
        std::vector<float> gaps;
        const char *verdict, *why;
    };
    // The margin is 0.25 % of the fp32 loss of 2, which is 0.005.
    const Case cases[] = {
        {{0.001f}, "one seed", "one seed has no interval, however small its gap"},
        {{0, 0, 0}, "no difference found", "no difference at all"},
        {{0.001f, 0.0012f, 0.0011f, 0.0009f},
         "within the margin",
         "the interval is above zero and within the margin: too small to matter"},
        {{0.03f, 0.031f, 0.029f, 0.03f}, "worse", "the interval is above zero and beyond the margin"},
        {{-0.03f, -0.031f, -0.029f, -0.03f}, "undecided", "no verdict means better than fp32"},
        {{0.02f, -0.02f, 0.03f}, "undecided", "an interval wider than the margin on both sides of zero"},
        {{0.004f, 0.0062f}, "undecided", "two seeds: t is 12.7, and the interval contains zero"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.why);
        const PolicySummary low = of(pairs(c.gaps));
        CHECK(low.row.verdict == c.verdict);
        CHECK(low.row.seeds == std::int64_t(c.gaps.size()));
        CHECK(low.row.gap_ci_low.has_value() == (c.gaps.size() > 1));
        double mean = 0;
        for (const float gap : c.gaps) mean += double{2.0f + gap} - 2.0;
        CHECK(low.row.gap_mean.value() == Approx(mean / double(c.gaps.size())));
        CHECK(of(pairs(c.gaps), "fp32").row.verdict == "baseline");
        CHECK_FALSE(of(pairs(c.gaps), "fp32").row.gap_mean.has_value());
    }
}

TEST_CASE("losses are averaged over the last quarter of the steps, but at least 1 and at most 50 steps",
          "[reports][divergence]") {
    struct Case {
        std::int64_t steps, window;
    };
    for (const Case c : {Case{1, 1}, Case{3, 1}, Case{8, 2}, Case{100, 25}, Case{200, 50}, Case{1000, 50}}) {
        CAPTURE(c.steps);
        Log log = pairs({0}, c.steps);
        // The gap is -1 in the steps that are averaged, and 0 before.
        for (StepRow& step : log.runs[1].steps) step.loss = step.step > c.steps - c.window ? 1.0f : 2.0f;
        CHECK(of(log).window == c.window);
        CHECK(of(log).row.gap_mean.value() == -1);
        log.runs[1].steps[std::size_t(c.steps - c.window)].loss = 2.0f;
        CHECK(of(log).row.gap_mean.value() == -1 + 1.0 / double(c.window));
    }
}

TEST_CASE("divergence begins with the first of ten consecutive steps whose smoothed gap exceeds 0.1 % of fp32's loss",
          "[reports][divergence]") {
    const auto step_of = [](const std::function<double(std::int64_t)>& gap, std::int64_t steps = 60) {
        DivergenceWatch watch;
        for (std::int64_t t = 1; t <= steps; ++t) watch.add(t, 2 + gap(t), 2, false);
        return watch.step();
    };
    CHECK_FALSE(step_of([](std::int64_t) { return 0.0019; }).has_value());
    CHECK(step_of([](std::int64_t) { return 0.0021; }).value() == 1);
    CHECK(step_of([](std::int64_t) { return -0.0021; }).value() == 1);
    // The gap is 0.004 from step 20 on. The moving average is 0.004 (1 - 0.9^k) after k such steps. It exceeds the
    // threshold of 0.002 at k = 7, which is step 26.
    CHECK(step_of([](std::int64_t t) { return t >= 20 ? 0.004 : 0.0; }).value() == 26);
    // Nine consecutive steps above the threshold (here steps 26 to 34) are not enough for a divergence. The negative
    // gap of step 35 brings the moving average back below the threshold at once.
    CHECK_FALSE(
        step_of([](std::int64_t t) { return t >= 20 && t <= 34 ? 0.004
                                            : t > 34           ? -0.0001 - 0.04 * (t == 35)
                                                               : 0.0; },
                35)
            .has_value());
    CHECK(step_of([](std::int64_t t) { return t >= 20 ? 0.004 : 0.0; }, 35).value() == 26);
    CHECK_FALSE(step_of([](std::int64_t t) { return t >= 20 ? 0.004 : 0.0; }, 34).has_value());
    CHECK(step_of([](std::int64_t t) { return t == 7 ? NAN : 0.0; }).value() == 7);
}

TEST_CASE("an infinite loss is a divergence, unless the step was skipped", "[reports][divergence]") {
    for (const bool is_skipped : {true, false}) {
        Log log = pairs({0.0f, 0.0f});
        log.runs[1].steps[40].loss = std::numeric_limits<float>::infinity();
        log.runs[1].steps[40].skipped = is_skipped;
        const PolicySummary low = of(log);
        CHECK(low.row.verdict == (is_skipped ? "no difference found" : "diverged"));
        CHECK(low.row.diverged_step.has_value() == !is_skipped);
        if (!is_skipped) CHECK(low.row.diverged_step.value() == 41);
        CHECK(low.row.skipped_rate == (is_skipped ? 1.0 / 200 : 0));
    }
}

TEST_CASE("a run fails if its loss becomes NaN, rises by a nat for 50 steps, or ends above its beginning",
          "[reports][divergence]") {
    const auto verdict = [](std::int64_t steps, const std::function<float(std::int64_t)>& loss) {
        Log log;
        for (std::int64_t seed = 0; seed < 2; ++seed) {
            log.runs.push_back(made("fp32", seed, steps, [](std::int64_t) { return 2.0f; }));
            log.runs.back().baseline = log.runs.size() - 1;
            log.runs.push_back(made("low", seed, steps, loss));
            log.runs.back().baseline = log.runs.size() - 2;
        }
        return of(log).row.verdict;
    };
    CHECK(verdict(100, [](std::int64_t t) { return t < 90 ? 2.0f : no_number; }) == "diverged");
    CHECK(verdict(200, [](std::int64_t t) { return t == 1 ? 9.0f : t < 100 ? 3.0f : 5.0f; }) == "diverged");
    CHECK(verdict(200, [](std::int64_t t) {
              return t == 1 ? 9.0f : t < 150 ? 3.0f : 5.0f;
          }) == "worse");  // the rise lasts for less than 50 steps
    CHECK(verdict(200, [](std::int64_t t) {
              return t == 1 ? 9.0f : t < 100 ? 3.0f : 3.9f;
          }) == "worse");  // the rise is less than a nat
    CHECK(verdict(40, [](std::int64_t t) { return t == 1 ? 2.0f : 2.1f; }) == "diverged");
    CHECK(verdict(39, [](std::int64_t t) { return t == 1 ? 2.0f : 2.1f; }) == "worse");  // too short to decide
}

TEST_CASE(
    "first_site names the site with the earliest errors; at equal steps, it names the first such site in the file",
    "[reports][divergence]") {
    struct Case {
        std::vector<SiteRow> sites;
        const char *first, *why;
    };
    const auto site = [](std::int64_t step, const char* name, std::uint64_t underflow, std::uint64_t overflow = 0,
                         float scale_inv = 1) {
        SiteRow row{.step = step, .site = name, .format = "e4m3fn"};
        row.scale_inv_min = row.scale_inv_max = scale_inv;
        row.count = 10000, row.underflow = underflow, row.overflow = overflow;
        return row;
    };
    SiteRow with_nan = site(1, "nan", 0);
    with_nan.nan_in = 1;
    SiteRow few = site(1, "few", 0, 1, 0.5f);
    few.count = 64;
    const Case cases[] = {
        {{site(1, "a", 100), site(1, "b", 0)}, "", "1 % exactly is not more than 1 %"},
        {{site(1, "a", 0), site(1, "b", 101), site(1, "c", 5000)}, "b", "the first in the file, not the worst"},
        {{site(2, "late", 500), site(1, "early", 500)}, "early", "the earlier step wins"},
        {{site(1, "a", 0, 1)}, "a", "one overflow without a scale"},
        {{site(1, "a", 0, 10, 0.5f)}, "", "0.1 % with a scale: rounding pushed the largest elements over the limit"},
        {{site(1, "a", 0, 11, 0.5f)}, "a", "more than 0.1 % with a scale"},
        {{few}, "", "a single overflow with a scale is the amax itself, however few elements there are"},
        {{site(1, "a", 0), with_nan}, "nan", "a NaN"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.why);
        Log log = pairs({0});
        log.runs[1].sites = c.sites;
        CHECK(of(log).row.first_site == c.first);
    }
}

TEST_CASE("the rates and ratios of a policy are quotients of sums over its seeds and sites", "[reports][divergence]") {
    Log log = pairs({0, 0});
    for (RunLog& run : log.runs) {
        if (run.policy == "fp32") continue;
        run.row.seconds = 5;
        run.row.bytes_params = 50, run.row.bytes_activations = 150;
        SiteRow row{.step = 1, .site = "a:input_grad.out", .format = "fp16"};
        row.count = 1000, row.zero_in = 400, row.underflow = 5;  // zeros also count as elements
        run.sites = {row, row};
        run.sites[1].site = "a:forward.out", run.sites[1].count = 3000, run.sites[1].underflow = 0;
        for (StepRow& step : run.steps) step.lost_updates = 10, step.update_eff = 0.5;
        run.steps[0].skipped = true, run.steps[0].update_eff.reset(), run.steps[0].lost_updates = 0;
    }
    const PolicySummary low = of(log);
    CHECK(low.row.underflow_rate.value() == 10.0 / 8000);
    CHECK(low.gradient_underflow_rate.value() == 10.0 / 2000);
    CHECK(summary_table(summarise(log), Colour::never).find("of gradients only: low 0.500 %.\n") != std::string::npos);
    CHECK_FALSE(low.row.slowdown.has_value());  // the speed of the emulation says nothing about the policy
    CHECK(low.row.memory_ratio.value() == 0.5);
    CHECK(low.row.skipped_rate == 0.01);
    CHECK(low.lost_updates_per_step == 10);
    CHECK(low.update_eff.value() == 0.5);
    CHECK_FALSE(of(log, "fp32").row.underflow_rate.has_value());
}

TEST_CASE("without an fp32 run, a policy has no gap, and the summary has a note", "[reports][divergence]") {
    Log log;
    log.runs.push_back(made("low", 0, 20, [](std::int64_t) { return 2.0f; }));
    CHECK(of(log).row.verdict == "no fp32 run");
    CHECK_FALSE(of(log).row.gap_mean.has_value());
    CHECK(summarise(log).notes.size() == 1);
    // The trainer can write the losses of fp32 into the rows of a policy. The gap is then computed from these losses.
    for (StepRow& step : log.runs[0].steps) step.baseline_loss = 1.75f;
    CHECK(of(log).row.verdict == "one seed");
    CHECK(of(log).row.gap_mean.value() == 0.25);
}

TEST_CASE("joining directories adds seeds, drops repeated runs, and renames a policy whose runs differ",
          "[reports][run_log]") {
    const TemporaryFolder folder;
    const auto write = [&](const std::string& name, std::int64_t seed, float loss) {
        std::filesystem::create_directories(folder / name);
        CsvWriter<RunRow> runs(folder / name / "runs.csv");
        CsvWriter<StepRow> steps(folder / name / "steps.csv");
        for (const auto& [policy, l] : {std::pair{"fp32", 2.0f}, std::pair{"low", loss}}) {
            const std::string run = std::string(policy) + "." + std::to_string(seed);
            runs.append({.run = run, .policy = policy, .seed = seed, .steps = 2});
            for (std::int64_t t = 1; t <= 2; ++t) {
                steps.append({.run = run, .policy = policy, .seed = seed, .step = t, .loss = l});
            }
        }
        return folder / name;
    };
    const auto a = write("a", 0, 2.1f), b = write("b", 1, 2.2f), again = write("again", 0, 2.1f),
               other = write("other", 0, 2.4f);
    const std::vector<std::filesystem::path> more{a, b}, repeated{a, again}, differing{a, other};
    CHECK(read_runs(more).policies() == std::vector<std::string>{"fp32", "low"});
    CHECK(of(read_runs(more)).row.seeds == 2);
    CHECK(read_runs(repeated).runs.size() == 2);
    CHECK(read_runs(differing).policies() == std::vector<std::string>{"fp32", "low", "low@other"});
    CHECK(of(read_runs(differing), "low@other").row.gap_mean.value() == Approx(0.4));
}

TEST_CASE("a run that was interrupted is shown up to its last step", "[reports][run_log]") {
    const TemporaryFolder folder;
    CsvWriter<RunRow>{folder / "runs.csv"}.flush();
    {
        CsvWriter<StepRow> steps(folder / "steps.csv");
        for (std::int64_t t = 1; t <= 5; ++t) steps.append({.run = "fp32.0", .policy = "fp32", .step = t, .loss = 2});
    }
    const std::vector<std::filesystem::path> folders{folder.path()};
    const Log log = read_runs(folders);
    REQUIRE(log.runs.size() == 1);
    CHECK(log.runs[0].row.status == "unfinished");
    CHECK(log.runs[0].row.steps == 5);
    CHECK(log.runs[0].steps.size() == 5);
}

TEST_CASE("unfinished seeds do not count in a verdict if other seeds are finished", "[reports][divergence]") {
    Log log = pairs({0.1f, 0.11f, 5.0f});
    RunLog& stopped = log.runs.back();
    stopped.row.status = "unfinished";
    stopped.steps.resize(1);
    stopped.steps[0].skipped = 1;  // no completed step: as a finished run, it would count as failed
    const PolicySummary low = of(log);
    CHECK(low.row.seeds == 2);
    CHECK(low.row.verdict == "worse");
    CHECK(low.row.gap_mean.value() == Approx(0.105));
    CHECK(low.row.steps == 100);
    CHECK(of(log, "fp32").row.seeds == 3);
    const std::vector<std::string> notes = summarise(log).notes;
    CHECK(std::find(notes.begin(), notes.end(),
                    "low: 1 unfinished seed left out; `macheps train --resume` finishes stopped runs") != notes.end());
    // Runs are not compared with an unfinished baseline.
    log.runs[2].row.status = "unfinished";
    CHECK(of(log).row.verdict == "one seed");
    // If no run is finished, the unfinished runs are shown, and none has diverged.
    for (RunLog& run : log.runs) run.row.status = "unfinished";
    CHECK(of(log).row.seeds == 3);
    CHECK(of(log).row.verdict != "diverged");
}

TEST_CASE("missing folders and files are errors that name them", "[reports][run_log]") {
    const TemporaryFolder folder;
    const auto says = [](const std::filesystem::path& path) {
        try {
            const std::vector<std::filesystem::path> folders{path};
            read_runs(folders);
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            return std::string(error.what());
        }
        return std::string("no error");
    };
    CHECK(says(folder / "nowhere").find("nowhere: the file or folder does not exist") != std::string::npos);
    CHECK(says(folder.path()).find("no runs.csv") != std::string::npos);
    CsvWriter<RunRow>{folder / "runs.csv"}.flush();
    CHECK(says(folder / "runs.csv").find("neither a folder nor a CSV file") != std::string::npos);
    CHECK(says(folder.path()) == "no error");  // a run that has only just begun
    CsvWriter<StepRow>{folder / "steps.csv"}.flush();
    CHECK(says(folder.path()) == "no error");
    std::ofstream(folder / "manifest.json") << "{\"schema\": 1";
    CHECK(says(folder.path()).find("manifest.json: the file is not a JSON object") != std::string::npos);
    for (int schema = 1; schema <= schema_version + 1; ++schema) {
        std::ofstream(folder / "manifest.json") << "{\"schema\": " << schema << "}";
        CHECK((says(folder.path()).find("newer") != std::string::npos) == (schema > schema_version));
    }
}

TEST_CASE("the table is aligned, has terminal codes only on request, and escapes terminal codes in names",
          "[reports][summary]") {
    Log log = pairs({0.03f, 0.031f, 0.029f});
    for (RunLog& run : log.runs) {
        if (run.policy == "low") run.policy = "l\x1b[31mow";
    }
    const Summary summary = summarise(log);
    CHECK(summary_table(summary) ==
          "policy       seeds    loss      gap to fp32  verdict   skipped  underflow  lost updates  bytes/param  "
          "activations  peak\n"
          "fp32             3  2.0000                -  baseline      0 %          -             0            -        "
          "    -     -\n"
          "l\\x1b[31mow      3  2.0300  +0.030 ± 0.0025  worse         0 %          -             0            -       "
          "     -     -\n"
          "loss and gap in nats per token: means of the last 25 steps, paired by seed; ± is the 95 % t interval.\n"
          "  l\\x1b[31mow: worse by 0.030 ± 0.0025 (1.5 % of fp32's loss; 100 steps, 3 seeds).\n"
          "    range: not measured, because no site was sampled (--probe-every).\n"
          "warning: 100 steps: with fewer than 200 steps, a verdict says little about a longer run.\n");
    CHECK(summary_table(summary, Colour::always).find("\x1b[33mworse\x1b[0m") != std::string::npos);
}

TEST_CASE("the footnote gives the number of averaged steps for each row", "[reports][summary]") {
    // fp32 and `full` have 300 steps each. `short` ends after 3 steps. One of the two seeds of `early` ends after 100.
    Log log;
    const auto add = [&](const char* policy, std::int64_t seed, std::int64_t steps) {
        log.runs.push_back(made(policy, seed, steps, [](std::int64_t t) { return t > 2 ? 3.0f : 2.0f; }));
        log.runs.back().baseline = std::size_t(seed);
    };
    const auto footnote = [&] {
        const std::string table = summary_table(summarise(log));
        const std::size_t at = table.find("loss and gap");
        return table.substr(at, table.find('\n', at) + 1 - at);
    };
    add("fp32", 0, 300), add("fp32", 1, 300), add("full", 0, 300), add("full", 1, 300);
    CHECK(footnote() ==
          "loss and gap in nats per token: means of the last 50 steps, paired by seed; ± is the 95 % t interval.\n");
    add("short", 0, 3), add("short", 1, 3);
    add("early", 0, 300), add("early", 1, 100);
    CHECK(footnote() ==
          "loss and gap in nats per token: means of the last 50 steps (short: 1; early: 25 to 50), paired by seed; ± "
          "is the 95 % t interval.\n");
    CHECK(of(log, "short").row.loss == 3);  // the loss of the last step, not the mean of all three

    log.runs.resize(1);
    log.runs[0].steps.resize(3);
    CHECK(footnote() == "loss and gap in nats per token: means of the last 1 step, paired by seed.\n");
}

TEST_CASE("summary.csv is read back as the rows that were written", "[reports][summary]") {
    const TemporaryFolder folder;
    const Summary summary = summarise(pairs({0.03f, 0.031f, 0.029f}));
    write_summary(summary, folder / "summary.csv");
    const std::vector<SummaryRow> rows = CsvReader<SummaryRow>(folder / "summary.csv").rows();
    REQUIRE(rows.size() == 2);
    CHECK(rows[1] == summary.policies[1].row);
}

}  // namespace divergence_test
