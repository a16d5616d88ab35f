// SPDX-License-Identifier: Apache-2.0
// Tests the random words of training: stochastic roundings draw them, no word is used twice, and observing a run does
// not use any.
#include "core/codec.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/model/initialise.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "experiments/training/run/evaluator.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/step.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/pages/html.hpp"
#include "reports/rows/csv.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

namespace random_words_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;
namespace fs = std::filesystem;

namespace {

/// A policy under which every slot of every site and of every parameter is rounded stochastically.
constexpr const char* all_stochastic = R"(
name = "all-stochastic"
[[rule]]
sites = "*:*"
cast  = "bf16:stochastic"
[[rule]]
params  = "*"
value   = "bf16:stochastic"
master  = "fp16:stochastic"
grad    = "bf16:stochastic"
accum   = "fp16:stochastic"
moment1 = "bf16:stochastic"
moment2 = "bf16:stochastic"
update  = "bf16:stochastic"
)";

/// A policy under which weights are cast stochastically when they are read, gradients overflow, and steps are skipped.
constexpr const char* restless = R"(
name    = "restless"
extends = "amp-fp16"
[[rule]]
sites   = "block.*.{attn.qkv,mlp.*}"
forward = { b = "fp16:stochastic" }
[[rule]]
params = "embed.token.weight"
grad   = "bf16:stochastic"
[loss_scaler]
kind            = "torch"
init_scale      = 1048576.0
growth_interval = 2
)";

Policy written(const char* text) { return parse_policy(text, "test.toml"); }

ModelConfig small_model(ModelKind kind) {
    ModelConfig model{.kind = kind, .layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 24};
    if (kind == ModelKind::llama) model.kv_heads = 1;
    return model;
}

TrainOptions small_options() {
    TrainOptions options;
    options.steps = 8;
    options.batch = 2;
    options.micro_batches = 2;
    options.warmup = 2;
    options.eval_every = 0;
    options.eval_batches = 2;
    options.probe_every = 0;
    return options;
}

fs::path fresh_folder(const std::string& name) {
    const fs::path path = test::memory_folder() / ("words_" + name);
    fs::remove_all(path);
    return path;
}

const std::atomic<bool> never{false};

}  // namespace

TEST_CASE("stochastic rounding rounds a mean loss up as often as the distances to its neighbours require",
          "[experiments][random]") {
    const fs::path directory = fresh_folder("mean");
    Experiment e;
    e.policies = {load_policy("fp32"), written("name = \"mean\"\n[[rule]]\nsites = \"loss:forward.mean\"\n"
                                               "cast = \"bf16:stochastic\"\n")};
    e.model = {.layers = 1, .width = 8, .heads = 1, .context = 4, .vocabulary = 16};
    e.options = small_options();
    e.options.steps = 200;
    e.options.micro_batches = 1;
    e.directory = directory;
    CpuBackend backend(1);
    REQUIRE(run_experiment(backend, e, {}, never));
    // The policy rounds only the mean loss, and nothing else depends on the mean loss. The fp32 run therefore has the
    // unrounded means.
    std::map<std::int64_t, float> exact;
    int ups = 0, downs = 0;
    double expected = 0, variance = 0, rounding = 0;
    for (const StepRow& row : CsvReader<StepRow>(directory / StepRow::file).rows()) {
        if (row.policy == "fp32") {
            exact[row.step] = *row.loss_rounded;
            continue;
        }
        const float x = exact.at(row.step), y = *row.loss_rounded;
        const float below = quantize(bf16, x, Round::down, Overflow::nonsaturate),
                    above = quantize(bf16, x, Round::up, Overflow::nonsaturate);
        CHECK((y == below || y == above));
        if (below == above) continue;
        const double fraction = (double{x} - below) / (double{above} - below);
        (y == above ? ups : downs) += 1;
        expected += fraction;
        variance += fraction * (1 - fraction);
        rounding += (double{y} - x) / x;
    }
    CAPTURE(ups, downs, expected, rounding);
    REQUIRE(ups + downs > 150);
    CHECK(std::abs(ups - expected) <= 4 * std::sqrt(variance));
    // Truncation would lose half a unit in the last place on average, which is at least 2^-9 of the loss.
    CHECK(std::abs(rounding / (ups + downs)) < 0x1p-11);
    fs::remove_all(directory);
}

