// SPDX-License-Identifier: Apache-2.0
// Tests the facts that a verdict is based on, and its wording: the statistical power of a comparison, forced verdicts,
// spikes, memory sizes and peak throughputs.
#include "reports/findings/verdict.hpp"

#include "emulation/machine/table.hpp"
#include "reports/findings/spikes.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/logs/manifest_facts.hpp"
#include "reports/rows/csv.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace verdict_test {

using namespace macheps;
using namespace macheps::reports;

namespace {

using Loss = std::function<double(std::int64_t step)>;

RunLog made(const std::string& policy, std::int64_t seed, std::int64_t steps, const Loss& loss) {
    RunLog run;
    run.row = {.run = policy + "/" + std::to_string(seed), .policy = policy, .seed = seed, .steps = steps};
    run.policy = policy;
    for (std::int64_t t = 0; t < steps; ++t) {
        run.steps.push_back({.run = run.row.run, .policy = policy, .seed = seed, .step = t, .loss = loss(t)});
    }
    return run;
}

/// Returns a run of fp32 and a run of policy `low` per seed. After the first step, the loss of fp32 falls from 4 to 3,
/// and the loss of `low` differs from it by gaps[seed].
Log log_of(const std::vector<double>& gaps, std::int64_t steps = 300) {
    Log log;
    log.folders.push_back(
        {.path = "run", .manifest = R"({"model": {"layers": 2, "width": 64, "parameters": 1000}, "seeds": [0, 1, 2],
                                       "train": {"token_weight": 0.000244140625}})"});
    const Loss fp32 = [](std::int64_t t) { return t == 0 ? 4.0 : 3.0; };
    for (std::size_t i = 0; i < gaps.size(); ++i) {
        const auto seed = static_cast<std::int64_t>(i);
        log.runs.push_back(made("fp32", seed, steps, fp32));
        log.runs.back().baseline = log.runs.size() - 1;
        log.runs.push_back(made("low", seed, steps, [&](std::int64_t t) { return fp32(t) + (t == 0 ? 0 : gaps[i]); }));
        log.runs.back().baseline = log.runs.size() - 2;
    }
    return log;
}

PolicySummary low_of(const Log& log, const SummaryOptions& options = {}) {
    const Summary summary = summarise(log, options);
    return summary.policies.at(1);
}
std::string sentence(const Log& log, const SummaryOptions& options = {}) {
    const Summary summary = summarise(log, options);
    return verdict_sentence(summary.policies.at(1));
}

/// Returns the probability that the 95 % t interval of the mean of df + 1 samples excludes zero. The true mean is
/// `shift` standard errors. Applies Simpson's rule to the density of the sample deviation.
double power(double shift, int df) {
    const double t = t_quantile_975(df), half = df / 2.0;
    const auto normal = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
    const auto integrand = [&](double s) {
        if (s == 0) return 0.0;
        const double density =
            2 * std::exp(half * std::log(half) - std::lgamma(half) + (df - 1) * std::log(s) - half * s * s);
        return density * (normal(shift - t * s) + normal(-shift - t * s));
    };
    constexpr int parts = 20000;
    constexpr double end = 6, step = end / parts;
    double sum = integrand(df == 1 ? 1e-12 : 0) + integrand(end);
    for (int i = 1; i < parts; ++i) sum += (i % 2 == 1 ? 4 : 2) * integrand(i * step);
    return sum * step / 3;
}

}  // namespace

TEST_CASE("the smallest detectable gap is detected with a probability of 80 %", "[reports][verdict]") {
    for (int df = 1; df <= 60; ++df) {
        CAPTURE(df);
        CHECK(power(detectable_shift(df), df) == Approx(0.8).margin(df <= 30 ? 1e-5 : 1e-4));
        CHECK(detectable_shift(df) > detectable_shift(df + 1));
    }
    CHECK(detectable_shift(1'000'000) == Approx(1.959964 + 0.841621).margin(1e-4));
    // The standard error of 1, 2, 3, 4 is sqrt(5 / 12).
    const std::vector<double> four{1, 2, 3, 4};
    CHECK(paired_mean(four).detectable.value() == Approx(detectable_shift(3) * std::sqrt(5.0 / 12)));
    CHECK_FALSE(paired_mean(std::vector<double>{1}).detectable.has_value());
}

TEST_CASE("the number of seeds needed is the smallest number that detects the gap with a probability of 80 %",
          "[reports][verdict]") {
    const std::int64_t n = samples_to_detect(0.01, 0.02).value();
    CHECK(n > 2);
    CHECK(power(0.01 / 0.02 * std::sqrt(double(n)), int(n) - 1) >= 0.8 - 1e-4);
    CHECK(power(0.01 / 0.02 * std::sqrt(double(n) - 1), int(n) - 2) < 0.8);
    CHECK(samples_to_detect(1, 0).value() == 2);
    CHECK_FALSE(samples_to_detect(1e-6, 1).has_value());
    CHECK_FALSE(samples_to_detect(0, 1).has_value());
}

