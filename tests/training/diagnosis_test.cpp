// SPDX-License-Identifier: Apache-2.0
// Tests that diagnoses describe what happened in a run. For each diagnosis, the tests train a policy that has the
// problem, and another policy that does not have it.
#include "reports/findings/diagnosis.hpp"

#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/pages/html.hpp"
#include "reports/rows/html_text.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace diagnosis_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

using Ids = std::set<std::string>;

const std::atomic<bool> never{false};

Policy variant(const std::string& name, const std::string& base, const std::string& toml) {
    return parse_policy("name = \"" + name + "\"\nextends = \"" + base + "\"\n" + toml, "test");
}

Experiment small(const std::vector<Policy>& policies, std::int64_t steps = 40) {
    Experiment experiment;
    experiment.policies = {load_policy("fp32")};
    experiment.policies.insert(experiment.policies.end(), policies.begin(), policies.end());
    experiment.model = {.layers = 1, .width = 32, .heads = 2, .context = 24, .vocabulary = 40};
    experiment.options.steps = steps;
    experiment.options.batch = 4;
    experiment.options.warmup = 4;
    experiment.options.eval_every = 0;
    experiment.options.eval_batches = 1;
    experiment.options.probe_every = 5;
    experiment.options.histogram_every = 0;
    return experiment;
}

/// Trains the experiment and returns the log of its run directory.
Log trained(const TemporaryFolder& folder, Experiment experiment, Keep keep = Keep::summary) {
    experiment.directory = folder / "run";
    CpuBackend backend(1, chosen_simd());
    REQUIRE(run_experiment(backend, experiment, {}, never));
    return read_runs(std::vector<std::filesystem::path>{folder / "run"}, keep);
}

Ids ids_of(const Verdicts& verdicts, const std::string& policy) {
    Ids ids;
    for (const Diagnosed& finding : verdicts.findings) {
        if (finding.policy == policy) ids.emplace(finding.diagnosis->id);
    }
    return ids;
}

const Diagnosed& finding_of(const Verdicts& verdicts, const std::string& policy, const std::string& id) {
    const auto found = std::find_if(verdicts.findings.begin(), verdicts.findings.end(), [&](const Diagnosed& finding) {
        return finding.policy == policy && finding.diagnosis->id == id;
    });
    REQUIRE(found != verdicts.findings.end());
    return *found;
}

double figure_of(const Diagnosed& finding, const std::string& name) {
    for (const Figure& figure : finding.seen.figures) {
        if (figure.name == name) return figure.value;
    }
    FAIL("no figure " << name);
    return 0;
}

const RunLog& run_of(const Log& log, const std::string& policy) {
    const auto found =
        std::find_if(log.runs.begin(), log.runs.end(), [&](const RunLog& run) { return run.policy == policy; });
    REQUIRE(found != log.runs.end());
    return *found;
}

/// Multiplies the loss by 1024 and never unscales the gradients, as if clipping came before unscaling.
class ForgetfulScaler final : public LossScaler {
  public:
    double scale() const override { return 1024; }
    Unscaling unscaling(bool) override { return {}; }
    void update(bool) override {}
};
const ScalerKind forgetful{.name = "forgetful", .make = [](const LossScalerConfig&) -> std::unique_ptr<LossScaler> {
                               return std::make_unique<ForgetfulScaler>();
                           }};

}  // namespace

