// SPDX-License-Identifier: Apache-2.0
// Tests laws of training: the bytes are the same on every SIMD path, the baseline has a gap of zero, and skipped steps
// do not change the weights.
#include "experiments/training/run/trainer.hpp"
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/findings/divergence.hpp"
#include "reports/rows/csv.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

namespace trainer_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

std::filesystem::path fresh_directory(const std::string& name) {
    const auto path = test::memory_folder() / ("trainer_" + name);
    std::filesystem::remove_all(path);
    return path;
}

std::string contents(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

Experiment small_experiment(const std::filesystem::path& directory, const std::vector<std::string>& policies,
                            std::int64_t steps) {
    Experiment experiment;
    for (const std::string& name : policies) experiment.policies.push_back(load_policy(name));
    experiment.model = {.layers = 2, .width = 32, .heads = 2, .context = 24, .vocabulary = 40};
    experiment.options.steps = steps;
    experiment.options.batch = 3;
    experiment.options.micro_batches = 2;
    experiment.options.warmup = 3;
    experiment.options.eval_every = 4;
    experiment.options.eval_batches = 2;
    experiment.options.probe_every = 3;
    experiment.options.histogram_every = 3;
    experiment.options.token_weight = 0x1p-12;
    experiment.directory = directory;
    return experiment;
}

const std::atomic<bool> never{false};

void run(const Experiment& experiment, int threads, Simd simd) {
    CpuBackend backend(threads, simd);
    REQUIRE(run_experiment(backend, experiment, {}, never));
}

template <class Row>
std::vector<Row> rows_of(const std::filesystem::path& directory) {
    return CsvReader<Row>(directory / Row::file).rows();
}

}  // namespace

TEST_CASE("a run writes the same bytes for any number of threads and any SIMD path", "[experiments][trainer]") {
    const std::vector<std::string> policies{"fp32",     "tf32",         "amp-bf16",  "pure-bf16",     "pure-bf16-sr",
                                            "amp-fp16", "fp16-noscale", "pure-fp16", "fp8-tensorwise"};
    const auto reference = fresh_directory("reference");
    run(small_experiment(reference, policies, 7), 1, Simd::scalar);
    for (const Simd simd : available_simd()) {
        for (const int threads : {1, 2, 3}) {
            if (simd == Simd::scalar && threads == 1) continue;
            const auto other = fresh_directory("other");
            run(small_experiment(other, policies, 7), threads, simd);
            for (const char* file : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
                CAPTURE(simd_name(simd), threads, file);
                CHECK(contents(reference / file) == contents(other / file));
                CHECK(contents(reference / file).size() > 1000);
            }
        }
    }
}

TEST_CASE("a policy with fp32 at every site has a gap of exactly zero", "[experiments][trainer]") {
    const auto directory = fresh_directory("zero_gap");
    Experiment experiment = small_experiment(directory, {"fp32"}, 6);
    experiment.policies.push_back(
        parse_policy("name = \"spelled-out\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"fp32\"\n", "test"));
    run(experiment, 2, chosen_simd());
    int rows = 0;
    for (const StepRow& row : rows_of<StepRow>(directory)) {
        REQUIRE(row.gap.has_value());
        CHECK(*row.gap == 0.0f);
        CHECK(row.loss == *row.baseline_loss);
        ++rows;
    }
    CHECK(rows == 12);
}

TEST_CASE("under amp-fp16, an overflow skips the step, halves the scale and leaves the weights unchanged",
          "[experiments][trainer]") {
    const auto directory = fresh_directory("overflow");
    Experiment experiment = small_experiment(directory, {"fp32"}, 12);
    Policy policy = load_policy("amp-fp16");
    // With a token weight of 1, gradients times 2^24 overflow fp16 until the scale has fallen.
    policy.loss_scaler.set("init_scale", 0x1p24);
    experiment.policies.push_back(policy);
    experiment.options.token_weight = 1;
    run(experiment, 2, chosen_simd());
    int skipped = 0, taken = 0;
    float scale = 0x1p24f;
    for (const StepRow& row : rows_of<StepRow>(directory)) {
        if (row.policy != "amp-fp16") continue;
        CAPTURE(row.step, row.loss_scale, row.overflow_site);
        CHECK(row.loss_scale == scale);
        if (row.skipped) {
            ++skipped;
            scale /= 2;
            CHECK(row.update_norm == 0);
            CHECK(row.lost_updates == 0);
            CHECK_FALSE(row.overflow_site.empty());
            CHECK_FALSE(std::isfinite(row.grad_norm));
        } else {
            ++taken;
            CHECK(row.update_norm > 0);
        }
    }
    CHECK(skipped >= 2);
    CHECK(taken >= 2);
    CHECK(rows_of<RunRow>(directory).back().skipped_steps == skipped);
}