TEST_CASE("numbers have two significant digits, and gaps have a sign", "[reports][verdict]") {
    struct Case {
        double x;
        const char* text;
    };
    for (const Case& c : {Case{0, "0"}, Case{0.03, "0.030"}, Case{-0.03456, "-0.035"}, Case{2.1449e-7, "2.1e-07"},
                          Case{0.96, "0.96"}, Case{9.94, "9.9"}, Case{9.96, "10"}, Case{12.3, "12"}, Case{123, "123"},
                          Case{INFINITY, "inf"}, Case{NAN, "nan"}}) {
        CHECK(two_digits(c.x) == c.text);
    }
    SummaryRow row;
    CHECK(gap_words(row) == "-");
    row.gap_mean = 0.0349;
    CHECK(gap_words(row) == "+0.035");
    row.gap_ci_high = 0.0349 + 0.00293;
    CHECK(gap_words(row) == "+0.035 ± 0.0029");
    row.gap_mean = -1.4e-6, row.gap_ci_high = -1.4e-6 + 3.6e-6;
    CHECK(gap_words(row) == "-1.4e-06 ± 3.6e-06");
    row.gap_mean = row.gap_ci_high = 0;
    CHECK(gap_words(row) == "+0 ± 0");
    row.gap_mean = NAN;
    CHECK(gap_words(row) == "not finite");
}

TEST_CASE("a verdict gives its basis and the smallest detectable gap", "[reports][verdict]") {
    const Log log = log_of({0.001, -0.001, 0.0005});
    const PolicySummary low = low_of(log);
    CHECK(low.row.verdict == "no difference found");
    CHECK_FALSE(low.row.forced.has_value());
    CHECK(low.row.margin.value() == Approx(0.0025 * 3));
    CHECK(low.row.steps.value() == 300);
    // The three gaps have a standard deviation of 0.00104 and a standard error of 0.000601. A gap of 5.65 standard
    // errors is detected with a probability of 80 %.
    const double shown = detectable_shift(2) * std::sqrt(1.0833333333e-6 / 3);
    CHECK(low.row.detectable_gap.value() == Approx(shown));
    CHECK(sentence(log) ==
          "no difference found (2 layers x 64, 300 steps, 3 seeds, token weight 2^-12; smallest detectable gap " +
              two_digits(shown) + ")");

    const std::string worse = sentence(log_of({0.03, 0.031, 0.029}));
    CHECK(worse ==
          "worse by 0.030 ± 0.0025 (1.0 % of fp32's loss; 2 layers x 64, 300 steps, 3 seeds, token weight 2^-12)");
    // The gap differs significantly from zero, but is too small to matter.
    const Log small = log_of({0.003, 0.0031, 0.0029});
    CHECK(low_of(small).row.verdict == "within the margin");
    CHECK(
        sentence(small).starts_with("a difference of +0.0030 ± 0.00025, within the margin of 0.0075 (2 layers x 64, "));
    const Log better = log_of({-0.003, -0.0031, -0.0029});
    CHECK(low_of(better).row.verdict == "within the margin");
    CHECK(sentence(better).starts_with(
        "a difference of -0.0030 ± 0.00025, within the margin of 0.0075 (2 layers x 64, "));
    CHECK(sentence(log_of({-0.03, -0.031, -0.029}))
              .starts_with("undecided: -0.030 ± 0.0025 lies below zero, but not entirely within"));

    const std::string one = sentence(log_of({0.02}));
    CHECK(one.starts_with("one seed: neither the gap of +0.020 nor its sign can be distinguished from chance"));
    CHECK(one.find("only a failing run would be detected (2 layers x 64, 300 steps, 1 seed, token weight 2^-12)") !=
          std::string::npos);
    CHECK(low_of(log_of({0.02})).row.verdict == "one seed");
    CHECK_FALSE(low_of(log_of({0.02})).row.detectable_gap.has_value());

    Log diverged = log_of({0, 0, 0});
    diverged.runs[3].steps[40].loss = NAN;
    CHECK(sentence(diverged) ==
          "diverged in 1 of 3 seeds: the loss became NaN or infinite at step 40 (2 layers x 64, 300 steps, 3 seeds, "
          "token weight 2^-12)");
    CHECK(low_of(diverged).row.failed_seeds.value() == 1);
    CHECK(verdict_sentence(summarise(log).policies[0]).empty());  // fp32 has no verdict
}

