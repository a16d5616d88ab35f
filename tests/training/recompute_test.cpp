// SPDX-License-Identifier: Apache-2.0
// Tests gradient checkpointing: a recomputed block has the same bits, and a repeated rounding uses the same random
// words.
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/model/memory.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/step.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

namespace recompute_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using macheps::test::TemporaryFolder;

namespace {

const std::atomic<bool> never{false};

constexpr const char* all_stochastic = R"(
name = "all-stochastic"
[[rule]]
sites = "*:*"
cast  = "bf16:stochastic"
[[rule]]
params = "*"
value  = "bf16:stochastic"
grad   = "bf16:stochastic"
)";

std::string contents(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

ModelConfig small_model(ModelKind kind) {
    ModelConfig model{.kind = kind, .layers = 3, .width = 32, .heads = 2, .context = 16, .vocabulary = 24};
    if (kind == ModelKind::llama) model.kv_heads = 1;
    return model;
}

TrainOptions small_options(bool recompute) {
    TrainOptions options;
    options.steps = 3;
    options.batch = 2;
    options.micro_batches = 2;
    options.warmup = 2;
    options.eval_every = 2;
    options.eval_batches = 1;
    options.probe_every = 2;  // some steps record figures of sites, the others only totals
    options.histogram_every = 2;
    options.recompute = recompute;
    return options;
}

}  // namespace

TEST_CASE("row 29: a run that recomputes its blocks writes the same bytes, under every preset", "[recompute]") {
    const TemporaryFolder folder;
    std::vector<Policy> policies{parse_policy(all_stochastic, "test")};
    for (const std::string_view name : preset_names()) policies.push_back(load_policy(std::string(name)));
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        std::filesystem::path folders[2];
        for (const bool recompute : {false, true}) {
            Experiment experiment;
            experiment.policies = policies;
            experiment.model = small_model(kind);
            experiment.options = small_options(recompute);
            experiment.options.ranks = kind == ModelKind::llama ? 2 : 1;
            // A run with several ranks and micro-batches is refused if a scale depends on the amaxes of all ranks.
            if (experiment.options.ranks > 1) {
                std::erase_if(experiment.policies, [](const Policy& policy) { return policy.name == "te-delayed"; });
            }
            experiment.hash_sites = true;
            experiment.directory = folders[recompute] = folder / fmt::format("{}{}", to_string(kind), int(recompute));
            CpuBackend backend(2);
            REQUIRE(run_experiment(backend, experiment, {}, never));
        }
        // hashes.csv has hashes of every tensor, including the gradients after the backward passes.
        for (const char* file : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv", "hashes.csv"}) {
            CAPTURE(to_string(kind), file);
            CHECK(contents(folders[0] / file) == contents(folders[1] / file));
            CHECK(contents(folders[0] / file).size() > 1000);
        }
        CHECK(contents(folders[0] / "manifest.json").find("\"recompute\"") == std::string::npos);
        CHECK(contents(folders[1] / "manifest.json").find("\"recompute\": true") != std::string::npos);
    }
}

TEST_CASE("a repeated rounding uses the same random words, and no other rounding uses them", "[recompute][random]") {
    using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t>;
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        const ModelConfig model = small_model(kind);
        const SiteList sites = model_sites(model);
        const ResolvedPolicy policy = resolve(parse_policy(all_stochastic, "test"), sites);
        const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
        const auto data = open_data({}, model.vocabulary, model.context);
        std::map<Key, int> times[2];
        for (const bool recompute : {false, true}) {
            const TrainOptions options = small_options(recompute);
            CpuBackend backend(1);
            std::vector<RandomDraw> draws;
            Step step(backend, {policy, fp32_policy, model, options, *data, 3});
            backend.list_draws(&draws);
            step.run(0, Sampling::counts);
            for (const RandomDraw& draw : draws)
                ++times[recompute][{draw.key.seed, draw.key.step, draw.key.site, draw.count}];
        }
        // In both micro-batches, the slots of a block's forward pass are rounded twice. The casts of weights and the
        // tables of rotary positions are the exceptions; they are made once.
        std::set<Key> done_again, expected;
        for (const auto& [key, count] : times[1]) {
            CHECK(times[0][key] == 1);
            CHECK(count <= 2);
            if (count == 2) done_again.insert(key);
        }
        std::size_t of_forward = 0;
        for (const Site& site : sites.sites) {
            for (const SlotRow& slot : site.kind.slots) {
                const bool is_once = slot.name == "forward.b" && site.kind.has_weight;
                const bool is_table =
                    slot.name == "forward.inv_freq" || slot.name == "forward.cos" || slot.name == "forward.sin";
                if (slot.only != nullptr && !(site.*slot.only)) continue;
                if (!site.name.starts_with("block.") || !slot.name.starts_with("forward.") || is_once || is_table)
                    continue;
                if (kind == ModelKind::llama && slot.name == "forward.bias") continue;
                ++of_forward;
                const std::uint32_t id = site_id(site.name + ":" + std::string(slot.name));
                for (const std::uint32_t micro_batch : {0u, 1u}) {
                    const std::uint32_t stream = id ^ micro_batch * 0x9e3779b9u;
                    for (const auto& [key, count] : times[0]) {
                        if (std::get<2>(key) == stream) expected.insert(key);
                    }
                }
            }
        }
        CAPTURE(to_string(kind));
        CHECK(of_forward > 30);
        CHECK(done_again == expected);
        CHECK(expected.size() > 50);  // a cast of values that are already in the format is skipped
    }
}

TEST_CASE("only the input of a recomputed block is kept in memory", "[recompute]") {
    const ModelConfig model = small_model(ModelKind::gpt2);
    const SiteList sites = model_sites(model);
    const std::int64_t stream = model.context * model.width, logits = model.context * model.vocabulary;
    struct Case {
        const char* policy;
        std::int64_t of_stream, of_logits;  // bytes of an element
    };
    // amp-fp16 keeps the residual stream and the norms in fp32, and the logits and log-probabilities of a gpt2 in fp16.
    for (const Case& c : {Case{"fp32", 4, 8}, Case{"amp-fp16", 4, 4}, Case{"pure-bf16", 2, 4}}) {
        CAPTURE(c.policy);
        const ResolvedPolicy policy = resolve(load_policy(c.policy), sites);
        // The kept tensors are the embedding, the output of each block, the last norm, the logits and the
        // log-probabilities.
        const std::int64_t kept = c.of_stream * stream * (1 + model.layers + 1) + c.of_logits * logits;
        CHECK(estimate_memory(sites, policy, 5, 2, true).activations == 5 * kept);
        CHECK(estimate_memory(sites, policy, 5, 2).activations > 5 * kept);
        const Policy told =
            parse_policy(fmt::format("extends = \"{}\"\n[backward]\nrecompute = true\n", c.policy), "told");
        CHECK(estimate_memory(sites, resolve(told, sites), 5, 2).activations == 5 * kept);
        CHECK(estimate_memory(sites, policy, 5, 2, true).gradients == estimate_memory(sites, policy, 5, 2).gradients);
    }
}

}  // namespace recompute_test