TEST_CASE("a loss scale that starts far too high causes an overflow cascade and skips the first steps",
          "[diagnosis][overflow-cascade][first-steps-skipped][schedule-over-skips]") {
    const TemporaryFolder folder;
    const Log log = trained(
        folder, small({variant("high", "amp-fp16", "loss_scaler = { kind = \"torch\", init_scale = 1099511627776.0 }"),
                       load_policy("amp-fp16")}));
    const Verdicts verdicts = diagnose(log);
    CHECK(ids_of(verdicts, "high") == Ids{"overflow-cascade", "first-steps-skipped", "schedule-over-skips"});
    CHECK(ids_of(verdicts, "amp-fp16").empty());
    CHECK(ids_of(verdicts, "fp32").empty());
    const std::vector<StepRow>& steps = run_of(log, "high").steps;
    const auto taken = std::find_if(steps.begin(), steps.end(), [](const StepRow& step) { return !step.skipped; });
    REQUIRE(taken != steps.end());
    const Diagnosed& cascade = finding_of(verdicts, "high", "overflow-cascade");
    CHECK(cascade.seen.step == 0);
    CHECK(cascade.seen.site == steps.front().overflow_site);
    CHECK(figure_of(cascade, "skipped") == double(taken->step));
    CHECK(figure_of(cascade, "from") == 0x1p40);
    CHECK(figure_of(cascade, "to") == taken->loss_scale);
    // The scale halves at every overflow, so there is one halving for each skipped step.
    CHECK(figure_of(cascade, "halvings") == double(taken->step));
    CHECK(figure_of(finding_of(verdicts, "high", "first-steps-skipped"), "lr") == taken->lr);
    CHECK(cascade.sentence().find("from 2^40 to ") != std::string::npos);

    // If the schedule does not advance in skipped steps, "schedule-over-skips" is not diagnosed.
    Log waiting = log;
    for (RunLog& run : waiting.runs) {
        for (std::size_t i = 1; i < run.steps.size(); ++i) {
            if (run.steps[i - 1].skipped) run.steps[i].lr = run.steps[i - 1].lr;
        }
    }
    CHECK(ids_of(diagnose(waiting), "high") == Ids{"overflow-cascade", "first-steps-skipped"});
}

TEST_CASE("a loss scaler that can no longer lower its scale is diagnosed: it fails, stays at its floor, or is static",
          "[diagnosis][scale-at-floor]") {
    const TemporaryFolder folder;
    const std::string high = "init_scale = 1099511627776.0\nmin_scale = 1073741824.0\n";
    const Log log = trained(
        folder, small({variant("raises", "amp-fp16", "[loss_scaler]\nkind = \"ds-zero\"\nhysteresis = 1\n" + high),
                       variant("stays", "amp-fp16", "[loss_scaler]\nkind = \"ds-fused\"\n" + high),
                       variant("static", "amp-fp16", "[loss_scaler]\nkind = \"static\"\ninit_scale = 1073741824.0\n"),
                       variant("finds-one", "amp-fp16", "[loss_scaler]\nkind = \"ds-fused\"\nmin_scale = 1.0\n")}));
    const Verdicts verdicts = diagnose(log);
    const Diagnosed& raises = finding_of(verdicts, "raises", "scale-at-floor");
    CHECK(raises.seen.step == 10);  // the scale falls from 2^40 to 2^31 in the ten steps before
    CHECK(figure_of(raises, "scale") == 0x1p30);
    CHECK(figure_of(raises, "skipped") == 11);
    const Diagnosed& stays = finding_of(verdicts, "stays", "scale-at-floor");
    CHECK(stays.seen.step == 10);
    CHECK(figure_of(stays, "scale") == 0x1p30);
    CHECK(figure_of(stays, "skipped") == 30);
    // A static scale cannot fall, so an overflow cascade is not diagnosed.
    CHECK(ids_of(verdicts, "static") == Ids{"scale-at-floor", "first-steps-skipped", "schedule-over-skips"});
    CHECK(ids_of(verdicts, "finds-one").empty());
}