TEST_CASE("a verdict of diverged policies gives the reason of each failed run, and the table defines the word",
          "[reports][verdict]") {
    struct Case {
        std::function<void(RunLog&)> change;
        const char *failures, *clause, *why;
    };
    const auto every = [](RunLog& run, std::int64_t from, double loss) {
        for (std::size_t t = std::size_t(from); t < run.steps.size(); ++t) run.steps[t].loss = loss;
    };
    const Case cases[] = {
        {[](RunLog& run) { run.steps[40].loss = INFINITY; }, "loss_not_finite:2:40",
         "the loss became NaN or infinite, first at step 40", "a step with an infinite loss"},
        {[](RunLog& run) { run.row.status = "diverged", run.row.diverged_step = 299; }, "loss_not_finite:2:299",
         "the loss became NaN or infinite, first at step 299", "the status of the run, whose rows are incomplete"},
        {[](RunLog& run) { run.row.status = "failed: no memory"; }, "error:2", "training ended with an error",
         "status"},
        // The first high loss is 2 + 10 x 1.5. It raises the moving average at once to 0.9 x 2 + 0.1 x 17 = 2 + 1.5.
        {[&](RunLog& run) { every(run, 0, 2), every(run, 200, 3.5), run.steps[200].loss = 17, run.steps[0].loss = 4; },
         "loss_rose:2:249",
         "the smoothed loss stayed more than 1 nat above its minimum for 50 steps, first at step 249",
         "the loss rises at step 200, and stays below the first loss"},
        {[&](RunLog& run) { every(run, 0, 4), every(run, 250, 4.01); }, "ended_above_start:2",
         "the loss ended above that of the first step", "all steps are done, and all losses are finite"},
        {[&](RunLog& run) {
             every(run, 250, NAN);
             for (std::size_t t = 250; t < 300; ++t) run.steps[t].skipped = true;
         },
         "end_not_finite:2", "the loss was NaN or infinite in all of the last steps, which were skipped", "skipped"}};
    for (const Case& c : cases) {
        CAPTURE(c.why);
        Log log = log_of({0, 0, 0});
        c.change(log.runs[1]), c.change(log.runs[5]);
        CHECK(low_of(log).row.failures.value_or("") == c.failures);
        CHECK(sentence(log).starts_with(std::string("diverged in 2 of 3 seeds: ") + c.clause + " (2 layers x 64, "));
        const std::string table = summary_table(summarise(log));
        CHECK(
            table.find("\ndiverged: a run counts as diverged if its loss became NaN or infinite, if its smoothed loss "
                       "stayed more than 1 nat above its minimum for 50 steps, or if its loss at the end (mean of "
                       "the last 50 steps") != std::string::npos);
    }
    Log both = log_of({0, 0, 0});
    both.runs[1].steps[50].loss = both.runs[3].steps[40].loss = NAN;
    every(both.runs[5], 0, 4), every(both.runs[5], 250, 4.01);
    CHECK(low_of(both).row.failures == "loss_not_finite:2:40;ended_above_start:1");
    CHECK(sentence(both).starts_with(
        "diverged in 3 of 3 seeds: the loss became NaN or infinite, first at step 40 (2 runs); the loss ended above "
        "that of the first step (1 run) (2 layers"));
    // Without a failed run, neither the column nor the table says anything.
    const Summary fine = summarise(log_of({0, 0, 0}));
    CHECK_FALSE(fine.policies[1].row.failures.has_value());
    CHECK(summary_table(fine).find("diverged") == std::string::npos);
}

TEST_CASE(
    "failed runs are written to one cell of summary.csv and read back, and the words have the limits of the rules",
    "[reports][verdict]") {
    for (const RunFailure& reason : run_failures) {
        const std::vector<FailedRuns> list{{.reason = &reason, .runs = 3, .step = 12},
                                           {.reason = &failures::error, .runs = 1}};
        CHECK(failures_in(failures_text(list)) == list);
    }
    CHECK(failures_in("").empty());
    CHECK(failures_in("of_a_later_version:2:1;error:x;loss_rose:4:8").size() == 1);
    const auto says = [](std::string_view text, double number, const char* unit) {
        return text.find(std::to_string(std::int64_t(number)) + unit) != text.npos;
    };
    CHECK(says(failures::loss_rose.clause, DivergenceRules::failure_rise, " nat"));
    CHECK(says(failures::loss_rose.clause, DivergenceRules::failure_steps, " steps"));
    CHECK(says(failures::ended_above_start.words, double(DivergenceRules::failure_min_steps), " steps or more"));
}

