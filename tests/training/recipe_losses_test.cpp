// SPDX-License-Identifier: Apache-2.0
// Compares the losses after 300 steps under recipes with the figures of the specification's prototype (fp8-recipes
// 10.3).
#include "reports/findings/student.hpp"
#include "tests/test.hpp"
#include "tests/training/prototype.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace recipe_losses_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

constexpr std::int64_t loss_draws = 4;  // the prototype also has four

/// Result of one run: the mean loss of the last 50 of 300 steps, and the underflows of X, W and dY in percent.
struct Trained {
    double loss = 0;
    std::array<double, 3> underflow{};
};

/// Slots of the copies of X, W and dY. Each of these tensors is cast once for each of the two matmuls that read it. In
/// the specification's figures for 4 bits, the Hadamard transform changes the underflow of dY by only a third. It
/// transforms only the copy for the weight gradient, so the figures must count both copies.
constexpr std::array<std::array<std::string_view, 2>, 3> copies{
    {{":forward.a", ":weight_grad.b"}, {":forward.b", ":input_grad.b"}, {":input_grad.a", ":weight_grad.a"}}};

/// Trains 300 steps. Counts underflows at each site in the first step, which differs from all other steps, and in every
/// fifteenth step.
Trained train(const Policy& policy, std::int64_t seed) {
    PrototypeRun run(policy, seed);
    Trained trained;
    std::array<double, 3> first{}, later{};
    int samples = 0;
    for (std::int64_t step = 0; step < run.options.steps; ++step) {
        const bool is_sampled = step % 15 == 0;
        const StepResult result = run.step.run(step, is_sampled ? Sampling::sites : Sampling::counts);
        if (step >= run.options.steps - 50) trained.loss += result.loss / 50;
        if (!is_sampled) continue;
        std::array<double, 3> lost{}, count{};
        for (const SiteRow& row : run.step.probe().site_rows("", "", 0, step)) {
            for (std::size_t i = 0; i < copies.size(); ++i) {
                const bool is_copy = std::any_of(copies[i].begin(), copies[i].end(),
                                                 [&](std::string_view slot) { return row.site.ends_with(slot); });
                if (!is_copy || row.format == "bf16" || row.format == "fp32" ||
                    row.site.find("attn.mix") != std::string::npos)
                    continue;
                lost[i] += static_cast<double>(row.underflow);
                count[i] += static_cast<double>(row.count);
            }
        }
        for (std::size_t i = 0; i < 3; ++i) {
            if (count[i] > 0) (step == 0 ? first : later)[i] += 100 * lost[i] / count[i];
        }
        samples += step == 0 ? 0 : 1;
    }
    const auto steps = static_cast<double>(run.options.steps);
    for (std::size_t i = 0; i < 3; ++i) trained.underflow[i] = (first[i] + (steps - 1) * later[i] / samples) / steps;
    return trained;
}

struct LossLine {
    const char* name;
    Policy policy;
    double gap, half_width;
    std::array<double, 3> underflow;  ///< negative if the specification has no figure
    std::array<double, 3> unit;       ///< unit of the last digit of `underflow` in the specification
    int bits;
};

struct Ended {
    const LossLine* line;
    std::vector<double> gaps;
    std::array<std::array<double, loss_draws>, 3> underflow{};
};

double mean_of_draws(const std::array<double, loss_draws>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / loss_draws;
}