TEST_CASE("no random word of a step is used twice, with any preset and model", "[experiments][random]") {
    std::vector<Policy> policies{written(all_stochastic), written(restless)};
    for (const std::string_view name : preset_names()) policies.push_back(load_policy(std::string(name)));
    std::map<std::string, std::uint64_t> words;
    int skipped = 0;
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        for (const bool tied : {true, false}) {
            ModelConfig model = small_model(kind);
            model.tied = tied;
            const SiteList sites = model_sites(model);
            const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
            const auto data = open_data({}, model.vocabulary, model.context);
            for (const Policy& policy : policies) {
                const ResolvedPolicy resolved = resolve(policy, sites);
                for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
                    TrainOptions options = small_options();
                    options.optimizer = optimizer;
                    CAPTURE(policy.name, to_string(kind), tied, optimizer == OptimizerKind::sgd);
                    const RunSetup setup{.policy = resolved,
                                         .fp32 = fp32_policy,
                                         .model = model,
                                         .options = options,
                                         .data = *data,
                                         .seed = 3};
                    std::vector<RandomDraw> draws;
                    std::size_t of_an_evaluation = 0;
                    CpuBackend backend(1);
                    backend.list_draws(&draws);
                    Step step(backend, setup);  // rounds the first weights
                    Evaluator evaluator(backend, setup, options.eval_batches);
                    for (std::int64_t i = 0; i < 3; ++i) {
                        const std::size_t before = draws.size();
                        evaluator.evaluate(i, step);
                        // An evaluation makes all of its casts itself. It does not reuse a weight that a skipped step
                        // cast.
                        if (i == 0) of_an_evaluation = draws.size() - before;
                        CHECK(draws.size() - before == of_an_evaluation);
                        skipped += step.run(i).outcome.skipped ? 1 : 0;
                    }
                    // The initial weights and the batches also draw words, without a cast.
                    for (const Parameter& parameter : sites.parameters) {
                        draws.push_back({{.seed = 3, .step = 0, .site = site_id(parameter.name)}, 1});
                    }
                    for (std::uint32_t i = 0; i < 6; ++i) {
                        draws.push_back({{.seed = 3, .step = i, .site = site_id("data.train")}, 1});
                        draws.push_back({{.seed = 0, .step = i, .site = site_id("data.held_out")}, 1});
                    }
                    // Every cast uses the words of its key from 0 on, so two casts with the same key share words.
                    std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, int> times;
                    std::size_t repeated = 0;
                    for (const RandomDraw& draw : draws) {
                        words[policy.name] += draw.count;
                        repeated += ++times[{draw.key.seed, draw.key.step, draw.key.site}] > 1 ? 1 : 0;
                    }
                    CHECK(repeated == 0);
                }
            }
        }
    }
    // These policies draw many words, so the check above is not trivial. Other policies draw words only for the initial
    // weights and the batches.
    for (const char* name : {"all-stochastic", "restless", "pure-bf16-sr", "b200-nvfp4"}) {
        CAPTURE(name);
        CHECK(words[name] > words["fp32"] + 10000);
    }
    CHECK(words["amp-bf16"] == words["fp32"]);
    CHECK(skipped > 8);
}

TEST_CASE("in every named model size, all slots have different random streams", "[experiments][random]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        for (const char* size : {"tiny", "small", "base"}) {
            const SiteList sites = model_sites(named_size(size, kind).model);
            std::map<std::uint32_t, std::string> known;
            const auto add = [&](const std::string& name) {
                const auto [at, is_new] = known.emplace(site_id(name), name);
                CAPTURE(name, at->second);
                CHECK(is_new);
            };
            add("data.train");
            add("data.held_out");
            for (const Site& site : sites.sites) {
                for (const std::string_view slot : slots_of(site)) add(site.name + ":" + std::string(slot));
            }
            for (const Parameter& parameter : sites.parameters) {
                add(parameter.name);
                for (const SlotRow& slot : parameter_slots) add(parameter.name + ":" + std::string(slot.name));
            }
        }
    }
}

