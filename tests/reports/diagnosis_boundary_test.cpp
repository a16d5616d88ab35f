// SPDX-License-Identifier: Apache-2.0
// Tests both sides of each limit of DiagnosisRules, with handmade rows.
#include "reports/findings/diagnosis.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace diagnosis_boundary_test {

using namespace macheps;
using namespace macheps::reports;

namespace {

using Steps = std::vector<StepRow>;

/// Returns runs of the policies fp32 and `low` in which nothing is diagnosed: the loss falls by 0.01 in each step.
Log healthy(std::size_t steps, std::int64_t seeds = 1) {
    Log log;
    log.folders.resize(1);
    for (std::int64_t seed = 0; seed < seeds; ++seed) {
        for (const char* policy : {"fp32", "low"}) {
            RunLog run;
            run.policy = policy;
            run.row = {.run = run.policy + "/" + std::to_string(seed),
                       .policy = policy,
                       .seed = seed,
                       .steps = std::int64_t(steps)};
            run.row.bytes_params = run.row.bytes_master = 400;
            for (std::size_t t = 0; t < steps; ++t) {
                StepRow step{.run = run.row.run, .policy = policy, .seed = seed, .step = std::int64_t(t)};
                step.loss = 4 - 0.01 * double(t), step.grad_norm = 1, step.lr = 1, step.loss_scale = 1024;
                run.steps.push_back(step);
            }
            run.baseline = std::size_t(2 * seed);
            log.runs.push_back(run);
        }
    }
    return log;
}

/// Returns the finding `id` about policy `low` after `change` has edited the policy's steps. Returns nullopt if the
/// finding is not reported.
template <class Change>
std::optional<Diagnosed> found(const std::string& id, std::size_t count, Change change) {
    Log log = healthy(count);
    change(log.runs[1].steps);
    const Verdicts verdicts = diagnose(log);
    for (const Diagnosed& finding : verdicts.findings) {
        if (finding.policy == "low" && finding.diagnosis->id == id) return finding;
    }
    return {};
}

double figure(const std::optional<Diagnosed>& finding, const std::string& name) {
    REQUIRE(finding);
    for (const Figure& each : finding->seen.figures) {
        if (each.name == name) return each.value;
    }
    FAIL("no figure " << name);
    return 0;
}

}  // namespace

TEST_CASE("nothing is diagnosed in healthy rows", "[reports][diagnosis]") {
    CHECK(diagnose(healthy(40)).findings.empty());
}

TEST_CASE("four skipped steps in a row are a cascade if the loss scale falls; three are not", "[reports][diagnosis]") {
    const auto cascade = [](std::size_t skips, float factor) {
        return found("overflow-cascade", 40, [&](Steps& steps) {
            for (std::size_t t = 0; t < steps.size(); ++t) {
                steps[t].skipped = t >= 5 && t < 5 + skips;
                if (t > 0) steps[t].loss_scale = steps[t - 1].loss_scale * (steps[t - 1].skipped ? factor : 1);
            }
        });
    };
    CHECK_FALSE(cascade(3, 0.5f));
    CHECK_FALSE(cascade(4, 1.0f));
    CHECK(figure(cascade(4, 0.5f), "skipped") == 4);
    CHECK(figure(cascade(5, 0.5f), "halvings") == 5);
    CHECK(figure(cascade(4, 0.5f), "from") == 1024);
    CHECK(figure(cascade(4, 0.5f), "to") == 64);
    CHECK(cascade(4, 0.5f)->seen.step == 5);
}

