// SPDX-License-Identifier: Apache-2.0
// Tests both sides of each constant that decides a verdict or a cell of a summary.
#include "reports/findings/divergence.hpp"
#include "reports/findings/student.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/sweep_summary.hpp"
#include "tests/test.hpp"

#include <boost/math/distributions/students_t.hpp>

#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace boundary_test {

using namespace macheps;
using namespace macheps::reports;

namespace {

/// Returns two runs of 100 steps for each seed, one of policy fp32 and one of policy `low`. Both have a loss of 4 in
/// the first step, because a run whose last loss is above its first counts as failed. After that, the loss is 2 for
/// fp32 and 2 + gaps[seed] for `low`.
Log pairs(const std::vector<double>& gaps) {
    Log log;
    for (std::size_t seed = 0; seed < gaps.size(); ++seed) {
        for (const auto& [policy, gap] : {std::pair{"fp32", 0.0}, std::pair{"low", gaps[seed]}}) {
            RunLog run;
            run.policy = policy;
            run.row = {.run = run.policy + "." + std::to_string(seed),
                       .policy = policy,
                       .seed = std::int64_t(seed),
                       .steps = 100};
            for (std::int64_t t = 1; t <= 100; ++t) {
                run.steps.push_back({.run = run.row.run,
                                     .policy = policy,
                                     .seed = std::int64_t(seed),
                                     .step = t,
                                     .loss = t == 1 ? 4 : 2 + gap});
            }
            run.baseline = 2 * seed;
            log.runs.push_back(run);
        }
    }
    return log;
}

SummaryRow row_of(const std::vector<double>& gaps) { return summarise(pairs(gaps)).policies.at(1).row; }

bool fails(std::int64_t low_steps, std::int64_t high_steps, double rise) {
    FailureWatch watch;
    for (std::int64_t t = 0; t < low_steps; ++t) watch.add(2, false);
    // The first high loss is 2 + 10 rise. It raises the moving average at once to 0.9 * 2 + 0.1 * (2 + 10 rise), which
    // is 2 + rise.
    for (std::int64_t t = 0; t < high_steps; ++t) watch.add(t == 0 ? 2 + 10 * rise : 2 + rise, false);
    return watch.failed();
}

}  // namespace

TEST_CASE("quantiles of Student's t agree with Boost for 1 to 300 degrees of freedom", "[reports][student]") {
    for (std::int64_t df = 1; df <= 300; ++df) {
        CAPTURE(df);
        const boost::math::students_t_distribution<long double> exact(static_cast<long double>(df));
        for (const auto& [p, ours] : {std::pair{0.95L, t_quantile_95(df)}, std::pair{0.975L, t_quantile_975(df)}}) {
            // Up to 30 degrees of freedom, the quantiles come from a table with six decimals. Above 30, they come from
            // an expansion, whose error is about its first omitted term (Abramowitz and Stegun 26.7.5).
            const long double z = p == 0.95L ? 1.6448536269514722L : 1.959963984540054L, z2 = z * z;
            const long double left_out = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
            const long double n = static_cast<long double>(df);
            const long double bound = df <= 30 ? 0.5e-6L * (1 + 1e-6L) : 2 * left_out / (n * n * n * n) + 1e-14L;
            CHECK(std::abs(static_cast<long double>(ours) - boost::math::quantile(exact, p)) <= bound);
        }
    }
}