const std::vector<LossLine>& loss_lines() {
    static const std::array<double, 3> fine{0.001, 0.001, 0.001}, coarse{0.1, 0.1, 0.1}, none{-1, -1, -1};
    static const std::vector<LossLine> lines{
        {"bf16, no fp8", prototype(""), 0.0000, 0.0001, none, fine, 16},
        {"current, e4m3 grads", current_with_e4m3(), 0.0004, 0.0008, {0.002, 0.001, 0.04}, {0.001, 0.001, 0.01}, 8},
        {"ao_rowwise_gw_hp", prototype("ao-rowwise-gw-hp"), 0.0004, 0.0002, {0.001, 0.001, 0.015}, fine, 8},
        {"ao_rowwise", prototype("ao-rowwise"), 0.0006, 0.0009, {0.001, 0.001, 0.018}, fine, 8},
        {"mxfp8 RCEIL", prototype("te-mxfp8"), 0.0006, 0.0005, {0.001, 0.001, 0.009}, fine, 8},
        {"te_current (e5m2 grads)", prototype("te-current"), 0.0008, 0.0004, {0.002, 0.001, 0.001}, fine, 8},
        // In section 10.3 of the specification, no weights underflow. But the initial weights are Gaussian, and section
        // 10.1 gives an underflow of 0.001 for Gaussian numbers in the same blocks. This value is also measured here.
        {"te_block", prototype("te-block"), 0.0009, 0.0004, {0.001, 0.001, 0.012}, fine, 8},
        {"te_delayed max 1024", prototype("te-delayed"), 0.0012, 0.0008, {0.004, 0.02, 0.14}, {0.001, 0.01, 0.01}, 8},
        {"te_delayed most_recent 16",
         prototype("te-delayed:most_recent:history=16"),
         0.0013,
         0.0015,
         {0.004, 0.02, 0.14},
         {0.001, 0.01, 0.01},
         8},
        {"mxfp8 FLOOR", prototype("ao-mxfp8-floor"), 0.0014, 0.0008, {0.001, 0.001, 0.009}, fine, 8},
        {"nvfp4 no SR", nvfp4_without_stochastic(), 0.0081, 0.0030, {7.3, 10.1, 9.1}, coarse, 4},
        {"nvfp4 1-D W", nvfp4_with_flat_weights(), 0.0086, 0.0006, {7.3, 6.7, 8.9}, coarse, 4},
        {"nvfp4 plain", nvfp4_plain(), 0.0086, 0.0051, {7.3, 6.7, 12.6}, coarse, 4},
        {"nvfp4 full", prototype("te-nvfp4"), 0.0092, 0.0043, {7.3, 10.1, 8.9}, coarse, 4},
        {"nvfp4 no RHT", nvfp4_without_hadamard(), 0.0097, 0.0017, {7.2, 10.1, 12.2}, coarse, 4},
        {"mxfp4 RCEIL", mxfp4("ao_rceil", false), 0.0138, 0.0044, {13.0, 11.0, 20.1}, coarse, 4},
        {"mxfp4 FLOOR", mxfp4("ao_floor", false), 0.0155, 0.0025, none, coarse, 4},
        {"mxfp4 RCEIL+SR", mxfp4("ao_rceil", true), 0.0165, 0.0080, none, coarse, 4},
    };
    return lines;
}

/// Returns the losses of fp32. They are computed once per process.
const std::array<double, loss_draws>& fp32_losses() {
    static const std::array<double, loss_draws> losses = [] {
        std::array<double, loss_draws> made{};
        for (std::size_t seed = 0; seed < loss_draws; ++seed) {
            made[seed] = train(load_policy("fp32"), static_cast<std::int64_t>(seed)).loss;
        }
        return made;
    }();
    return losses;
}

/// Returns the results of all lines whose operands have `bits` bits. These lines are trained once per process.
const std::vector<Ended>& ended(int bits) {
    static std::map<int, std::vector<Ended>> known;
    std::vector<Ended>& found = known[bits];
    if (!found.empty()) return found;
    for (const LossLine& line : loss_lines()) {
        if (line.bits != bits) continue;
        Ended outcome{.line = &line, .gaps = {}};
        for (std::size_t seed = 0; seed < loss_draws; ++seed) {
            const Trained run = train(line.policy, static_cast<std::int64_t>(seed));
            outcome.gaps.push_back(run.loss - fp32_losses()[seed]);
            for (std::size_t i = 0; i < 3; ++i) outcome.underflow[i][seed] = run.underflow[i];
        }
        const PairedMean gap = paired_mean(outcome.gaps);
        std::cout << line.name << ": gap " << gap.mean << " +- " << *gap.half_width_95 << ", underflow "
                  << mean_of_draws(outcome.underflow[0]) << " / " << mean_of_draws(outcome.underflow[1]) << " / "
                  << mean_of_draws(outcome.underflow[2]) << std::endl;
        found.push_back(std::move(outcome));
    }
    return found;
}