TEST_CASE("skipped steps at scales that fall to 1 or to the minimum have no remedy that lowers the scale",
          "[reports][diagnosis]") {
    // The scale falls from 2^10 to the minimum in the first steps. Then `more` steps overflow at the minimum.
    const auto remedy = [](const char* id, float minimum, std::size_t more) {
        return found(id, 40,
                     [&](Steps& steps) {
                         const std::size_t skips = std::size_t(std::log2(1024 / minimum)) + more;
                         for (std::size_t t = 0; t < steps.size(); ++t) {
                             steps[t].skipped = t < skips;
                             steps[t].loss_scale =
                                 t == 0 ? 1024 : std::max(steps[t - 1].loss_scale / (t <= skips ? 2 : 1), minimum);
                         }
                     })
            ->remedy();
    };
    for (const char* id : {"overflow-cascade", "first-steps-skipped"}) {
        CAPTURE(id);
        CHECK(remedy(id, 64, 0).starts_with("start with "));
        CHECK(remedy(id, 64, 3).starts_with("start with "));
        CHECK(remedy(id, 64, 4).find("smaller initial scale does not help") != std::string_view::npos);
        CHECK(remedy(id, 1, 0).find("smaller initial scale does not help") != std::string_view::npos);
    }
}

TEST_CASE("a loss scale is at its floor if four steps are skipped at its smallest value or below 1; three are too few",
          "[reports][diagnosis]") {
    const auto floor = [](std::size_t skips, float there, float elsewhere) {
        return found("scale-at-floor", 40, [&](Steps& steps) {
            for (std::size_t t = 0; t < steps.size(); ++t) {
                steps[t].skipped = t >= 5 && t < 5 + skips;
                steps[t].loss_scale = steps[t].skipped ? there : elsewhere;
            }
        });
    };
    CHECK_FALSE(floor(3, 64, 64));
    CHECK(figure(floor(4, 64, 64), "skipped") == 4);
    CHECK_FALSE(floor(4, 64, 32));
    CHECK_FALSE(floor(4, 1, 0.25f));
    CHECK(floor(4, 0.5f, 0.25f));
}

TEST_CASE("skipped steps are reported if their learning rates are more than 1 % of the sum of all learning rates",
          "[reports][diagnosis]") {
    const auto share = [](float rest) {
        return found("schedule-over-skips", 100, [&](Steps& steps) {
            steps[5].skipped = true;
            steps[6].lr = 2;     // the schedule advanced during the skipped step
            steps[7].lr = rest;  // the sum of all learning rates is 100 + rest
        });
    };
    CHECK_FALSE(share(0.5f));
    CHECK(figure(share(-0.5f), "percent") == Approx(100 / 99.5));
    CHECK_FALSE(found("schedule-over-skips", 20, [](Steps& steps) { steps[5].skipped = true; }));
    // Whether the schedule advanced over the last step is not known.
    CHECK_FALSE(found("schedule-over-skips", 20, [](Steps& steps) { steps.back().skipped = true; }));
}

TEST_CASE("skipped first steps are reported only if the very first step was skipped", "[reports][diagnosis]") {
    CHECK(figure(found("first-steps-skipped", 40, [](Steps& steps) { steps[0].skipped = steps[1].skipped = true; }),
                 "skipped") == 2);
    CHECK_FALSE(found("first-steps-skipped", 40, [](Steps& steps) { steps[1].skipped = true; }));
}

TEST_CASE("if the update of a finite gradient is not finite, the optimiser is the cause, and later gradients are not",
          "[reports][diagnosis]") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const auto report = [](const char* id, bool skipped, float norm, float update) {
        return found(id, 40, [&](Steps& steps) {
            steps[7].skipped = skipped, steps[7].grad_norm = norm, steps[7].update_norm = update;
            for (std::size_t t = 8; t < steps.size(); ++t) steps[t].grad_norm = std::nanf("");
        });
    };
    CHECK(report("division-by-zero", false, 1.5f, infinity)->seen.step == 7);
    CHECK(figure(report("division-by-zero", false, 1.5f, std::nanf("")), "norm") == 1.5);
    CHECK_FALSE(report("nonfinite-update", false, 1.5f, infinity));
    CHECK_FALSE(report("division-by-zero", false, 1.5f, 2));
    CHECK_FALSE(report("division-by-zero", false, infinity, infinity));  // the gradient is the cause
    CHECK(report("nonfinite-update", false, infinity, infinity)->seen.step == 7);
    CHECK_FALSE(report("division-by-zero", true, 1.5f, infinity));  // a skipped step has no update
}