TEST_CASE("a policy is worse if the 95 % interval lies above zero, and not if it contains zero",
          "[reports][divergence]") {
    for (std::size_t seeds = 2; seeds <= 12; ++seeds) {
        CAPTURE(seeds);
        // Equally spaced deviations from -k to k. Their mean is zero.
        std::vector<double> deviations;
        for (std::size_t i = 0; i < seeds; ++i) deviations.push_back(0.01 * (2 * double(i) - double(seeds - 1)));
        double squares = 0;
        for (const double d : deviations) squares += d * d;
        const double n = double(seeds), standard_error = std::sqrt(squares / (n - 1) / n);
        const boost::math::students_t exact(n - 1);
        const double half_95 = boost::math::quantile(exact, 0.975) * standard_error;
        const double half_90 = boost::math::quantile(exact, 0.95) * standard_error;
        const auto shifted = [&](double mean) {
            std::vector<double> gaps = deviations;
            for (double& gap : gaps) gap += mean;
            return row_of(gaps);
        };
        CHECK(shifted(half_95 * 1.001).verdict == "worse");
        CHECK(shifted(half_95 * 1.001).gap_ci_low.value() > 0);
        CHECK(shifted(half_95 * 0.999).verdict == "undecided");
        CHECK(shifted(half_95 * 0.999).gap_ci_low.value() < 0);
        CHECK(shifted((half_90 + half_95) / 2).verdict == "undecided");
    }
}

TEST_CASE("a policy is equivalent if and only if the 90 % interval lies within the margin", "[reports][divergence]") {
    constexpr double margin = 0.0025 * 2;  // 0.25 % of fp32's loss, which is 2
    for (const std::size_t seeds : {std::size_t{2}, std::size_t{3}, std::size_t{8}, std::size_t{12}}) {
        CAPTURE(seeds);
        std::vector<double> pattern;
        for (std::size_t i = 0; i < seeds; ++i) pattern.push_back(2 * double(i) - double(seeds - 1));
        double squares = 0;
        for (const double d : pattern) squares += d * d;
        const double n = double(seeds), standard_error = std::sqrt(squares / (n - 1) / n);
        const double half_90 = boost::math::quantile(boost::math::students_t(n - 1), 0.95) * standard_error;
        const auto verdict = [&](double share, double mean) {
            std::vector<double> gaps = pattern;
            for (double& gap : gaps) gap = gap * share * margin / half_90 + mean;
            return row_of(gaps).verdict;
        };
        CHECK(is_equivalent(verdict(0.999, 0)));
        CHECK(verdict(1.001, 0) == "undecided");
        CHECK(is_equivalent(verdict(0.5, 0.499 * margin)));
        CHECK(is_equivalent(verdict(0.5, -0.499 * margin)));
        CHECK(verdict(0.5, -0.501 * margin) == "undecided");
        CHECK_FALSE(is_equivalent(verdict(0.5, 0.501 * margin)));
    }
}

TEST_CASE("'undecided' is the only possible verdict if and only if the 90 % interval is wider than twice the margin",
          "[reports][divergence]") {
    constexpr double margin = 0.0025 * 2;  // 0.25 % of fp32's loss, which is 2
    for (const std::size_t seeds : {std::size_t{2}, std::size_t{3}, std::size_t{8}}) {
        CAPTURE(seeds);
        std::vector<double> pattern;
        for (std::size_t i = 0; i < seeds; ++i) pattern.push_back(2 * double(i) - double(seeds - 1));
        double squares = 0;
        for (const double d : pattern) squares += d * d;
        const double n = double(seeds), deviation = std::sqrt(squares / (n - 1)),
                     standard_error = deviation / std::sqrt(n);
        const double half_90 = boost::math::quantile(boost::math::students_t(n - 1), 0.95) * standard_error;
        for (const double share : {0.999, 1.001}) {
            std::vector<double> gaps = pattern;
            for (double& gap : gaps) gap = (gap * share / half_90 + 0.5) * margin;
            const PolicySummary low = summarise(pairs(gaps)).policies.at(1);
            CAPTURE(share);
            CHECK(low.row.verdict == "undecided");
            CHECK(low.row.forced.value_or("") == (share > 1 ? "wide_interval" : ""));
            // The number of seeds needed for a decision depends only on the scatter of the gaps.
            CHECK(low.seeds_needed == samples_to_detect(margin, deviation * share / half_90 * margin));
        }
    }
}