/// Returns how much the underflow of operand `i` scatters between draws: the relative standard deviation, pooled over
/// all lines in `found`.
double scatter(const std::vector<Ended>& found, std::size_t i) {
    double squares = 0, freedom = 0;
    for (const Ended& each : found) {
        const double mean = mean_of_draws(each.underflow[i]);
        if (each.line->underflow[i] < 0 || mean == 0) continue;
        for (const double one : each.underflow[i]) squares += (one / mean - 1) * (one / mean - 1);
        freedom += loss_draws - 1;
    }
    return freedom > 0 ? std::sqrt(squares / freedom) : 0;
}

// Compares all lines whose operands have `bits` bits with the specification.
//
// A gap is a mean of four pairs, in the specification and here, and each mean has a 95 % confidence interval. If the
// true gaps are equal, the two intervals fail to overlap in fewer than one of 100 comparisons. An underflow is a mean
// of four draws, in the specification and here. The difference of the two means has the standard deviation
// s sqrt(1/4 + 1/4), where s is the standard deviation of a draw, pooled over these lines. The bound is four standard
// deviations plus half a unit of the specification's last digit.
void check_lines(int bits) {
    const std::vector<Ended>& found = ended(bits);
    const double base = mean_of_draws(fp32_losses());
    for (const Ended& each : found) {
        const LossLine& line = *each.line;
        const PairedMean gap = paired_mean(each.gaps);
        CAPTURE(line.name, line.gap, gap.mean, *gap.half_width_95);
        CHECK(std::fabs(gap.mean - line.gap) < line.half_width + *gap.half_width_95);
        // Bounds of a healthy run (fp8-recipes 7).
        CHECK(gap.mean < (line.bits == 4 ? 0.015 : 0.0025) * base);
        for (std::size_t i = 0; i < 3; ++i) {
            if (line.underflow[i] < 0) continue;
            const double here = mean_of_draws(each.underflow[i]), s = scatter(found, i);
            CAPTURE(i, line.underflow[i], here, s);
            CHECK(std::fabs(here - line.underflow[i]) <= line.unit[i] / 2 + 4 * s * here * std::sqrt(2.0 / loss_draws));
        }
    }
}

double mean_gap(int bits) {
    double sum = 0;
    for (const Ended& each : ended(bits)) sum += paired_mean(each.gaps).mean;
    return sum / static_cast<double>(ended(bits).size());
}

}  // namespace

TEST_CASE("300 steps in fp32 and bf16 reach the loss of the prototype in section 10.3 of the specification",
          "[recipe][slow]") {
    const double mean = mean_of_draws(fp32_losses());
    double squares = 0;
    for (const double each : fp32_losses()) squares += (each - mean) * (each - mean);
    const double deviation = std::sqrt(squares / (loss_draws - 1));
    std::cout << "fp32: " << mean << " nats, draws scatter by " << deviation << std::endl;
    // The language is also drawn at random, so this compares two means of four draws.
    CHECK(std::fabs(mean - 2.3666) < 4 * deviation * std::sqrt(2.0 / loss_draws));
    check_lines(16);
}

TEST_CASE("300 steps in 8 bits end as far from fp32 as the prototype in section 10.3 of the specification",
          "[recipe][slow]") {
    check_lines(8);
}

TEST_CASE("300 steps in 4 bits end as far from fp32 as the prototype in section 10.3 of the specification",
          "[recipe][slow]") {
    check_lines(4);
}

// The specification says "8-bit versus 4-bit separates by a factor of about 10 and without overlap". The ratio of the
// mean gaps must be 10 within a factor of sqrt(10).
TEST_CASE("the loss gaps of 4-bit recipes are about ten times as large as those of 8-bit recipes", "[recipe][slow]") {
    double worst_of_eight = 0, best_of_four = 1;
    for (const Ended& each : ended(8)) worst_of_eight = std::max(worst_of_eight, paired_mean(each.gaps).mean);
    for (const Ended& each : ended(4)) best_of_four = std::min(best_of_four, paired_mean(each.gaps).mean);
    CHECK(best_of_four > worst_of_eight);
    CHECK(mean_gap(4) > std::sqrt(10.0) * mean_gap(8));
    CHECK(mean_gap(4) < 10 * std::sqrt(10.0) * mean_gap(8));
}

}  // namespace recipe_losses_test