TEST_CASE("if the runs allowed only some verdicts, the sentence of the verdict gives the reason",
          "[reports][verdict]") {
    const auto forced = [](const Log& log) { return low_of(log).row.forced.value_or(""); };
    const auto ends = [](const Log& log, const Forced& reason) {
        const std::string text = sentence(log),
                          end = "; " + std::string(reason.possible) + ": " + std::string(reason.clause);
        CAPTURE(text);
        return text.size() > end.size() && text.ends_with(end);
    };
    CHECK(forced(log_of({0.02})) == "one_seed");
    CHECK(ends(log_of({0.02}), forced::one_seed));
    // With one seed, the run may still fail, so the verdict "diverged" is also possible.
    CHECK(sentence(log_of({0.02})).find("the only other possible verdict was \"diverged\"") != std::string::npos);

    CHECK(forced(log_of({0, 0, 0})) == "same_losses");
    CHECK(ends(log_of({0, 0, 0}), forced::same_losses));
    CHECK(sentence(log_of({0, 0, 0})).find("smallest detectable gap") == std::string::npos);
    CHECK(forced(log_of({1e-12, 0, 0})).empty());

    // fp32's loss falls by 0.007 and the margin is 0.0075, so a run that stays at its first loss would also pass.
    Log flat = log_of({0.001, -0.001, 0.0005});
    for (RunLog& run : flat.runs) run.steps[0].loss = 3.007;
    CHECK(low_of(flat).row.verdict == "no difference found");
    CHECK(forced(flat) == "nothing_learned");
    CHECK(ends(flat, forced::nothing_learned));
    for (RunLog& run : flat.runs) run.steps[0].loss = 3.008;
    CHECK(forced(flat).empty());

    const Log wide = log_of({0.02, -0.02, 0.01});
    CHECK(low_of(wide).row.verdict == "undecided");
    CHECK(forced(wide) == "wide_interval");
    CHECK(ends(wide, forced::wide_interval));
    const std::int64_t needed = low_of(wide).seeds_needed.value();
    CHECK(needed > 3);
    CHECK(sentence(wide).find(std::to_string(needed) + " seeds with the same scatter would detect a gap of 0.0075") !=
          std::string::npos);

    Log both = log_of({0, 0, 0});
    for (RunLog& run : both.runs) run.steps[299].loss = run.steps[298].loss = NAN;
    CHECK(low_of(both).row.verdict == "diverged");
    CHECK(forced(both) == "baseline_failed");
    CHECK(ends(both, forced::baseline_failed));

    std::set<std::string_view> words;
    for (const Forced* reason : forced::all) words.insert(reason->word);
    CHECK(words.size() == std::size(forced::all));
}

TEST_CASE("equivalence is judged by the given margin", "[reports][verdict]") {
    const Log log = log_of({0.003, 0.0031, 0.0029});
    CHECK(low_of(log).row.verdict == "within the margin");
    CHECK(low_of(log, {.margin = 0.0005}).row.verdict == "worse");
    CHECK(low_of(log, {.margin = 0.0005}).row.margin.value() == Approx(0.0015));
    CHECK(low_of(log_of({0.03, 0.031, 0.029}), {.margin = 0.02}).row.verdict == "within the margin");
}

TEST_CASE("few steps and few seeds cause warnings", "[reports][verdict]") {
    const auto warnings = [](const Log& log) { return warnings_of(summarise(log)); };
    CHECK(warnings(log_of({0.03, 0.031, 0.029}, 200)).empty());
    CHECK(warnings(log_of({0.03, 0.031, 0.029}, 199)) ==
          std::vector<std::string>{"199 steps: with fewer than 200 steps, a verdict says little about a longer run"});
    CHECK(warnings(log_of({0.03, 0.031}, 200)) ==
          std::vector<std::string>{"2 seeds: with fewer than 3 seeds, the interval of a gap is very wide"});
    const std::vector<std::string> both = warnings(log_of({0.03}, 30));
    REQUIRE(both.size() == 2);
    CHECK(both[1].starts_with("one seed: with fewer than 3 seeds, "));
    const std::string table = summary_table(summarise(log_of({0.03}, 30)));
    CHECK(table.find("warning: 30 steps: with fewer than 200 steps, a verdict says little about a longer run.\n") !=
          std::string::npos);
}

TEST_CASE("a policy whose training differs from fp32 in more than its formats causes a warning", "[reports][verdict]") {
    Log log = log_of({0.03, 0.031, 0.029});
    log.folders[0].manifest = R"x({"beside_precision": {"low": "lr 1e-05 (fp32: 0.001)", "fp32": 3}})x";
    CHECK(warnings_of(summarise(log)) ==
          std::vector<std::string>{"low differs from fp32 in more than precision, and all of the differences "
                                   "contribute to its gap: lr 1e-05 (fp32: 0.001)"});
}