TEST_CASE("a gap compares losses of the same step, and leaves out skipped steps whose loss is infinite",
          "[reports][divergence]") {
    const auto gap_of = [](const Log& log) { return summarise(log).policies.at(1).row.gap_mean.value(); };
    Log log = pairs({0.125});
    log.runs[1].steps[97].loss = 1000;  // fp32 has no row for this step
    log.runs[0].steps.erase(log.runs[0].steps.begin() + 97);
    CHECK(gap_of(log) == 0.125);
    log.runs[1].steps[95].loss = std::numeric_limits<double>::infinity();
    log.runs[1].steps[95].skipped = true;
    CHECK(gap_of(log) == 0.125);
    log.runs[1].steps[97].loss = 2.125;
    CHECK(summarise(log).policies.at(1).row.loss == 2.125);
    log.runs[1].steps[95].skipped = false;
    CHECK(std::isinf(gap_of(log)));
}

TEST_CASE("the divergence step of a policy is the earliest divergence step of its seeds", "[reports][divergence]") {
    for (const auto& [first, second] : {std::pair{20, 30}, std::pair{30, 20}, std::pair{20, 20}}) {
        Log log = pairs({0, 0});
        const std::int64_t begins[] = {first, second};
        for (std::size_t seed = 0; seed < 2; ++seed) {
            for (StepRow& step : log.runs[2 * seed + 1].steps) step.loss += step.step >= begins[seed] ? 1 : 0;
        }
        CHECK(summarise(log).policies.at(1).row.diverged_step == 20);
    }
}

TEST_CASE("a run fails after 50 steps that are more than one nat above its smallest loss, and not one step earlier",
          "[reports][divergence]") {
    constexpr std::int64_t steps = DivergenceRules::failure_steps;
    constexpr double rise = DivergenceRules::failure_rise;
    CHECK(steps == 50);
    CHECK(rise == 1);
    CHECK(fails(10, steps, rise * 1.001));
    CHECK_FALSE(fails(10, steps - 1, rise * 1.001));
    CHECK_FALSE(fails(10, 3 * steps, rise * 0.999));
}

TEST_CASE("a run with a constant loss has not failed, even if its mean loss is rounded", "[reports][divergence]") {
    for (int i = 1; i <= 200; ++i) {
        const double loss = 2 + i / 700.0;
        Log log;
        for (const char* policy : {"fp32", "low"}) {
            RunLog run;
            run.policy = policy;
            run.row = {.run = run.policy + ".0", .policy = policy, .seed = 0, .steps = 200};
            for (std::int64_t t = 1; t <= 200; ++t)
                run.steps.push_back({.run = run.row.run, .policy = policy, .seed = 0, .step = t, .loss = loss});
            run.baseline = 0;
            log.runs.push_back(run);
        }
        CAPTURE(loss);
        CHECK(summarise(log).policies.at(1).row.verdict == "one seed");
        for (StepRow& step : log.runs[1].steps) step.loss = step.step == 1 ? loss : loss * (1 + 1e-12);
        CHECK(summarise(log).policies.at(1).row.verdict == "diverged");
    }
}

TEST_CASE("a forward value is reported if it exceeds half of the largest value of its format", "[reports][sites]") {
    const auto reach = [](std::uint64_t overflow, float amax) {
        SiteRow site{.step = 3, .site = "block.0.mlp.up:forward.out", .format = "fp16"};
        site.count = 100, site.overflow = overflow, site.amax = amax;
        return site_figures(std::vector{site}).activation_reach;
    };
    CHECK(reach(0, 65504).rate == 1);
    CHECK(reach(1, 2 * 65504).rate == 2);
    CHECK(reach(0, 0.5f * 65504).first_step == std::nullopt);
    CHECK(reach(0, 0.51f * 65504).first_step == 3);
}