TEST_CASE("a gradient norm that is not finite is reported only if its step was not skipped", "[reports][diagnosis]") {
    const auto update = [](bool skipped, float norm) {
        return found("nonfinite-update", 40,
                     [&](Steps& steps) { steps[7].skipped = skipped, steps[7].grad_norm = norm; });
    };
    constexpr float infinity = std::numeric_limits<float>::infinity();
    CHECK(update(false, infinity)->seen.step == 7);
    CHECK(update(false, std::nanf("")));
    CHECK_FALSE(update(true, infinity));
    CHECK_FALSE(update(false, std::numeric_limits<float>::max()));
}

TEST_CASE("updates are reported as stagnating if their mean efficiency is below 0.98", "[reports][diagnosis]") {
    const auto mean = [](double efficiency) {
        return found("stagnation", 40, [&](Steps& steps) {
            for (std::size_t t = 0; t < steps.size(); ++t)
                steps[t].update_eff = efficiency + (t % 2 == 0 ? 0.01 : -0.01);
        });
    };
    CHECK(figure(mean(0.98 - 1e-9), "percent") == Approx(98));
    CHECK_FALSE(mean(0.98 + 1e-9));
}

TEST_CASE("moments are reported as frozen if a fifth of them do not change in the second half of the steps",
          "[reports][diagnosis]") {
    const auto shares = [](double first, double second) {
        return found("frozen-moments", 40, [&](Steps& steps) {
            for (std::size_t t = 0; t < steps.size(); ++t) steps[t].moment_stagnation = t < 20 ? first : second;
        });
    };
    CHECK(figure(shares(0, 0.2 + 1e-9), "percent") == Approx(20));
    CHECK_FALSE(shares(0, 0.2 - 1e-9));
    CHECK_FALSE(shares(1, 0.2 - 1e-9));
    CHECK(shares(0, 0.2 + 1e-9)->seen.step == 20);
}

TEST_CASE("weights without master copies are reported with the bytes of their format", "[reports][diagnosis]") {
    const auto bytes = [](std::int64_t params, std::int64_t master) -> std::optional<Diagnosed> {
        Log log = healthy(40);
        log.runs[1].row.bytes_params = params, log.runs[1].row.bytes_master = master;
        const Verdicts verdicts = diagnose(log);
        if (verdicts.findings.empty()) return {};
        REQUIRE(verdicts.findings.size() == 1);
        CHECK(verdicts.findings[0].diagnosis->id == "no-master");
        return verdicts.findings[0];
    };
    CHECK(figure(bytes(200, 0), "bytes") == 2);
    CHECK(figure(bytes(100, 0), "bytes") == 1);
    CHECK_FALSE(bytes(400, 0));
    CHECK_FALSE(bytes(200, 400));
}

TEST_CASE("clipping before unscaling is reported if the norm is the loss scale or its inverse, within a factor of 8",
          "[reports][diagnosis]") {
    const auto clipped = [](std::size_t count, float scale, double power) {
        return found("clip-before-unscale", count, [&](Steps& steps) {
            for (StepRow& step : steps) step.loss_scale = scale, step.grad_norm = static_cast<float>(std::exp2(power));
        });
    };
    CHECK(figure(clipped(8, 1024, 10), "ratio") == 1024);
    CHECK_FALSE(clipped(7, 1024, 10));
    CHECK(clipped(8, 256, 8));
    CHECK_FALSE(clipped(8, 255, 8));
    for (const double sign : {1.0, -1.0}) {
        CHECK(clipped(8, 1024, sign * 7.01));
        CHECK_FALSE(clipped(8, 1024, sign * 6.99));
        CHECK(clipped(8, 1024, sign * 12.99));
        CHECK_FALSE(clipped(8, 1024, sign * 13.01));
    }
}