TEST_CASE("a verdict ends with what the policy does not emulate of its config", "[reports][verdict]") {
    Log log = log_of({0.03, 0.031, 0.029});
    log.folders[0].manifest = "{}";
    const std::string without = verdict_sentence(low_of(log));
    log.folders[0].manifest = R"x({"policies": {"low": {"config": {"not_emulated": [
        "LoRA is not emulated: the whole model is trained", "8-bit moments are not emulated"]}}, "fp32": 3}})x";
    CHECK(verdict_sentence(low_of(log)) ==
          without + "; LoRA is not emulated: the whole model is trained; 8-bit moments are not emulated");
    for (const char* wrong : {R"x({"policies": {"low": {"config": {"not_emulated": "LoRA"}}}})x",
                              R"x({"policies": {"low": {"config": []}}})x", R"x({"policies": 1})x"}) {
        log.folders[0].manifest = wrong;
        CHECK(verdict_sentence(low_of(log)) == without);
    }
}

TEST_CASE("if two folders have policies with the same name, each policy has the warning from its own folder",
          "[reports][verdict]") {
    // The second folder's runs are shown as `low@second`, and its manifest calls them `low`.
    Log log = log_of({0.03, 0.031, 0.029});
    log.folders[0].manifest = R"x({"beside_precision": {"low": "lr 1e-05 (fp32: 0.001)"}})x";
    log.folders.push_back(
        {.path = "second", .manifest = R"x({"beside_precision": {"low": "lr 2e-05 (fp32: 0.001)"}})x"});
    const std::size_t runs = log.runs.size();
    for (std::size_t i = 0; i < runs; ++i) {
        if (log.runs[i].row.policy != "low") continue;
        RunLog other = log.runs[i];
        other.policy = "low@second";
        other.folder = 1;
        log.runs.push_back(std::move(other));
    }
    const std::vector<std::string> texts = warnings_of(summarise(log));
    CHECK(texts ==
          std::vector<std::string>{
              "low differs from fp32 in more than precision, and all of the differences contribute to its gap: lr "
              "1e-05 (fp32: 0.001)",
              "low@second differs from fp32 in more than precision, and all of the differences contribute to its gap: "
              "lr 2e-05 (fp32: 0.001)"});
}

TEST_CASE("the step at which the loss curves part is given only if a difference was found", "[reports][verdict]") {
    // The smoothed gap of 0.0035 exceeds a thousandth of the loss, 0.003, and lies within the margin of 0.0075.
    const PolicySummary within = low_of(log_of({0.0035, 0.0036, 0.0034}));
    CHECK(within.row.verdict == "within the margin");
    CHECK(within.row.diverged_step.has_value());
    CHECK(parts_at_step(within.row).empty());
    const PolicySummary worse = low_of(log_of({0.03, 0.031, 0.029}));
    CHECK(parts_at_step(worse.row) == std::to_string(worse.row.diverged_step.value()));
}

TEST_CASE(
    "a value is a spike if it is at least seven estimated standard deviations from the median of the preceding window",
    "[reports][verdict]") {
    // The values alternate between 0 and 2, so the median is 1 and the median deviation is 1. A spike begins at 1 + 7 *
    // 1.4826 = 11.3782.
    std::vector<double> values;
    for (int i = 0; i < 300; ++i) values.push_back(i % 2 == 0 ? 0 : 2);
    CHECK(spike_score(values).value() == 0);
    values[150] = 11.378;
    CHECK(spike_score(values).value() == 0);
    values[150] = 11.379;
    CHECK(spike_score(values).value() == 0.5);  // percent of the 200 values that have a window
    values[280] = -9.379;
    CHECK(spike_score(values).value() == 1);
    values[10] = 1e9;  // has no score, because its window is not full; makes no later value a spike
    CHECK(spike_score(values).value() == 1);
    CHECK_FALSE(spike_score(std::vector<double>(100, 1.0)).has_value());
    CHECK(spike_score(std::vector<double>(101, 1.0)).value() == 0);

    // A window of 1000 values that alternate between -1 and 1 has mean 0 and deviation sqrt(1000 / 999).
    std::vector<double> many;
    for (int i = 0; i < 2000; ++i) many.push_back(i % 2 == 0 ? -1 : 1);
    many[1000] = 7.003;
    CHECK(spike_score(many).value() == 0);
    many[1000] = 7.004;
    CHECK(spike_score(many).value() == 0.1);
}

TEST_CASE("the summary contains the rates of spikes and the means over the steps", "[reports][verdict]") {
    Log log = log_of({0.001, -0.001, 0.0005});
    for (RunLog& run : log.runs) {
        if (run.policy != "low") continue;
        for (StepRow& step : run.steps) {
            step.grad_norm = step.step % 2 == 0 ? 0.0f : 2.0f;
            step.loss += step.step % 2 == 0 ? 0.0 : 1e-5;
            if (step.step % 100 == 0) step.grad_cosine = 0.99, step.grad_proj = 0.5;
            step.update_stagnation = 0.25, step.update_eff = 0.75;
        }
        run.steps[0].grad_norm = INFINITY;  // as in a skipped step
        if (run.row.seed == 1) run.steps[250].grad_norm = 100, run.steps[260].loss = 4;
    }
    const SummaryRow row = low_of(log).row;
    CHECK(row.grad_norm_spikes.value() == Approx(100.0 / 199 / 3));
    CHECK(row.loss_spikes.value() == Approx(0.5 / 3));
    CHECK(row.grad_cosine.value() == Approx(0.99));
    CHECK(row.grad_proj.value() == 0.5);
    CHECK(row.update_stagnation.value() == 0.25);
    CHECK(row.update_eff.value() == 0.75);
}