TEST_CASE(
    "if activations exceed fp16's range, NaN losses, the overflowing site and the falling loss scale are diagnosed",
    "[diagnosis][nan-in-loss][activation-overflow][divergence-after-spike][scale-at-floor]") {
    const TemporaryFolder folder;
    Experiment experiment = small({load_policy("amp-fp16"), load_policy("amp-bf16")}, 80);
    experiment.options.lr = 3;
    experiment.options.clip = 0;
    const Log log = trained(folder, experiment);
    const Verdicts verdicts = diagnose(log);
    const Ids fp16 = ids_of(verdicts, "amp-fp16");
    for (const char* id : {"nan-in-loss", "activation-overflow", "scale-at-floor", "overflow-cascade"}) {
        CAPTURE(id);
        CHECK(fp16.contains(id));
    }
    const Diagnosed& nan = finding_of(verdicts, "amp-fp16", "nan-in-loss");
    const std::vector<StepRow>& steps = run_of(log, "amp-fp16").steps;
    std::int64_t not_finite = 0;
    for (const StepRow& step : steps) not_finite += std::isfinite(step.loss) ? 0 : 1;
    CHECK(figure_of(nan, "count") == double(not_finite));
    REQUIRE(nan.seen.step);
    CHECK(figure_of(nan, "shown") == steps[std::size_t(*nan.seen.step) - 1].loss);
    const Diagnosed& range = finding_of(verdicts, "amp-fp16", "activation-overflow");
    CHECK(figure_of(range, "percent") >= 100);
    CHECK(range.seen.site.find(":forward.") != std::string::npos);
    // bf16 has enough range, but the learning rate is still too high.
    const Ids bf16 = ids_of(verdicts, "amp-bf16");
    CHECK_FALSE(bf16.contains("nan-in-loss"));
    CHECK_FALSE(bf16.contains("activation-overflow"));
    CHECK(bf16.contains("divergence-after-spike"));
    CHECK(ids_of(verdicts, "fp32") == Ids{"divergence-after-spike"});
    CHECK(figure_of(finding_of(verdicts, "fp32", "divergence-after-spike"), "jump") > 0.5);
}

TEST_CASE("tf32 has fp32's range, so a tf32 run is not diagnosed as close to overflow",
          "[diagnosis][activation-overflow]") {
    const TemporaryFolder folder;
    const Log log = trained(folder, small({load_policy("tf32")}));
    CHECK_FALSE(ids_of(diagnose(log), "tf32").contains("activation-overflow"));
}

TEST_CASE("with a static scale that never skips steps, infinities reach the weights", "[diagnosis][nonfinite-update]") {
    const TemporaryFolder folder;
    const std::string text = "[loss_scaler]\nkind = \"static\"\nskip = false\ninit_scale = ";
    const Log log = trained(folder, small({variant("bare", "amp-fp16", text + "1073741824.0\n"),
                                           variant("lucky", "amp-fp16", text + "1024.0\n")}));
    const Verdicts verdicts = diagnose(log);
    CHECK(ids_of(verdicts, "bare") == Ids{"nonfinite-update", "nan-in-loss"});
    CHECK(finding_of(verdicts, "bare", "nonfinite-update").seen.step == 0);
    CHECK(ids_of(verdicts, "lucky").empty());
}

TEST_CASE("bf16 weights stagnate at a small learning rate, except with stochastic rounding",
          "[diagnosis][stagnation][no-master][loss-rounded]") {
    const TemporaryFolder folder;
    Experiment experiment = small({load_policy("pure-bf16"), load_policy("pure-bf16-sr"), load_policy("amp-bf16")});
    experiment.options.lr = 2e-5, experiment.options.min_lr = 2e-6;
    const Log log = trained(folder, experiment);
    const Verdicts verdicts = diagnose(log);
    CHECK(ids_of(verdicts, "pure-bf16") == Ids{"stagnation", "no-master", "loss-rounded"});
    CHECK(ids_of(verdicts, "pure-bf16-sr") == Ids{"no-master", "loss-rounded"});
    CHECK(ids_of(verdicts, "amp-bf16").empty());
    CHECK(figure_of(finding_of(verdicts, "pure-bf16", "stagnation"), "percent") < 50);
    CHECK(figure_of(finding_of(verdicts, "pure-bf16", "no-master"), "bytes") == 2);
    std::set<float> values;
    for (const StepRow& step : run_of(log, "pure-bf16").steps) values.insert(*step.loss_rounded);
    CHECK(figure_of(finding_of(verdicts, "pure-bf16", "loss-rounded"), "values") == double(values.size()));
}