TEST_CASE("initial weights are rounded to nearest, even if later weights are rounded stochastically",
          "[experiments][random]") {
    const ModelConfig model = small_model(ModelKind::gpt2);
    const SiteList sites = model_sites(model);
    CpuBackend backend(1);
    for (const Policy& chosen : {load_policy("pure-bf16-sr"), written(all_stochastic)}) {
        CAPTURE(chosen.name);
        const ResolvedPolicy policy = resolve(chosen, sites);
        std::vector<RandomDraw> draws;
        Transformer transformer(backend, model, 2, policy, 3);
        backend.list_draws(&draws);
        transformer.initialise(3);
        const Optimizer optimizer(backend, policy, small_options(), transformer, 3);
        backend.list_draws(nullptr);
        CHECK(draws.empty());
        for (std::size_t p = 0; p < transformer.parameters().size(); ++p) {
            const ParameterState& parameter = *transformer.parameters()[p];
            std::vector<float> got(static_cast<std::size_t>(parameter.shape.count())), best(got.size());
            backend.download(parameter.value, got);
            backend.download(optimizer.best_value(p), best);
            const std::vector<float> want = initial_values(parameter.name, parameter.shape, model.layers, 3);
            const bool has_master = policy.has_master(parameter.name);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                const float nearest = quantize(bf16, want[i], Round::nearest_even, Overflow::nonsaturate);
                const float copy =
                    has_master ? quantize(fp16, nearest, Round::nearest_even, Overflow::nonsaturate) : nearest;
                wrong += got[i] != nearest || best[i] != copy ? 1 : 0;
            }
            CAPTURE(parameter.name);
            CHECK(wrong == 0);
        }
    }
}

namespace {

/// Returns all rows that training determines: the steps and the final evaluation. Counts of casts are left out.
std::string outcome(const fs::path& directory) {
    std::string text;
    for (StepRow row : CsvReader<StepRow>(directory / StepRow::file).rows()) {
        row.underflow = row.overflow = row.saturated = 0;
        row.overflow_site.clear();
        // Only sampled steps compare gradients and values with those of fp32.
        row.grad_cosine = row.grad_proj = row.grad_snr_db = row.grad_cosine_least = std::nullopt;
        row.grad_least_parameter = row.first_diverging_site = row.farthest_site = std::nullopt;
        row.farthest_distance = std::nullopt;
        csv::append_line(text, row);
    }
    for (const EvalRow& row : CsvReader<EvalRow>(directory / EvalRow::file).rows()) {
        if (row.step == small_options().steps) csv::append_line(text, row);
    }
    return text;
}

struct Observed {
    const char* what;
    std::function<void(Experiment&)> observe;
    bool is_interrupted = false;  ///< stopped half-way, reported, and resumed
};

}  // namespace

TEST_CASE("observing a run does not change a bit of training", "[experiments][random]") {
    const fs::path dump = fresh_folder("step.safetensors");
    const Observed observations[] = {
        {"evaluations at every step", [](Experiment& e) { e.options.eval_every = 1; }},
        {"evaluations at some steps", [](Experiment& e) { e.options.eval_every = 3; }},
        {"probes", [](Experiment& e) { e.options.probe_every = 2; }},
        {"probes with histograms", [](Experiment& e) { e.options.probe_every = e.options.histogram_every = 1; }},
        {"a dump", [&](Experiment& e) { e.dump = {.file = dump, .step = 3, .policy = e.policies[0].name, .seed = 7}; }},
        {"hashes of every site", [](Experiment& e) { e.hash_sites = true; }},
        {"checkpoints", [](Experiment& e) { e.save_every = 2; }},
        {"a stop, a report and a resume", [](Experiment& e) { e.options.eval_every = 2; }, true},
        {"everything",
         [&](Experiment& e) {
             e.options.eval_every = e.options.probe_every = e.options.histogram_every = 1;
             e.dump = {.file = dump, .step = 5, .policy = e.policies[0].name, .seed = 7};
             e.hash_sites = true;
             e.save_every = 1;
         }},
    };
    CpuBackend backend(1);
    for (const char* text : {restless, all_stochastic}) {
        for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
            const auto run = [&](const Observed& observed) {
                const fs::path directory = fresh_folder("observed");
                Experiment e;
                e.policies = {written(text)};
                e.seeds = {7};
                e.model = small_model(kind);
                e.options = small_options();
                e.directory = directory;
                observed.observe(e);
                std::atomic<bool> stop{false};
                const auto progress = [&](const Progress& p) {
                    stop = stop || (observed.is_interrupted && p.step == 4);
                };
                REQUIRE(run_experiment(backend, e, progress, stop) == !observed.is_interrupted);
                if (observed.is_interrupted) {
                    const Log log = read_runs(std::span(&directory, 1));
                    const Summary summary = summarise(log);
                    write_summary(summary, directory / SummaryRow::file);
                    write_page(log, summary, directory / "report.html");
                    Experiment rest = read_manifest(directory / "manifest.json").experiment;
                    rest.directory = directory;
                    rest.resume = true;
                    REQUIRE(run_experiment(backend, rest, {}, never));
                }
                std::string result = outcome(directory);
                fs::remove_all(directory);
                return result;
            };
            const std::string alone = run({"nothing", [](Experiment&) {}});
            CHECK(alone.size() > 800);
            for (const Observed& observed : observations) {
                CAPTURE(text, to_string(kind), observed.what);
                CHECK((run(observed) == alone));
            }
        }
    }
    fs::remove(dump);
}