TEST_CASE("a summary gives bytes per parameter separately from activations, and omits the time of the emulation",
          "[reports][verdict]") {
    Log log = log_of({0.001, -0.001, 0.0005});
    for (RunLog& run : log.runs) {
        run.row.seconds = run.policy == "low" ? 9 : 3;
        run.row.bytes_params = 4000, run.row.bytes_grads = 4000, run.row.bytes_optimizer = 8000;
        run.row.bytes_master = run.policy == "low" ? 2000 : 0, run.row.bytes_activations = 500;
    }
    SummaryRow row = low_of(log).row;
    CHECK(row.static_bytes.value() == 18);  // 18000 bytes for the manifest's 1000 parameters
    CHECK(row.activation_bytes.value() == 0.5);
    CHECK_FALSE(row.slowdown.has_value());
    for (RunLog& run : log.runs) run.row.parameters = 2000;
    CHECK(low_of(log).row.static_bytes.value() == 9);
    log.folders.clear();
    for (RunLog& run : log.runs) run.row.parameters.reset();
    CHECK_FALSE(low_of(log).row.static_bytes.has_value());
    CHECK(summary_table(summarise(log)).find("slowdown") == std::string::npos);
}

TEST_CASE("the stated peak of a GPU is units times clock rate times operations per clock", "[report][peaks]") {
    // The number of streaming multiprocessors or compute units, their boost clock in MHz, and the number of
    // multiply-adds per unit and clock in each format. The numbers come from the vendors' descriptions of the
    // architectures, not from the data sheets that state the peaks.
    struct Unit {
        std::string_view gpu;
        double units, mhz, fp32, tf32, half, fp8;
    };
    for (const Unit& u :
         {Unit{"v100", 80, 1530, 64, 0, 512, 0}, Unit{"t4", 40, 1590, 64, 0, 512, 0},
          Unit{"a100", 108, 1410, 64, 512, 1024, 0}, Unit{"l40s", 142, 2520, 128, 256, 512, 1024},
          Unit{"h100", 132, 1830, 128, 1024, 2048, 4096}, Unit{"h200", 132, 1830, 128, 1024, 2048, 4096},
          Unit{"mi300x", 304, 2100, 128, 512, 1024, 2048}}) {
        int rows = 0;
        for (const VendorPeak& peak : vendor_peaks()) {
            if (peak.gpu != u.gpu) continue;
            const double each = peak.kind == "fp32"   ? u.fp32
                                : peak.kind == "tf32" ? u.tf32
                                : peak.kind == "fp8"  ? u.fp8
                                                      : u.half;
            CAPTURE(peak.gpu, peak.kind, peak.source);
            // Hopper's CUDA cores run at a different clock rate than its tensor cores.
            CHECK(peak.tflops == Approx(2e-6 * u.units * u.mhz * each).epsilon(peak.kind == "fp32" ? 0.09 : 0.015));
            ++rows;
        }
        CHECK(rows == 2 + (u.tf32 > 0) + (u.fp8 > 0) + (u.tf32 > 0));  // GPUs with tf32 also have bf16
    }
}

