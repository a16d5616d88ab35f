// SPDX-License-Identifier: Apache-2.0
// Tests that a dumped step contains every slot, agrees with the rows, and does not change the run.
#include "experiments/training/run/directory/dump.hpp"
#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/text/json.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace dump_test {

using namespace macheps;
using namespace macheps::files;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

namespace fs = std::filesystem;

fs::path scratch() {
    const fs::path path = test::disk_folder() / "dump";
    fs::create_directories(path);
    return path;
}

/// Returns an experiment that trains fp32 and `policy` for 4 steps. It dumps step `step` of `policy`, unless `step` is
/// negative.
Experiment experiment(const std::string& policy, std::int64_t step) {
    Experiment e;
    e.policies.push_back(load_policy("fp32"));
    if (policy != "fp32") e.policies.push_back(load_policy(policy));
    e.model = {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 40};
    e.options.steps = 4;
    e.options.batch = 3;
    e.options.micro_batches = 2;
    e.options.warmup = 2;
    e.options.eval_every = 2;
    e.options.eval_batches = 1;
    e.options.probe_every = 2;
    e.seeds = {5};
    e.directory = scratch() / "run";
    e.force = true;
    if (step >= 0) e.dump = {.file = scratch() / "step.safetensors", .step = step, .policy = policy, .seed = 5};
    return e;
}

const std::atomic<bool> never{false};

Safetensors dump_of(const Experiment& e) {
    CpuBackend backend(1);
    REQUIRE(run_experiment(backend, e, {}, never));
    return Safetensors::read(e.dump.file);
}

std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("exported inputs are the initial weights of every seed and the tokens of its steps", "[experiments][dump]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        CAPTURE(to_string(kind));
        Experiment e = experiment("fp32", 0);
        e.model.kind = kind;
        e.seeds = {5, 7};
        e.inputs_file = scratch() / "inputs.safetensors";
        const Safetensors first = dump_of(e), inputs = Safetensors::read(e.inputs_file);
        CHECK(inputs.metadata_at("manifest") == contents(e.directory / "manifest.json"));
        std::size_t weights = 0;
        for (const Parameter& parameter : model_sites(e.model).parameters) {
            CAPTURE(parameter.name);
            const StoredTensor& weight = inputs.at("seed5:" + parameter.name);
            CHECK(weight.shape == first.at(parameter.name + ":value").shape);
            CHECK(inputs.values<float>(weight.name) == first.values<float>(parameter.name + ":value"));
            CHECK(inputs.contains("seed7:" + parameter.name));
            ++weights;
        }
        CHECK(inputs.tensors().size() == 2 * (weights + 1));
        CHECK(inputs.at("seed5:samples").shape == std::vector<std::int64_t>{8, 3, 17});
        CHECK(inputs.values<std::int32_t>("seed5:samples") != inputs.values<std::int32_t>("seed7:samples"));

        // Step 3 uses the last two of the eight micro-batches.
        e.dump.step = 3;
        e.inputs_file.clear();
        const Safetensors last = dump_of(e);
        const auto samples = inputs.values<std::int32_t>("seed5:samples"), tokens = last.values<std::int32_t>("tokens"),
                   targets = last.values<std::int32_t>("targets");
        std::size_t wrong = 0;
        for (std::size_t sample = 0; sample < 6; ++sample) {
            for (std::size_t i = 0; i < 16; ++i) {
                const std::size_t at = (18 + sample) * 17 + i;
                wrong += samples[at] != tokens[sample * 16 + i] || samples[at + 1] != targets[sample * 16 + i];
            }
        }
        CHECK(wrong == 0);
    }
    fs::remove_all(scratch());
}