TEST_CASE("an evaluation depends on the weights and its step, not on earlier evaluations", "[experiments][random]") {
    const fs::path directory = fresh_folder("evaluations");
    CpuBackend backend(1);
    const auto evaluations = [&](std::int64_t every) {
        Experiment e;
        e.policies = {written(all_stochastic)};
        e.model = small_model(ModelKind::gpt2);
        e.options = small_options();
        e.options.eval_every = every;
        e.directory = directory;
        e.force = true;
        REQUIRE(run_experiment(backend, e, {}, never));
        std::map<std::int64_t, double> losses;
        for (const EvalRow& row : CsvReader<EvalRow>(directory / EvalRow::file).rows())
            losses[row.step] = row.eval_loss;
        return losses;
    };
    const auto often = evaluations(1), seldom = evaluations(4);
    REQUIRE(seldom.size() == 3);
    for (const auto& [step, loss] : seldom) CHECK(often.at(step) == loss);
    fs::remove_all(directory);
}

TEST_CASE("evaluations and micro-batches of the same step draw from different streams", "[experiments][random]") {
    CpuBackend backend(1);
    const ModelConfig model = small_model(ModelKind::gpt2);
    const ResolvedPolicy policy = resolve(written(all_stochastic), model_sites(model));
    const Slot slot(policy, "block.0.mlp.up:forward.a");
    Rounder rounder(backend, 3);
    std::vector<std::uint32_t> streams;
    for (const Pass pass : {Pass::training, Pass::evaluation}) {
        for (std::uint32_t batch = 0; batch < 4; ++batch) {
            rounder.begin(5, batch, pass);
            for (int again = 0; again < 3; ++again) {
                const Cast cast = rounder.cast_for(slot);
                CHECK((cast.key.seed == 3 && cast.key.step == 5));
                CHECK(std::count(streams.begin(), streams.end(), cast.key.site) == 0);
                streams.push_back(cast.key.site);
            }
        }
    }
    rounder.begin(5, 0);
    CHECK(rounder.cast_for(slot).key.site == streams.front());  // if a batch begins again, it has the same words
    CHECK(streams.front() == site_id(slot.name));
}

TEST_CASE("initial weights are normal numbers by the Box-Muller method, two from each Philox block", "[experiments]") {
    const std::vector<float> weights = initial_values("block.0.mlp.up.weight", {7, 3}, 2, 5);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        const PhiloxBlock block = random_block({.seed = 5, .step = 0, .site = site_id("block.0.mlp.up.weight")}, i / 2);
        const auto word = [&](int high) {
            return (std::uint64_t{block.word[high]} << 32 | block.word[high + 1]) >> 11;
        };
        const double u = (static_cast<double>(word(0)) + 0.5) * 0x1p-53, v = static_cast<double>(word(2)) * 0x1p-53;
        const double angle = 2 * std::acos(-1.0) * v, radius = std::sqrt(-2 * std::log(u));
        const double expected = 0.02 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
        CHECK(std::abs(weights[i] - expected) <=
              0x1p-22 * std::abs(expected) + 1e-16);  // three roundings to fp32, and a few to fp64
    }
}

}  // namespace random_words_test