TEST_CASE("the relative peak follows from the time of all multiply-adds, each at the peak of its slower operand",
          "[reports][verdict]") {
    CHECK(relative_peak("bf16*bf16:10", "h100").value() == 1);
    CHECK(relative_peak("fp32*fp32:10", "h100").value() == Approx(66.9 / 989.4));
    CHECK(relative_peak("e4m3fn*e5m2:10", "h100").value() == Approx(1978.9 / 989.4));
    CHECK(relative_peak("e4m3fn*bf16:10", "h100").value() == 1);
    // Half of the work at 1x and half at 2x takes 3/4 of the time.
    CHECK(relative_peak("bf16*bf16:50;e4m3fn*e4m3fn:50", "b200").value() == Approx(4.0 / 3));
    CHECK(relative_peak("e2m1fn*e2m1fn:1", "b200").value() == 4);
    CHECK(relative_peak("fp16*fp16:1", "t4").value() == 1);  // a T4 has no bf16, so fp16 counts as 1x
    CHECK_FALSE(relative_peak("bf16*bf16:1", "t4").has_value());
    CHECK_FALSE(relative_peak("e4m3fn*e4m3fn:1", "a100").has_value());
    for (const char* text : {"", "bf16*bf16", "bf16*bf16:", "bf16*bf16:x", "bf16*bf16:1;"})
        CHECK(relative_peak(text, "h100").has_value() == (std::string(text) == "bf16*bf16:1;"));

    for (const VendorPeak& row : vendor_peaks()) {
        CAPTURE(row.gpu, row.kind);
        CHECK(find_vendor_gpu(row.gpu) != nullptr);
        CHECK(row.source.find(std::string(row.gpu == "mi300x" ? "AMD" : "NVIDIA")) == 0);
        // The peak of fp8 is twice that of bf16.
        for (const VendorPeak& other : vendor_peaks()) {
            if (other.gpu != row.gpu || row.kind != "bf16" || other.kind != "fp8") continue;
            CHECK(other.tflops / row.tflops == Approx(2).epsilon(0.02));
        }
    }
    for (const VendorGpu& gpu : vendor_gpus()) CHECK(relative_peak("fp32*fp32:1", gpu.name).value() < 1);
    CHECK(find_vendor_gpu(usual_gpu) != nullptr);
    CHECK(operand_kind("tf32") == "tf32");
    CHECK(operand_kind("e3m2fn") == "fp6");
    CHECK(operand_kind("fp64") == "fp32");

    Log log = log_of({0.001, -0.001, 0.0005});
    for (RunLog& run : log.runs) run.row.matmul_formats = run.policy == "low" ? "e4m3fn*e4m3fn:1" : "fp32*fp32:1";
    CHECK(low_of(log).row.relative_peak.value() == Approx(2).epsilon(1e-3));
    CHECK(low_of(log).row.peak_gpu.value() == "h100");
    CHECK_FALSE(low_of(log, {.gpu = "a100"}).row.relative_peak.has_value());
    const std::string table = summary_table(summarise(log));
    CHECK(table.find("on NVIDIA H100 SXM, dense, bf16 = 1x: the vendor's figures, not a measurement.") !=
          std::string::npos);
}

TEST_CASE("a policy has a peak only if the GPU's matrix units take its operands as they are", "[reports][peaks]") {
    // The rows of the machines describe the units of a GPU. They do not come from the data sheets.
    for (const VendorGpu& gpu : vendor_gpus()) {
        const std::string_view units = gpu.name == "h200" ? "sm90." : gpu.machines;
        const auto any_unit = [&](const auto& accepts) {
            return std::any_of(all_machines.begin(), all_machines.end(), [&](const Machine* machine) {
                return machine->name.starts_with(units) && accepts(*machine);
            });
        };
        struct Named {
            Format format;
            std::string name;
        };
        for (const Named& each :
             {Named{fp16, "fp16"}, Named{bf16, "bf16"}, Named{tf32, "tf32"}, Named{e4m3fn, "e4m3fn"}}) {
            const std::string pair = each.name + "*" + each.name + ":1";
            // The fp8 format of CDNA3 is e4m3fnuz. Frameworks use it in place of e4m3fn.
            const bool is_taken = any_unit([&](const Machine& machine) {
                return machine.operands.contains(each.format) ||
                       (each.format == e4m3fn && machine.operands.contains(e4m3fnuz));
            });
            CAPTURE(gpu.name, each.name);
            CHECK(relative_peak(pair, gpu.name).has_value() == is_taken);
            CHECK(operand_without_unit(pair, gpu.name).empty() == is_taken);
        }
        const bool has_block_scales = any_unit([](const Machine& machine) { return machine.has_scales(); });
        CHECK(gpu.has_block_scales == has_block_scales);
        for (const std::string operand :
             {"e4m3fn/mx32", "e5m2/mx32_32x32", "e3m2fn/mx32", "e2m1fn/mx32", "e2m1fn/nvfp4"}) {
            CAPTURE(gpu.name, operand);
            const std::string all = "fp32*fp32:1;" + operand + "*" + operand + ":1";
            CHECK(relative_peak(all, gpu.name).has_value() == has_block_scales);
            CHECK(operand_without_unit(all, gpu.name) == (has_block_scales ? "" : operand));
        }
    }
    CHECK(relative_peak("e4m3fn/mx32*e4m3fn/mx32:1", "b200").value() == 2);
    CHECK(relative_peak("e2m1fn/nvfp4*e2m1fn/nvfp4:1", "b200").value() == 4);

    Log log = log_of({0.001, -0.001, 0.0005});
    for (RunLog& run : log.runs)
        run.row.matmul_formats = run.policy == "low" ? "e4m3fn/mx32*e4m3fn/mx32:1" : "fp32*fp32:1";
    CHECK_FALSE(low_of(log).row.relative_peak.has_value());
    CHECK(peak_words(summarise(log))
              .ends_with(
                  " low has no peak: NVIDIA H100 SXM has no unit for e4m3fn/mx32, so software has to emulate it."));
    CHECK(low_of(log, {.gpu = "b200"}).row.relative_peak.value() == 2);
    CHECK(peak_words(summarise(log, {.gpu = "b200"})).ends_with("the vendor's figures, not a measurement."));
}