TEST_CASE("a skipped step leaves the weights unchanged, and the next step changes them", "[experiments][trainer]") {
    const ModelConfig config{.layers = 1, .width = 16, .heads = 2, .context = 8, .vocabulary = 16};
    CpuBackend backend(1);
    const ResolvedPolicy policy = resolve(load_policy("amp-fp16"), model_sites(config));
    TrainOptions options;
    Transformer model(backend, config, 1, policy, 0);
    model.initialise(0);
    Optimizer optimizer(backend, policy, options, model, 0);
    const auto scaler = make_loss_scaler(policy.loss_scaler);
    const auto weights = [&] {
        std::vector<std::vector<float>> all;
        for (const auto& p : model.parameters()) {
            all.emplace_back(static_cast<std::size_t>(p->value.count()));
            backend.download(p->value, all.back());
        }
        return all;
    };
    for (const auto& p : model.parameters()) backend.fill(p->grad, 1.0f);
    std::vector<float> last(static_cast<std::size_t>(model.parameters().back()->grad.count()), 1.0f);
    last.back() = HUGE_VALF;
    backend.upload(last, model.parameters().back()->grad);
    const auto before = weights();
    const StepOutcome outcome = optimizer.step(0, *scaler);
    CHECK(outcome.skipped);
    CHECK(weights() == before);
    CHECK(scaler->scale() == 32768.0f);
    for (const auto& p : model.parameters()) backend.fill(p->grad, 1.0f);
    CHECK_FALSE(optimizer.step(1, *scaler).skipped);
    CHECK(weights() != before);
}

TEST_CASE("an overflow at the floor of DeepSpeed's loss scale ends only the run in which it occurs",
          "[experiments][trainer]") {
    const auto directory = fresh_directory("floor");
    Experiment experiment = small_experiment(directory, {"fp32"}, 8);
    Policy policy = load_policy("amp-fp16");
    policy.name = "zero";
    // Gradients scaled by 2^30 overflow at once, and the floor of the scale is reached after two backoffs.
    policy.loss_scaler =
        LossScalerConfig(*find_scaler("ds-zero"), {{"init_scale", 0x1p30}, {"min_scale", 0x1p28}, {"hysteresis", 1}});
    experiment.policies.push_back(policy);
    policy.name = "fused";
    policy.loss_scaler = LossScalerConfig(*find_scaler("ds-fused"), {{"init_scale", 0x1p30}, {"min_scale", 0x1p28}});
    experiment.policies.push_back(policy);
    experiment.options.token_weight = 1;
    run(experiment, 2, chosen_simd());
    const auto runs = rows_of<RunRow>(directory);
    REQUIRE(runs.size() == 3);
    CHECK(runs[0].status == "ok");
    CHECK(runs[1].policy == "zero");
    CHECK(runs[1].status.starts_with("failed: loss scaler ds-zero: an Inf or NaN gradient"));
    CHECK(runs[1].diverged_step == 2);
    CHECK(runs[1].steps == 2);
    CHECK(runs[1].skipped_steps == 2);
    CHECK(runs[2].status == "ok");
    CHECK(runs[2].skipped_steps == 8);
    for (const PolicySummary& policy_summary : summarise(directory).policies) {
        CHECK((policy_summary.row.verdict == "diverged") == (policy_summary.row.policy == "zero"));
    }
}

TEST_CASE("fp16 without loss scaling loses gradients to underflow that loss scaling keeps", "[experiments][trainer]") {
    const auto directory = fresh_directory("underflow");
    run(small_experiment(directory, {"fp32", "amp-fp16", "fp16-noscale"}, 4), 2, chosen_simd());
    std::map<std::string, std::uint64_t> lost;
    for (const SiteRow& row : rows_of<SiteRow>(directory)) {
        if (row.site.find("grad") != std::string::npos) lost[row.policy] += row.underflow;
    }
    CAPTURE(lost["amp-fp16"], lost["fp16-noscale"]);
    CHECK(lost["fp16-noscale"] > 100 * (lost["amp-fp16"] + 1));
}

TEST_CASE("a stopped run has complete rows of steps, and no row in runs.csv", "[experiments][trainer]") {
    const auto directory = fresh_directory("stopped");
    CpuBackend backend(1);
    std::atomic<bool> stop{false};
    const auto progress = [&](const Progress& p) { stop = stop || p.step == 3; };
    CHECK_FALSE(run_experiment(backend, small_experiment(directory, {"fp32", "tf32"}, 50), progress, stop));
    CHECK(rows_of<StepRow>(directory).size() == 3);
    CHECK(rows_of<RunRow>(directory).empty());
}

TEST_CASE("the learning rate warms up and ends at its minimum", "[experiments][trainer]") {
    TrainOptions options;
    options.steps = 100;
    options.warmup = 10;
    CHECK(learning_rate(options, 0) == Approx(1e-4));
    CHECK(learning_rate(options, 9) == Approx(1e-3));
    CHECK(learning_rate(options, 10) == Approx(1e-3));
    CHECK(learning_rate(options, 99) == Approx(1e-4));
    for (std::int64_t step = 11; step < 100; ++step)
        CHECK(learning_rate(options, step) < learning_rate(options, step - 1));
}

TEST_CASE("an existing run directory is refused unless forced", "[experiments][trainer]") {
    const auto directory = fresh_directory("exists");
    Experiment experiment = small_experiment(directory, {"fp32"}, 2);
    run(experiment, 1, chosen_simd());
    const std::string before = contents(directory / "steps.csv");
    CpuBackend backend(1);
    CHECK_THROWS_AS(run_experiment(backend, experiment, {}, never), Error);
    CHECK(contents(directory / "steps.csv") == before);
    experiment.force = true;
    CHECK(run_experiment(backend, experiment, {}, never));
    CHECK(contents(directory / "steps.csv") == before);
}

}  // namespace trainer_test