TEST_CASE("second moments in bf16 freeze at a beta2 of 0.999, and decay at 0.98", "[diagnosis][frozen-moments]") {
    const TemporaryFolder folder;
    Policy slow = variant("slow", "pure-bf16", ""), fast = variant("fast", "pure-bf16", ""),
           wide = variant("wide", "amp-bf16", "");
    slow.training.beta2 = 0.999, fast.training.beta2 = 0.98, wide.training.beta2 = 0.999;
    const Log log = trained(folder, small({slow, fast, wide}));
    const Verdicts verdicts = diagnose(log);
    CHECK(ids_of(verdicts, "slow").contains("frozen-moments"));
    CHECK_FALSE(ids_of(verdicts, "fast").contains("frozen-moments"));
    CHECK(ids_of(verdicts, "wide").empty());
    double sum = 0;
    const std::vector<StepRow>& steps = run_of(log, "slow").steps;
    for (std::size_t i = 20; i < 40; ++i) sum += *steps[i].moment_stagnation;
    CHECK(figure_of(finding_of(verdicts, "slow", "frozen-moments"), "percent") == Approx(100 * sum / 20));
}

TEST_CASE("gradient underflow is diagnosed with its site, and loss scaling reduces it",
          "[diagnosis][gradient-underflow]") {
    const TemporaryFolder folder;
    Experiment experiment = small({load_policy("fp16-noscale"), load_policy("amp-fp16")});
    experiment.options.token_weight = 0x1p-14;
    const Log log = trained(folder, experiment, Keep::all);
    const Verdicts verdicts = diagnose(log);
    CHECK(ids_of(verdicts, "fp16-noscale") == Ids{"gradient-underflow"});
    const Diagnosed& finding = finding_of(verdicts, "fp16-noscale", "gradient-underflow");
    double worst = 0;
    for (const SiteRow& row : run_of(log, "fp16-noscale").sites) {
        if (row.site != finding.seen.site || row.step != finding.seen.step) continue;
        worst = 100 * double(row.underflow) / double(row.count);
    }
    CHECK(worst > 1);
    CHECK(figure_of(finding, "percent") == Approx(worst));
    CHECK(is_gradient_slot(finding.seen.site));
    // With a loss scaler, a far smaller share of the elements underflows.
    for (const Diagnosed& other : verdicts.findings) {
        if (other.policy == "amp-fp16") CHECK(figure_of(other, "percent") < worst / 4);
    }
}

TEST_CASE("if gradients are clipped before unscaling, their norms are wrong by a factor of the loss scale",
          "[diagnosis][clip-before-unscale]") {
    const TemporaryFolder folder;
    Policy early = variant("early", "amp-fp16", "");
    early.loss_scaler = LossScalerConfig(forgetful);
    const Verdicts verdicts = diagnose(trained(
        folder,
        small({early, variant("late", "amp-fp16", "[loss_scaler]\nkind = \"static\"\ninit_scale = 1024.0\n")})));
    CHECK(ids_of(verdicts, "early") == Ids{"clip-before-unscale"});
    CHECK(figure_of(finding_of(verdicts, "early", "clip-before-unscale"), "ratio") == Approx(1024).epsilon(0.05));
    CHECK(ids_of(verdicts, "late").empty());
}

TEST_CASE("Adam in fp16 with an eps of 1e-8 divides by zero, and the finite gradient is not blamed",
          "[diagnosis][division-by-zero]") {
    const TemporaryFolder folder;
    const Verdicts verdicts = diagnose(trained(
        folder,
        small({variant("small-eps", "pure-fp16", "[optimizer]\neps = 1e-8\n"),
               variant("large-eps", "pure-fp16", "[optimizer]\neps = 1e-4\n[loss_scaler]\nkind = \"none\"\n")})));
    CHECK(finding_of(verdicts, "small-eps", "division-by-zero").seen.step == 0);
    CHECK_FALSE(ids_of(verdicts, "small-eps").contains("nonfinite-update"));
    CHECK_FALSE(ids_of(verdicts, "large-eps").contains("division-by-zero"));
}