TEST_CASE("the settings are printed in one line, with a power of two as the token weight if possible",
          "[reports][verdict]") {
    CHECK(power_words(0x1p-12) == "2^-12");
    CHECK(power_words(0.5) == "0.5");
    CHECK(power_words(1) == "1");
    CHECK(power_words(1024) == "2^10");
    CHECK(power_words(0.3) == "0.3");
    const Summary summary = summarise(log_of({0, 0, 0}));
    CHECK(summary.setup ==
          "seeds 0, 1, 2; the loss of every token is weighted by 2^-12 in the backward pass, which makes the gradients "
          "as small as those of a batch 4096 times as large (--seeds, --token-weight)");
    CHECK(summary_table(summary).find(summary.setup + ".\n") != std::string::npos);
    const ManifestFacts facts{.seeds = {0}, .token_weight = 1.0}, other{.seeds = {1}, .token_weight = 1.0};
    CHECK(setup_words(std::vector{facts}) == "seed 0; the loss of every token has weight 1 (--seeds, --token-weight)");
    CHECK(setup_words(std::vector{facts, other}).empty());
    CHECK(setup_words({}).empty());
    // No facts are read from members of a manifest that have unexpected types.
    for (const char* text : {"", "[]", "{\"model\": 3}", "{\"model\": {\"layers\": \"x\", \"parameters\": 1e99}}",
                             "{\"seeds\": {}, \"train\": {\"token_weight\": \"\"}}"}) {
        CHECK(manifest_facts({.path = "run", .manifest = text}) == ManifestFacts{});
    }
}

TEST_CASE("the column peak uses the GPU that the machines of each policy name", "[reports][verdict]") {
    const auto summary_of = [](const std::string& machine_of_fp32, const std::string& machine_of_low,
                               const SummaryOptions& options) {
        Log log = log_of({0.001, -0.001, 0.0005});
        for (RunLog& run : log.runs) run.row.matmul_formats = "fp32*fp32:1";
        log.folders.at(0).manifest = R"({"machines": {"fp32": {"matmuls": {")" + machine_of_fp32 +
                                     R"(": 39}}, "low": {"matmuls": {)" + machine_of_low + "}}}}";
        return summarise(log, options);
    };
    struct Case {
        const char *fp32, *low, *option, *gpu_of_fp32, *gpu_of_low, *why;
    };
    for (const Case& c :
         {Case{"fp32.chain", R"("fp32.chain": 39)", "", "h100", "h100", "no machine names a GPU"},
          Case{"fp32.chain", R"("sm80.mma.bf16": 39)", "", "a100", "a100", "fp32 is compared on the only GPU"},
          Case{"sm90.wgmma.tf32", R"("sm80.mma.bf16": 39)", "", "h100", "a100", "each policy names its own GPU"},
          Case{"fp32.chain", R"("sm100.tcgen05.fp8, cublaslt.fp8.outer": 3, "fp32.chain": 4)", "", "b200", "b200",
               "the rule and other machines do not matter"},
          Case{"fp32.chain", R"("sm100.tcgen05.fp8": 3, "sm80.mma.bf16": 4)", "", "h100", "h100",
               "a policy with machines of two GPUs names none"},
          Case{"sm90.wgmma.tf32", R"("sm80.mma.bf16": 39)", "l40s", "l40s", "l40s", "an option overrides the machines"},
          Case{"cdna3.mfma.bf16", R"("sm70.mma.fp16": 39)", "", "mi300x", "v100", "an AMD GPU and a V100"}}) {
        CAPTURE(c.why);
        const Summary summary = summary_of(c.fp32, c.low, {.gpu = c.option});
        CHECK(summary.policies.at(0).row.peak_gpu.value() == c.gpu_of_fp32);
        CHECK(summary.policies.at(1).row.peak_gpu.value() == c.gpu_of_low);
        for (const PolicySummary& policy : summary.policies)
            CHECK(policy.row.relative_peak == relative_peak("fp32*fp32:1", *policy.row.peak_gpu));
    }
    CHECK(peak_words(summary_of("cdna3.mfma.bf16", R"("sm70.mma.fp16": 39)", {})) ==
          "on AMD Instinct MI300X, dense, bf16 = 1x (fp32); on NVIDIA V100 SXM2, dense, fp16 = 1x (low); the vendor's "
          "figures, not a measurement.");
}

}  // namespace verdict_test