TEST_CASE("halved gradients are reported if the norm drops to between 0.4 and 0.6 of its value when the scale grows",
          "[reports][diagnosis]") {
    const auto halved = [](std::size_t growths, std::size_t others, float drop) {
        return found("half-gradient-on-growth", growths + others, [&](Steps& steps) {
            for (std::size_t t = 0; t < growths; ++t)
                steps[t].grad_norm = drop, steps[t + 1].loss_scale = 2 * steps[t].loss_scale;
            for (std::size_t t = growths + 1; t < steps.size(); ++t) steps[t].loss_scale = steps[growths].loss_scale;
        });
    };
    CHECK(figure(halved(2, 8, 0.5f), "growths") == 2);
    CHECK_FALSE(halved(1, 8, 0.5f));
    CHECK_FALSE(halved(2, 7, 0.5f));
    CHECK_FALSE(halved(2, 8, 0.39f));
    CHECK(halved(2, 8, 0.41f));
    CHECK(halved(2, 8, 0.59f));
    CHECK_FALSE(halved(2, 8, 0.61f));
}

TEST_CASE(
    "a spike of more than half a nat is reported if the mean loss ends over a quarter of a nat above its old level",
    "[reports][diagnosis]") {
    // In each step the loss is the moving mean plus `jumps[t]`, and a tenth of the jump is added to the mean.
    const auto diverged = [](const std::vector<double>& jumps) {
        return found("divergence-after-spike", 10 + jumps.size(), [&](Steps& steps) {
            double mean = 2;
            for (std::size_t t = 0; t < steps.size(); ++t) {
                const double jump = t < 10 ? 0 : jumps[t - 10];
                steps[t].loss = mean + jump;
                mean += 0.1 * jump;
            }
        });
    };
    const auto rising = [](double spike, std::size_t count) {
        std::vector<double> jumps(count, 0.4);
        jumps.insert(jumps.begin(), spike);
        return jumps;
    };
    CHECK(figure(diverged(rising(0.501, 20)), "jump") == Approx(0.501));
    CHECK_FALSE(diverged(rising(0.499, 20)));
    CHECK(figure(diverged(rising(0.6, 5)), "rise") == Approx(0.26));
    CHECK_FALSE(diverged(rising(0.6, 4)));  // the mean rises by 0.22
    // The mean falls by 0.8 after the spike, and ends 0.26 below its value before the spike.
    std::vector<double> recovered(20, -0.4);
    recovered.insert(recovered.begin(), 0.6);
    recovered.resize(33, 0.4);
    CHECK_FALSE(diverged(recovered));
}

TEST_CASE("losses are reported as rounded if at most half of them are distinct", "[reports][diagnosis]") {
    const auto rounded = [](std::size_t count, std::size_t values) {
        return found("loss-rounded", count, [&](Steps& steps) {
            for (std::size_t t = 0; t < steps.size(); ++t) steps[t].loss_rounded = float(t % values);
        });
    };
    CHECK(figure(rounded(16, 8), "values") == 8);
    CHECK_FALSE(rounded(16, 9));
    CHECK(rounded(8, 1));
    CHECK_FALSE(rounded(7, 1));
}

TEST_CASE("a finding names the seed in which it occurred first", "[reports][diagnosis]") {
    for (const std::int64_t first : {0, 1, 2}) {
        Log log = healthy(40, 3);
        for (std::int64_t seed = 0; seed < 3; ++seed) {
            log.runs[std::size_t(2 * seed + 1)].steps[seed == first ? 5 : std::size_t(10 + seed)].grad_norm =
                std::nanf("");
        }
        const Verdicts verdicts = diagnose(log);
        REQUIRE(verdicts.findings.size() == 1);
        CHECK(verdicts.findings[0].seed == first);
        CHECK(verdicts.findings[0].seen.step == 5);
        CHECK(verdicts.findings[0].seeds == 3);
        CHECK(verdicts.findings[0].of_seeds == 3);
    }
}

}  // namespace diagnosis_boundary_test