TEST_CASE("DeepSpeed's halved gradients are diagnosed at the steps at which the scale grows",
          "[diagnosis][half-gradient-on-growth]") {
    const TemporaryFolder folder;
    const std::string text = "[loss_scaler]\nkind = \"ds-zero\"\ninit_scale = 16.0\ngrowth_interval = 6\n";
    const Verdicts verdicts =
        diagnose(trained(folder, small({variant("halves", "amp-fp16", text),
                                        variant("does-not", "amp-fp16", text + "growth_step_half_grad = false\n")})));
    CHECK(ids_of(verdicts, "halves") == Ids{"half-gradient-on-growth"});
    CHECK(figure_of(finding_of(verdicts, "halves", "half-gradient-on-growth"), "drop") == Approx(0.5).epsilon(0.01));
    CHECK(ids_of(verdicts, "does-not").empty());
}

TEST_CASE("micro-batches added in bf16 are diagnosed from the settings", "[diagnosis][narrow-accumulation]") {
    const TemporaryFolder folder, single;
    Experiment experiment = small({load_policy("pure-bf16"), load_policy("amp-bf16")}, 10);
    CHECK_FALSE(ids_of(diagnose(trained(single, experiment)), "pure-bf16").contains("narrow-accumulation"));
    experiment.options.micro_batches = 4;
    const Verdicts verdicts = diagnose(trained(folder, experiment));
    CHECK(figure_of(finding_of(verdicts, "pure-bf16", "narrow-accumulation"), "parts") == 4);
    CHECK(ids_of(verdicts, "amp-bf16").empty());
    // A separate sum in fp32 is not narrow, although the gradients are.
    const TemporaryFolder wide;
    Experiment sums = small({variant("wide-sum", "pure-bf16", "[[rule]]\nparams = \"*\"\naccum = \"fp32\"\n"),
                             variant("narrow-sum", "amp-bf16", "[[rule]]\nparams = \"*\"\naccum = \"bf16\"\n")},
                            10);
    sums.options.micro_batches = 4;
    const Verdicts summed = diagnose(trained(wide, sums));
    CHECK_FALSE(ids_of(summed, "wide-sum").contains("narrow-accumulation"));
    CHECK(finding_of(summed, "narrow-sum", "narrow-accumulation").seen.site.ends_with(":accum"));
    // A policy can set its own number of micro-batches, as the policies of imported configs do.
    const TemporaryFolder own;
    const Verdicts divided = diagnose(trained(
        own,
        small({variant("parts", "pure-bf16", "[accumulation]\nmicro_batches = 2\n"), load_policy("pure-bf16")}, 10)));
    CHECK(figure_of(finding_of(divided, "parts", "narrow-accumulation"), "parts") == 2);
    CHECK_FALSE(ids_of(divided, "pure-bf16").contains("narrow-accumulation"));
}

TEST_CASE("the wire format between ranks is diagnosed if it is narrower than fp32", "[diagnosis][narrow-wire]") {
    const TemporaryFolder folder;
    Experiment experiment =
        small({variant("low", "amp-bf16", "[reduce]\nwire = \"bf16\"\n"), load_policy("amp-bf16")}, 10);
    experiment.options.ranks = 4;
    const Log log = trained(folder, experiment, Keep::all);
    const Verdicts verdicts = diagnose(log);
    CHECK(ids_of(verdicts, "low") == Ids{"narrow-wire"});
    CHECK(ids_of(verdicts, "amp-bf16").empty());
    double worst = 0;
    for (const SiteRow& row : run_of(log, "low").sites) {
        if (row.site != "all_reduce:grad.wire") continue;
        CHECK(row.format == "bf16");
        worst = std::max(worst, 100 * double(row.underflow) / double(row.count));
    }
    CHECK(figure_of(finding_of(verdicts, "low", "narrow-wire"), "percent") == Approx(worst));
}

TEST_CASE("layers that a policy leaves out are diagnosed", "[diagnosis][layers-left-out]") {
    const TemporaryFolder folder;
    const std::string rule =
        "[[rule]]\nsites = [\"block.*.mlp.up\", \"lm_head\"]\nforward = { a = \"bf16\" }\nmultiple_of = ";
    const Verdicts verdicts = diagnose(
        trained(folder, small({variant("odd", "fp32", rule + "16\n"), variant("even", "fp32", rule + "8\n")}, 10)));
    CHECK(ids_of(verdicts, "odd") == Ids{"layers-left-out"});  // the vocabulary of 40 is not a multiple of 16
    CHECK(finding_of(verdicts, "odd", "layers-left-out").seen.site == "lm_head");
    CHECK(ids_of(verdicts, "even").empty());
}