TEST_CASE("a dumped step has every slot of every site and every tensor of every parameter", "[experiments][dump]") {
    for (const char* policy : {"fp32", "amp-bf16", "fp8-tensorwise", "pure-bf16-sr"}) {
        for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
            CAPTURE(policy, to_string(kind));
            Experiment e = experiment(policy, 2);
            e.model.kind = kind;
            if (kind == ModelKind::llama) e.model.kv_heads = 1;
            const Safetensors dump = dump_of(e);
            const SiteList sites = model_sites(e.model);
            std::vector<std::string> missing;
            for (const Site& site : sites.sites) {
                for (const std::string_view slot : slots_of(site)) {
                    const std::string name = site.name + ":" + std::string(slot);
                    const bool made_once =
                        site.name.ends_with("attn.rope") &&
                        (slot == "forward.cos" || slot == "forward.sin" || slot == "forward.inv_freq");
                    // These slots have no tensor: the mean loss is a single number, tokens have no gradient, a gpt2
                    // model has no lm_head bias, and a llama has no biases.
                    const bool absent = slot == "forward.mean" || made_once ||
                                        (site.name == "embed" && slot == "grad.out") ||
                                        ((kind == ModelKind::llama || site.name == "lm_head") &&
                                         (slot == "forward.bias" || slot == "bias_grad.out"));
                    if (!absent && !dump.contains(name)) missing.push_back(name);
                }
            }
            for (const Parameter& parameter : sites.parameters) {
                for (const char* slot : {":value", ":value.after", ":moment1", ":moment1.after", ":moment2",
                                         ":moment2.after", ":grad", ":grad.applied"}) {
                    const StoredTensor* tensor = dump.find(parameter.name + slot);
                    if (tensor == nullptr || tensor->count() != parameter.count)
                        missing.push_back(parameter.name + slot);
                }
            }
            CAPTURE(missing);
            CHECK(missing.empty());
            for (const StoredTensor& tensor : dump.tensors()) {
                if (tensor.name.find(':') != std::string::npos) REQUIRE(tensor.dtype == Dtype::f32);
            }
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("a dump contains the gradients of each rank and the buckets that are reduced", "[experiments][dump]") {
    Experiment e = experiment("fp32", 2);
    e.options.ranks = 3;
    const char* text = "extends = \"fp32\"\n[reduce]\naverage = \"before\"\norder = \"gather\"\nbucket = \"ddp\"\n";
    e.policies.push_back(parse_policy(text, "ddp.toml"));
    e.dump.policy = e.policies.back().name;
    const Safetensors dump = dump_of(e);
    const Json buckets = Json::parse(dump.metadata().at("buckets"));
    REQUIRE(buckets.size() == 1);
    std::vector<std::string> names;
    for (const Json& name : buckets[0]) names.push_back(name.string());
    const std::vector<std::string> state = [&] {
        std::vector<std::string> all;
        for (const Parameter& one : model_sites(e.model).parameters) all.push_back(one.name);
        return all;
    }();
    CHECK(names == std::vector<std::string>(state.rbegin(), state.rend()));
    // torch computes the mean by multiplying each part by fl32(1/3) and adding the products to +0 in the order of the
    // ranks.
    for (const std::string& name : names) {
        CAPTURE(name);
        const auto sum = dump.values<float>(name + ":grad");
        std::vector<float> wanted(sum.size(), 0.0f);
        for (const char* rank : {".rank0", ".rank1", ".rank2"}) {
            const auto part = dump.values<float>(name + ":grad" + rank);
            REQUIRE(part.size() == sum.size());
            for (std::size_t i = 0; i < part.size(); ++i) wanted[i] += part[i] * (1.0f / 3);
        }
        CHECK(sum == wanted);
    }
    const Safetensors alone = dump_of(experiment("fp32", 2));
    CHECK(alone.metadata().count("buckets") == 0);
    CHECK(std::none_of(alone.tensors().begin(), alone.tensors().end(),
                       [](const StoredTensor& tensor) { return tensor.name.find(":grad.rank") != std::string::npos; }));
    fs::remove_all(scratch());
}

TEST_CASE("a step's loss is the fp64 loss of its logits, and loss_rounded has the policy's roundings",
          "[experiments][dump]") {
    for (const char* policy : {"fp32", "pure-bf16", "amp-fp16"}) {
        CAPTURE(policy);
        Experiment e = experiment(policy, 2);
        e.options.micro_batches = 1;
        const Safetensors dump = dump_of(e);
        const auto logits = dump.values<float>("lm_head:forward.out");
        const auto targets = dump.values<std::int32_t>("targets");
        const std::size_t n = 40, rows = targets.size();
        REQUIRE(logits.size() == rows * n);
        long double sum = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            long double total = 0;
            for (std::size_t i = 0; i < n; ++i) total += std::exp(static_cast<long double>(logits[r * n + i]));
            sum += std::log(total) - logits[r * n + static_cast<std::size_t>(targets[r])];
        }
        const auto want = static_cast<double>(sum / static_cast<long double>(rows));
        std::map<std::string, StepRow> at;
        for (const StepRow& row : CsvReader<StepRow>(e.directory / StepRow::file).rows()) {
            if (row.step == 2) at[row.policy] = row;
        }
        const StepRow& row = at.at(policy);
        // The error of the loss in a row is a few units in the last place of its terms, which are below 8.
        CHECK(std::abs(row.loss - want) < 64 * 0x1p-53 * 8);
        CHECK(dump.values<double>("loss") == std::vector<double>{row.loss});
        CHECK(*row.baseline_loss == at.at("fp32").loss);
        CHECK(*row.gap == row.loss - at.at("fp32").loss);
        const float rounded = row.loss_rounded.value();
        const bool on_bf16 = quantize(bf16, rounded, Round::nearest_even, Overflow::nonsaturate) == rounded;
        CHECK(on_bf16 == (std::string(policy) == "pure-bf16"));
        // Logits below 8 lose up to 2^-20 in fp32. CUDA's autocast rounds the loss of each token to fp16, but not their
        // mean. In pure bf16, the mean is also rounded, so the error is at most twice the unit roundoff.
        const double lost = on_bf16                             ? 2 * bf16.unit_roundoff()
                            : std::string(policy) == "amp-fp16" ? fp16.unit_roundoff()
                                                                : 0;
        CHECK(std::abs(rounded - want) <= (lost + 0x1p-20) * want);
        for (const RunRow& run : CsvReader<RunRow>(e.directory / RunRow::file).rows()) {
            CHECK(static_cast<double>(static_cast<float>(run.final_loss.value())) != run.final_loss.value());
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("a dumped step agrees with the rows and the batches of its run", "[experiments][dump]") {
    const Experiment e = experiment("amp-bf16", 2);
    const Safetensors dump = dump_of(e);
    CHECK(dump.metadata_at("run") == "amp-bf16/5");
    CHECK(dump.metadata_at("step") == "2");
    CHECK(dump.metadata_at("manifest") == contents(e.directory / "manifest.json"));
    for (const StepRow& row : CsvReader<StepRow>(e.directory / StepRow::file).rows()) {
        if (row.run != "amp-bf16/5" || row.step != 2) continue;
        CHECK(dump.values<double>("loss") == std::vector<double>{row.loss});
        CHECK(dump.values<float>("loss_rounded") == std::vector<float>{row.loss_rounded.value()});
        CHECK(dump.values<float>("grad_norm") == std::vector<float>{row.grad_norm});
        CHECK(static_cast<float>(dump.values<double>("lr")[0]) == row.lr);
        CHECK(dump.values<std::uint8_t>("skipped")[0] == 0);
    }
    const auto data = open_data({}, e.model.vocabulary, e.model.context);
    const Batch first = data->batch(Split::train, 5, 4, 3, 16), second = data->batch(Split::train, 5, 5, 3, 16);
    CHECK(dump.at("tokens").shape == std::vector<std::int64_t>{2, 3, 16});
    const auto joined = [](std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    };
    CHECK(dump.values<std::int32_t>("tokens") == joined(first.tokens, second.tokens));
    CHECK(dump.values<std::int32_t>("targets") == joined(first.targets, second.targets));
    // The slots contain the last micro-batch, so the embeddings are those of its tokens.
    const auto token = dump.values<float>("embed.token.weight:value"),
               at = dump.values<float>("embed.position.weight:value"),
               embedded = dump.values<float>("embed:forward.out");
    bool same = true;
    for (std::size_t i = 0; i < embedded.size(); ++i) {
        const std::size_t row = i / 32, column = i % 32;
        same = same && embedded[i] == token[static_cast<std::size_t>(second.tokens[row]) * 32 + column] +
                                          at[row % 16 * 32 + column];
    }
    CHECK(same);
    // All values of a bf16 slot are bf16 numbers. The stored weights are fp32 numbers.
    const auto on_grid = [&](const char* name) {
        const auto values = dump.values<float>(name);
        return std::all_of(values.begin(), values.end(),
                           [](float x) { return quantize(bf16, x, Round::nearest_even, Overflow::nonsaturate) == x; });
    };
    CHECK(on_grid("block.1.mlp.up:forward.a"));
    CHECK(on_grid("block.1.mlp.up:forward.b"));
    CHECK(on_grid("block.1.mlp.up:weight_grad.b"));
    CHECK_FALSE(on_grid("block.1.mlp.up.weight:value"));
    CHECK_FALSE(on_grid("block.1.residual2:forward.out"));

    // The next step starts from the state after this one.
    const auto after = dump.values<float>("block.1.mlp.up.weight:value.after"),
               moment = dump.values<float>("block.1.mlp.up.weight:moment2.after"),
               before = dump.values<float>("block.1.mlp.up.weight:value");
    const Safetensors next = dump_of(experiment("amp-bf16", 3));
    CHECK(next.values<float>("block.1.mlp.up.weight:value") == after);
    CHECK(next.values<float>("block.1.mlp.up.weight:moment2") == moment);
    CHECK(before != after);
    fs::remove_all(scratch());
}

TEST_CASE("a scaled slot is dumped with its scaled values and the factor that undoes the scale",
          "[experiments][dump]") {
    const Safetensors dump = dump_of(experiment("fp8-tensorwise", 1));
    const std::string name = "block.0.mlp.up:forward.a";
    const auto values = dump.values<float>(name);
    const float scale = dump.values<float>(name + ".decode_scale").at(0);
    const auto meant = dump.values<float>("block.0.mlp.up:forward.in");
    const auto largest = [](const std::vector<float>& x) {
        float most = 0;
        for (const float v : x) most = std::max(most, std::abs(v));
        return most;
    };
    CHECK(largest(values) == 448.0f);  // the e4m3fn maximum, to which tensorwise scaling maps the amax
    // The largest code times the decode scale is 448 * (amax / 448). The encode scale and its reciprocal are each
    // rounded once.
    CHECK(std::abs(largest(values) * scale - largest(meant)) <= 3 * 0x1p-24f * largest(meant));
    CHECK(dump.metadata_at("holds:" + name) ==
          "codes of e4m3fn/tensor; the values are the codes times " + name + ".decode_scale");
    fs::remove_all(scratch());
}

TEST_CASE("a dump records which arrays contain the values of codes and which contain decoded values",
          "[experiments][dump]") {
    const std::string name = "block.0.mlp.up:forward.a";
    const Safetensors blocks = dump_of(experiment("te-mxfp8", 1));
    CHECK(blocks.metadata_at("holds:" + name) == "values, decoded from e4m3fn/mx32");
    // Decoded values are e4m3fn numbers times powers of two, so most differ from the input, but only slightly.
    const auto values = blocks.values<float>(name), meant = blocks.values<float>("block.0.mlp.up:forward.in");
    REQUIRE(values.size() == meant.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        CHECK(std::abs(values[i] - meant[i]) <= std::max(0x1p-4f * std::abs(meant[i]), 0x1p-9f));
    }
    CHECK(values != meant);
    const Safetensors delayed = dump_of(experiment("te-delayed", 0));
    CHECK(delayed.values<float>(name + ".decode_scale").size() == 1);
    CHECK(delayed.metadata_at("holds:" + name) ==
          "codes of e4m3fn/tensor:te_delayed; the values are the codes times " + name + ".decode_scale");
    fs::remove_all(scratch());
}

TEST_CASE("dumping a step does not change the rows of a run", "[experiments][dump]") {
    for (const char* policy : {"pure-bf16-sr", "fp8-tensorwise"}) {
        for (const std::int64_t probe_every : {0, 2}) {
            CAPTURE(policy, probe_every);
            std::string rows[2];
            for (const std::int64_t step : {-1, 2}) {
                Experiment e = experiment(policy, step);
                e.options.probe_every = probe_every;
                CpuBackend backend(1);
                REQUIRE(run_experiment(backend, e, {}, never));
                for (const char* file : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
                    rows[step < 0 ? 0 : 1] += contents(e.directory / file);
                }
            }
            CHECK(rows[0] == rows[1]);
            CHECK(rows[0].size() > 1000);
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("a step that cannot be dumped is refused before training", "[experiments][dump]") {
    CpuBackend backend(1);
    for (const std::int64_t step : {4, 1000}) {
        CHECK_THROWS_AS(run_experiment(backend, experiment("fp32", step), {}, never), Error);
    }
    Experiment e = experiment("fp32", 0);
    e.dump.file = "/nowhere/at/all.safetensors";
    CHECK_THROWS_AS(run_experiment(backend, e, {}, never), Error);
    CHECK_FALSE(fs::exists(e.directory));
    fs::remove_all(scratch());
}

}  // namespace dump_test