TEST_CASE("a rate has three decimals below one percent, and the sign < if it rounds to zero", "[reports][summary]") {
    struct Case {
        double rate;
        const char* text;
    };
    for (const Case& c : {Case{0, "0 %"},
                          {1e-300, "<0.001 %"},
                          {0.00000999, "<0.001 %"},
                          {0.0000101, "0.001 %"},
                          {0.00005, "0.005 %"},
                          {0.0099, "0.990 %"},
                          {0.0101, "1.01 %"},
                          {0.099, "9.90 %"},
                          {0.101, "10.1 %"},
                          {1, "100.0 %"}}) {
        Log log = pairs({0});
        SiteRow site{.step = 1, .site = "a:forward.out", .format = "fp16"};
        // Counts above 2^53 would not be exact in fp64, in which rates are computed.
        site.count = std::uint64_t{1} << 53;
        site.underflow = c.rate == 1e-300 ? 1 : static_cast<std::uint64_t>(std::llround(std::ldexp(c.rate, 53)));
        log.runs[1].sites = {site};
        const std::string table = summary_table(summarise(log), Colour::never);
        CAPTURE(c.rate, c.text, table);
        CHECK(table.find("  " + std::string(c.text) + "  ") != std::string::npos);
    }
}

TEST_CASE("a word on a sweep axis counts as a number if it is a finite decimal or a power of two such as 2^-12",
          "[reports][sweeps]") {
    CHECK(axis_number("2^-12") == 0x1p-12);
    CHECK(axis_number("2^3") == 8);
    CHECK(axis_number("3e-4") == 3e-4);
    for (const char* word : {"", "2^", "2^x", "tiny", "1 ", "inf", "2^inf", "nan"}) {
        CAPTURE(word);
        CHECK_FALSE(axis_number(word));
    }
}

TEST_CASE("the best learning rate has the smallest loss of the runs that did not diverge", "[reports][sweeps]") {
    SweepSummary sweep;
    sweep.axes = {"size", "lr"};
    const auto add = [&](const char* policy, const char* size, const char* rate, double loss,
                         const char* verdict = "no difference found") {
        SweepRow row;
        row.values = {size, rate};
        row.policy.row.policy = policy, row.policy.row.loss = loss, row.policy.row.verdict = verdict;
        sweep.rows.push_back(row);
    };
    add("fp32", "tiny", "1e-4", 3), add("fp32", "tiny", "1e-3", 2), add("fp32", "tiny", "1e-2", 4);
    add("low", "tiny", "1e-4", 3), add("low", "tiny", "1e-3", 1, "diverged"), add("low", "tiny", "1e-2", NAN);
    add("fp32", "small", "1e-4", 2), add("fp32", "small", "1e-3", 3);
    add("low", "small", "1e-4", 2.5), add("low", "small", "1e-3", 3.5);
    add("low", "base", "1e-4", 1, "diverged");
    struct Case {
        const char *policy, *size, *rate, *fp32_rate;
        bool moved;
    };
    const Case cases[] = {{"fp32", "tiny", "1e-3", "1e-3", false},
                          {"low", "tiny", "1e-4", "1e-3", true},
                          {"fp32", "small", "1e-4", "1e-4", false},
                          {"low", "small", "1e-4", "1e-4", false},
                          {"low", "base", "", "", false}};
    const std::vector<BestValue> rates = best_values(sweep).rows;
    REQUIRE(rates.size() == std::size(cases));
    for (std::size_t i = 0; i < rates.size(); ++i) {
        CAPTURE(i);
        CHECK(rates[i].policy == cases[i].policy);
        CHECK(rates[i].others == std::vector<std::string>{cases[i].size});
        CHECK(rates[i].value == cases[i].rate);
        CHECK(rates[i].fp32_value == cases[i].fp32_rate);
        CHECK(rates[i].moved == cases[i].moved);
    }
    CHECK(rates[1].loss == 3);
    sweep.axes = {"size", "steps"};
    CHECK(best_values(sweep).rows.empty());
}

}  // namespace boundary_test