TEST_CASE("a verdict lists the diagnoses that could not be checked, and does not report them as found", "[diagnosis]") {
    const TemporaryFolder folder;
    Experiment experiment = small({load_policy("fp16-noscale"), load_policy("pure-bf16")}, 12);
    experiment.options.token_weight = 0x1p-14;
    experiment.options.micro_batches = 2;
    experiment.options.probe_every = 0;
    experiment.directory = folder / "run";
    CpuBackend backend(1, chosen_simd());
    REQUIRE(run_experiment(backend, experiment, {}, never));
    std::filesystem::remove(folder / "run/manifest.json");
    const std::vector<std::filesystem::path> folders{folder / "run"};
    const Verdicts verdicts = diagnose(read_runs(folders, Keep::summary));
    Ids unseen;
    for (const Unseen& one : verdicts.unseen) {
        if (one.policy == "fp16-noscale") unseen.emplace(one.diagnosis->id);
        CHECK_FALSE(one.why.empty());
    }
    CHECK(unseen ==
          Ids{"activation-overflow", "gradient-underflow", "layers-left-out", "narrow-accumulation", "narrow-wire"});
    CHECK(ids_of(verdicts, "fp16-noscale").empty());
    CHECK_FALSE(ids_of(verdicts, "pure-bf16").contains("narrow-accumulation"));
    const std::string text = diagnosis_text(verdicts);
    CHECK(text.find(
              "Not checked: activation-overflow, gradient-underflow, narrow-wire in fp32, fp16-noscale, pure-bf16") !=
          std::string::npos);
}

TEST_CASE("every diagnosis is documented, and its sentence is complete in every report", "[diagnosis]") {
    Ids ids;
    for (const Diagnosis& diagnosis : diagnoses()) {
        CAPTURE(diagnosis.id);
        CHECK(ids.emplace(diagnosis.id).second);
        CHECK_FALSE(diagnosis.condition.empty());
        CHECK_FALSE(diagnosis.sentence.empty());
        CHECK_FALSE(diagnosis.remedy.empty());
    }
    std::ifstream file(std::string(MACHEPS_SOURCE_DIR) + "/docs/diagnosis.md");
    const std::string manual{std::istreambuf_iterator<char>(file), {}};
    for (const Diagnosis& diagnosis : diagnoses()) {
        CAPTURE(diagnosis.id);
        CHECK(manual.find("| " + std::string(diagnosis.id) + " | ") != std::string::npos);
        CHECK(manual.find(" | " + std::string(diagnosis.condition) + " | ") != std::string::npos);
    }
    const TemporaryFolder folder;
    Experiment experiment =
        small({load_policy("pure-fp16"), load_policy("pure-bf16"),
               variant("high", "amp-fp16", "loss_scaler = { kind = \"torch\", init_scale = 1e30 }")},
              12);
    experiment.seeds = {0, 1};
    const Log log = trained(folder, experiment);
    const Verdicts verdicts = diagnose(log);
    REQUIRE(verdicts.findings.size() > 5);
    const std::string page = page_html(log, summarise(log)), text = diagnosis_text(verdicts),
                      json = diagnosis_json(verdicts).dump();
    for (const Diagnosed& finding : verdicts.findings) {
        CAPTURE(finding.policy, finding.sentence());
        CHECK(finding.of_seeds == 2);
        CHECK(finding.sentence().find_first_of("{}?") == std::string::npos);
        CHECK(text.find(finding.sentence()) != std::string::npos);
        CHECK(json.find(finding.sentence()) != std::string::npos);
        CHECK(page.find(escape_html(finding.sentence().substr(1))) !=
              std::string::npos);  // the page begins the sentence with a capital letter
        CHECK(page.find(escape_html(finding.diagnosis->remedy.substr(1))) != std::string::npos);
    }
}

}  // namespace diagnosis_test
