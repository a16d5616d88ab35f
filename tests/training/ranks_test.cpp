// SPDX-License-Identifier: Apache-2.0
// Tests data-parallel ranks. Compares the reduction with a slow implementation that was written from docs/ranks.md, and
// trains with several ranks.
#include "experiments/training/run/optimizer/ranks.hpp"

#include "core/error.hpp"
#include "core/field_error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/step.hpp"
#include "reports/rows/csv.hpp"
#include "tests/oracle/reference_reduce.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

namespace ranks_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;
using oracle::ReferenceReduce;
using Words = std::map<std::string, std::string>;

namespace {

const std::atomic<bool> never{false};

/// Returns the table [reduce] with these keys and values.
std::string table_of(const Words& words) {
    std::string text = "[reduce]\n";
    const std::set<std::string> bare{"start", "predivide", "by_division"};
    for (const auto& [key, word] : words)
        text += bare.contains(key) ? fmt::format("{} = {}\n", key, word) : fmt::format("{} = \"{}\"\n", key, word);
    return text;
}
Policy with_reduce(const std::string& name, const std::string& base, const Words& words) {
    return parse_policy(fmt::format("name = \"{}\"\nextends = \"{}\"\n{}", name, base, table_of(words)), "test");
}

/// Returns a vector of random values for each rank, with widely different magnitudes. If `specials`, some values are
/// zeros, infinities, NaN, or near the limits of a format.
std::vector<std::vector<float>> random_parts(std::size_t ranks, std::size_t count, std::uint32_t seed, bool specials) {
    std::mt19937 random(seed);
    std::vector<std::vector<float>> parts(ranks, std::vector<float>(count));
    for (auto& part : parts) {
        for (float& x : part) {
            const int exponent = int(random() % 40) - 30;
            x = std::ldexp(float(int(random() % 2000001) - 1000000) * 1e-6f, exponent);
            if (!specials) continue;
            const float rare[] = {0.0f, -0.0f, 65504.0f, -65504.0f, 3e38f, 1e-40f, INFINITY, -INFINITY, NAN};
            if (random() % 8 == 0) x = rare[random() % std::size(rare)];
        }
    }
    return parts;
}

std::vector<float> reduced(const ReduceConfig& config, const std::vector<std::vector<float>>& parts,
                           Format grad = fp32) {
    CpuBackend backend(1);
    std::vector<Tensor> tensors;
    std::vector<View> views;
    for (const auto& part : parts) {
        tensors.push_back(backend.empty({std::int64_t(part.size())}));
        backend.upload(part, tensors.back());
        views.push_back(tensors.back());
    }
    AllReduce sum(backend, config, config.wire.value_or(CastRule{.format = grad}), {1, 2, 3});
    sum.run(views);
    std::vector<float> out(parts[0].size());
    backend.download(views[0], out);
    return out;
}

bool same_bits(float a, float b) {
    return (a != a && b != b) || bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b);
}
std::size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) count += same_bits(a[i], b[i]) ? 0 : 1;
    return count;
}

ModelConfig small_model(ModelKind kind = ModelKind::gpt2) {
    ModelConfig model{.kind = kind, .layers = 1, .width = 16, .heads = 2, .context = 8, .vocabulary = 24};
    if (kind == ModelKind::llama) model.kv_heads = 1;
    return model;
}

TrainOptions small_options(std::int64_t ranks) {
    TrainOptions options;
    options.steps = 6;
    options.batch = 8;
    options.ranks = ranks;
    options.warmup = 2;
    options.eval_every = 3;
    options.eval_batches = 1;
    options.probe_every = 2;
    options.histogram_every = 0;
    return options;
}

/// Keeps the gradients that the optimiser receives.
class GradientWatcher final : public StepWatcher {
  public:
    GradientWatcher(Backend& backend, Observer* next) : StepWatcher(next), backend_(backend) {}
    void on_batch(std::int64_t, std::int64_t, const Batch&) override {}
    void on_gradients(Transformer& model) override {
        for (const auto& parameter : model.parameters()) {
            auto& values = gradients[parameter->name];
            values.resize(std::size_t(parameter->grad.count()));
            backend_.download(parameter->grad, values);
        }
    }
    std::map<std::string, std::vector<float>> gradients;

  private:
    void take(const Slot&, ConstView, float) override {}
    Backend& backend_;
};

/// Returns the gradients of rank `rank` in step 0, computed by a separate model.
std::map<std::string, std::vector<float>> local_gradients(const RunSetup& setup, std::int64_t rank, double scale) {
    CpuBackend backend(1);
    const TrainOptions& o = setup.options;
    const std::int64_t share = o.batch / o.ranks, context = setup.model.context;
    Transformer model(backend, setup.model, share, setup.policy, setup.stream_seed());
    model.initialise(setup.stream_seed());
    TokenTensor tokens = backend.empty_tokens({share, context}), targets = backend.empty_tokens({share, context});
    model.clear_gradients();
    for (std::int64_t part = 0; part < o.micro_batches; ++part) {
        const Batch batch = setup.data.batch(Split::train, setup.stream_seed(), std::uint32_t(part), o.batch, context);
        const auto of_rank = [&](const std::vector<std::int32_t>& all) {
            return std::vector<std::int32_t>(all.begin() + rank * share * context,
                                             all.begin() + (rank + 1) * share * context);
        };
        backend.upload(of_rank(batch.tokens), tokens);
        backend.upload(of_rank(batch.targets), targets);
        model.rounder().begin(0, std::uint32_t(part * o.ranks + rank));
        model.forward(tokens, targets);
        model.backward(float(scale) / float(o.micro_batches));
    }
    std::map<std::string, std::vector<float>> gradients;
    for (const auto& parameter : model.parameters()) {
        auto& values = gradients[parameter->name];
        values.resize(std::size_t(parameter->grad.count()));
        backend.download(parameter->grad, values);
    }
    return gradients;
}

std::string contents(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

Experiment small_experiment(const std::filesystem::path& directory, const std::vector<Policy>& policies,
                            std::int64_t ranks) {
    Experiment experiment;
    experiment.policies = {load_policy("fp32")};
    experiment.policies.insert(experiment.policies.end(), policies.begin(), policies.end());
    experiment.model = small_model();
    experiment.options = small_options(ranks);
    experiment.directory = directory;
    return experiment;
}

}  // namespace

TEST_CASE("a reduction over ranks has the bits of its definition", "[ranks]") {
    std::vector<Words> settings;
    for (const char* wire : {"fp32", "bf16", "fp16", "tf32", "e5m2"}) {
        for (const ReduceOrder& order : reduce_orders) {
            for (const Averaging& average : averagings) {
                Words words{{"wire", wire}, {"order", std::string(order.name)}, {"average", std::string(average.name)}};
                settings.push_back(words);
                words["by_division"] = "true";
                settings.push_back(words);
                if (order.name == "gather") words["accumulate"] = "wire", settings.push_back(words);
                if (order.name == "ring") words["start"] = "5", settings.push_back(words);
                if (average.name == "after") words["predivide"] = "3.0", settings.push_back(words);
            }
        }
    }
    std::size_t compared = 0, numbers = 0;
    for (const Words& words : settings) {
        const ReduceConfig config = with_reduce("test", "fp32", words).reduce;
        const ReferenceReduce reference(words);
        for (const std::size_t ranks : {2, 3, 4, 5, 6, 7, 8, 16}) {
            for (const std::size_t count : {1, 2, 5, 64, 131}) {
                const auto parts = random_parts(ranks, count, std::uint32_t(100 * ranks + count), count == 131);
                const std::vector<float> ours = reduced(config, parts), theirs = reference.run(parts);
                CAPTURE(table_of(words), ranks, count);
                CHECK(differing(ours, theirs) == 0);
                compared += count;
                for (const float x : theirs) numbers += x == x && x != 0 ? 1 : 0;
            }
        }
    }
    CHECK(numbers > compared / 2);
}

TEST_CASE("FSDP's factors before and after the reduction agree with torch", "[ranks]") {
    const ReduceConfig config = with_reduce("test", "fp32", {{"average", "split"}}).reduce;
    struct Case {
        std::int64_t ranks;
        double before, after;
    };
    for (const Case& c : {Case{2, 2, 1}, {3, 2, 1.5}, {4, 2, 2}, {6, 4, 1.5}, {8, 4, 2}, {16, 4, 4}}) {
        CAPTURE(c.ranks);
        const auto [before, after] = rank_factors(config, c.ranks);
        CHECK(before == c.before);
        CHECK(after == c.after);
    }
}

TEST_CASE("with eight ranks, different orders give different sums, and the differences are smallest in fp32",
          "[ranks]") {
    const auto parts = random_parts(8, 4000, 7, false);
    std::map<std::string, double> spread;
    for (const std::string wire : {"bf16", "fp16", "fp32"}) {
        std::vector<std::vector<float>> results;
        for (const ReduceOrder& order : reduce_orders)
            results.push_back(reduced(
                with_reduce("test", "fp32", {{"wire", wire}, {"order", std::string(order.name)}}).reduce, parts));
        for (std::size_t a = 0; a < results.size(); ++a) {
            for (std::size_t b = 0; b < a; ++b) {
                CAPTURE(wire, a, b);
                CHECK(differing(results[a], results[b]) > 0);
                for (std::size_t i = 0; i < results[a].size(); ++i)
                    spread[wire] += std::abs(double(results[a][i]) - double(results[b][i]));
            }
        }
    }
    CHECK(spread["fp32"] < spread["fp16"] / 1000);
    CHECK(spread["fp16"] < spread["bf16"]);
}

TEST_CASE("each chunk of a ring starts at a different rank, and every element is in exactly one chunk", "[ranks]") {
    for (const std::int64_t ranks : {1, 2, 3, 8}) {
        for (const std::int64_t count : {0, 1, 2, 7, 8, 9, 100}) {
            CAPTURE(ranks, count);
            std::int64_t next = 0;
            for (std::int64_t chunk = 0; chunk < ranks; ++chunk) {
                const auto [first, end] = ring_chunk(count, ranks, chunk);
                CHECK(first == next);
                next = end;
            }
            CHECK(next == count);
        }
    }
    const ReduceConfig config = with_reduce("test", "fp32", {{"wire", "bf16"}, {"average", "after"}}).reduce;
    // A chunk has at most one element. The first chunk passes through ranks 1, 2, 3, 0. In bf16, 3 + 256 is 260, and
    // 256 + 1 + 1 + 1 is 256.
    CHECK(reduced(config, {{256, 1}, {1, 1}, {1, 1}, {1, 256}})[0] == 65.0f);
    CHECK(reduced(config, {{1, 1}, {256, 1}, {1, 1}, {1, 1}})[0] == 64.0f);
}

TEST_CASE("buckets contain one tensor, all tensors of a format, or the tensors of DDP's buckets", "[ranks]") {
    const CastRule wide{}, low{.format = bf16};
    std::vector<GradientSize> gradients{{wide, 10}, {low, 20}, {wide, 300000}, {wide, 5}, {wide, 40}};
    const auto groups = [&](const char* name) {
        std::vector<std::vector<std::size_t>> out;
        for (const Bucketing& row : bucketings) {
            if (row.name != name) continue;
            for (const ReduceBucket& bucket : reduce_buckets(row, gradients)) {
                std::int64_t count = 0;
                for (const std::size_t i : bucket.parameters) {
                    CHECK(gradients[i].wire == bucket.wire);
                    count += gradients[i].count;
                }
                CHECK(count == bucket.count);
                out.push_back(bucket.parameters);
            }
        }
        return out;
    };
    using Groups = std::vector<std::vector<std::size_t>>;
    CHECK(groups("tensor") == Groups{{0}, {1}, {2}, {3}, {4}});
    CHECK(groups("model") == Groups{{0, 2, 3, 4}, {1}});
    // DDP fills its buckets in the reverse order of the parameters. 300,000 fp32 numbers are more than 1 MiB, the limit
    // that closes the first bucket.
    CHECK(groups("ddp") == Groups{{4, 3, 2}, {1}, {0}});
    // The limit of the second bucket is 25 MiB, so it contains the other two tensors.
    gradients = {{wide, 300000}, {wide, 300000}, {wide, 300000}};
    CHECK(groups("ddp") == Groups{{2}, {1, 0}});
}

TEST_CASE("the gradients of a step are the reduction of gradients computed separately for each rank", "[ranks]") {
    const std::vector<Policy> policies{
        load_policy("fp32"),
        load_policy("amp-fp16"),
        load_policy("pure-bf16"),
        load_policy("fp8-tensorwise"),
        with_reduce("compressed", "amp-bf16", {{"wire", "fp16"}, {"average", "split"}, {"order", "tree"}}),
        with_reduce("flat", "amp-bf16", {{"wire", "bf16"}, {"bucket", "model"}}),
        with_reduce("ddp", "pure-bf16", {{"wire", "fp32"}, {"bucket", "ddp"}, {"order", "gather"}})};
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        const ModelConfig model = small_model(kind);
        const SiteList sites = model_sites(model);
        const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
        const auto data = open_data({}, model.vocabulary, model.context);
        for (const Policy& policy : policies) {
            const ResolvedPolicy resolved = resolve(policy, sites);
            for (const std::int64_t ranks : {3, 4, 8}) {
                TrainOptions options = small_options(ranks);
                options.batch = 2 * ranks;
                options.micro_batches = ranks == 4 ? 2 : 1;
                const RunSetup setup{resolved, fp32_policy, model, options, *data, 3};
                CAPTURE(policy.name, to_string(kind), ranks);
                CpuBackend backend(1);
                Step step(backend, setup);
                GradientWatcher watcher(backend, step.observer());
                step.attach(watcher);
                const double scale = make_loss_scaler(resolved.loss_scaler)->scale();
                step.run(0);
                step.release();

                std::vector<std::map<std::string, std::vector<float>>> local;
                for (std::int64_t rank = 0; rank < ranks; ++rank) local.push_back(local_gradients(setup, rank, scale));
                Words words;
                for (const auto& [key, text] : settings_of(resolved.reduce)) words[key] = text;
                // The names of the parameters in each bucket.
                std::vector<std::vector<std::string>> vectors;
                for (const Parameter& each : sites.parameters) {
                    if (vectors.empty() || words["bucket"] == "tensor") vectors.emplace_back();
                    auto& names = vectors.back();
                    names.insert(words["bucket"] == "ddp" ? names.begin() : names.end(), each.name);
                }
                for (const auto& names : vectors) {
                    const CastRule& grad = resolved.cast(names.front() + ":grad");
                    Words of_wire = words;
                    if (words["wire"] == "grad") of_wire["wire"] = to_string(grad);
                    std::vector<std::vector<float>> parts;
                    for (auto& rank : local) {
                        parts.emplace_back();
                        for (const std::string& name : names)
                            parts.back().insert(parts.back().end(), rank[name].begin(), rank[name].end());
                    }
                    std::vector<float> wanted = ReferenceReduce(of_wire).run(parts), got;
                    for (float& x : wanted) x = quantize(grad.format, x, Round::nearest_even, grad.overflow);
                    for (const std::string& name : names)
                        got.insert(got.end(), watcher.gradients[name].begin(), watcher.gradients[name].end());
                    CAPTURE(names.front());
                    CHECK(differing(got, wanted) == 0);
                }
            }
        }
    }
}

TEST_CASE("in fp32, the mean gradient over ranks equals the gradient of the whole batch up to rounding", "[ranks]") {
    const ModelConfig model = small_model();
    const SiteList sites = model_sites(model);
    const ResolvedPolicy policy = resolve(load_policy("fp32"), sites);
    const auto data = open_data({}, model.vocabulary, model.context);
    std::map<std::int64_t, std::map<std::string, std::vector<float>>> gradients;
    std::map<std::int64_t, double> losses;
    for (const std::int64_t ranks : {1, 4}) {
        const TrainOptions options = small_options(ranks);
        CpuBackend backend(1);
        Step step(backend, {policy, policy, model, options, *data, 3});
        GradientWatcher watcher(backend, step.observer());
        step.attach(watcher);
        losses[ranks] = step.run(0).loss;
        step.release();
        gradients[ranks] = watcher.gradients;
    }
    CHECK(losses[4] == Approx(losses[1]).epsilon(1e-12));
    double off = 0, size = 0;
    for (const auto& [name, values] : gradients[1]) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            off += std::pow(double(values[i]) - double(gradients[4][name][i]), 2),
                size += std::pow(double(values[i]), 2);
        }
    }
    CHECK(size > 0);
    CHECK(std::sqrt(off / size) < 1e-6);  // a few units of 2^-24
    CHECK(off > 0);                       // the sums have different orders
}

TEST_CASE("with one rank, [reduce] does not change a byte", "[ranks]") {
    const TemporaryFolder folder;
    CpuBackend backend(1);
    const Words words{{"wire", "e5m2"}, {"order", "tree"}, {"average", "after"}};
    REQUIRE(run_experiment(backend, small_experiment(folder / "plain", {load_policy("amp-fp16")}, 1), {}, never));
    REQUIRE(run_experiment(
        backend, small_experiment(folder / "reduce", {with_reduce("amp-fp16", "amp-fp16", words)}, 1), {}, never));
    for (const char* file : {"steps.csv", "evals.csv", "sites.csv"}) {
        CAPTURE(file);
        CHECK(contents(folder / "plain" / file) == contents(folder / "reduce" / file));
    }
    CHECK(contents(folder / "plain/manifest.json").find("\"ranks\"") == std::string::npos);
}

TEST_CASE("a run on several ranks writes the same bytes with any number of threads, and after a resume", "[ranks]") {
    const TemporaryFolder folder;
    const std::vector<Policy> policies{
        with_reduce("wire16", "amp-fp16", {{"wire", "fp16"}}),
        with_reduce("drawn", "pure-bf16", {{"wire", "bf16:stochastic"}, {"order", "tree"}}),
        load_policy("pure-bf16-sr")};
    {
        CpuBackend backend(1, Simd::scalar);
        REQUIRE(run_experiment(backend, small_experiment(folder / "one", policies, 4), {}, never));
    }
    const auto same_as_one = [&](const std::string& other) {
        for (const char* file : {"steps.csv", "evals.csv", "sites.csv"}) {
            CAPTURE(other, file);
            CHECK(contents(folder / "one" / file) == contents(folder / other / file));
        }
    };
    for (const int threads : {2, 3}) {
        const std::string name = fmt::format("threads{}", threads);
        CpuBackend backend(threads);
        REQUIRE(run_experiment(backend, small_experiment(folder / name, policies, 4), {}, never));
        same_as_one(name);
    }
    // The run is stopped every four steps and resumed from its own manifest.
    CpuBackend backend(2);
    Experiment experiment = small_experiment(folder / "stopped", policies, 4);
    bool is_over = false;
    int stops = 0;
    while (!is_over) {
        std::atomic<bool> stop{false};
        int steps = 0;
        const auto progress = [&](const Progress&) { stop = ++steps >= 4; };
        is_over = run_experiment(backend, experiment, progress, stop);
        stops += is_over ? 0 : 1;
        experiment = read_manifest(folder / "stopped/manifest.json").experiment;
        CHECK(experiment.options.ranks == 4);
        experiment.directory = folder / "stopped";
        experiment.resume = true;
    }
    CHECK(stops > 3);
    same_as_one("stopped");
}

TEST_CASE("with FSDP's sharded scaler, an overflow on one rank skips the step on all ranks", "[ranks]") {
    const ModelConfig model = small_model();
    const SiteList sites = model_sites(model);
    const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
    const auto data = open_data({}, model.vocabulary, model.context);
    const TrainOptions options = small_options(8);
    bool was_seen = false;
    for (int exponent = 12; exponent < 30 && !was_seen; ++exponent) {
        const Policy policy = parse_policy(
            fmt::format("name = \"sharded\"\nextends = \"amp-fp16\"\n[[rule]]\nparams = \"*\"\ngrad = \"fp16\"\n"
                        "[loss_scaler]\nkind = \"torch-sharded\"\ninit_scale = {:.1f}\n[reduce]\nwire = \"fp16\"\n",
                        std::ldexp(1.0, exponent)),
            "test");
        const ResolvedPolicy resolved = resolve(policy, sites);
        const RunSetup setup{resolved, fp32_policy, model, options, *data, 3};
        int overflowing = 0;
        for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
            bool is_finite = true;
            for (const auto& [name, values] : local_gradients(setup, rank, std::ldexp(1.0, exponent))) {
                for (const float x : values) is_finite = is_finite && std::isfinite(x);
            }
            overflowing += is_finite ? 0 : 1;
        }
        CpuBackend backend(1);
        Step step(backend, setup);
        Checkpoint before, after;
        step.optimizer().save(before);
        const StepResult result = step.run(0);
        step.optimizer().save(after);
        CAPTURE(exponent, overflowing);
        if (overflowing > 0) CHECK(result.outcome.skipped);
        if (overflowing == 0 || overflowing == options.ranks) continue;
        was_seen = true;
        for (std::size_t i = 0; i < before.state.size(); ++i) CHECK(before.state[i].values == after.state[i].values);
        CHECK(step.run(1).loss_scale == result.loss_scale / 2);
    }
    CHECK(was_seen);
}

TEST_CASE("an overflow in the wire format skips the step, and the row names its site", "[ranks]") {
    const TemporaryFolder folder;
    // Scaled gradients and their sums overflow in the fp16 wire format, although the fp32 gradients do not.
    const Policy policy = parse_policy(
        "name = \"loud\"\nextends = \"fp32\"\n[loss_scaler]\nkind = \"torch\"\ninit_scale = 16777216.0\n"
        "[reduce]\nwire = \"fp16\"\naverage = \"after\"\n",
        "test");
    CpuBackend backend(1);
    REQUIRE(run_experiment(backend, small_experiment(folder / "run", {policy}, 4), {}, never));
    std::int64_t skipped = 0;
    for (const StepRow& row : CsvReader<StepRow>(folder / "run/steps.csv").rows()) {
        if (!row.skipped) continue;
        ++skipped;
        CHECK((row.overflow_site == Ranks::sent_slot || row.overflow_site == Ranks::summed_slot));
        CHECK(row.overflow > 0);
    }
    CHECK(skipped > 0);
    std::set<std::string> sites;
    for (const SiteRow& row : CsvReader<SiteRow>(folder / "run/sites.csv").rows()) {
        if (row.policy == "loud") sites.insert(row.site);
    }
    CHECK(sites.contains(Ranks::sent_slot));
    CHECK(sites.contains(Ranks::summed_slot));
}

TEST_CASE("no random word is used twice with several ranks and a stochastically rounded wire format",
          "[ranks][random]") {
    const ModelConfig model = small_model();
    const SiteList sites = model_sites(model);
    const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
    const auto data = open_data({}, model.vocabulary, model.context);
    for (const Bucketing& bucket : bucketings) {
        for (const char* order : {"ring", "tree", "gather"}) {
            Words words{{"wire", "bf16:stochastic"}, {"bucket", std::string(bucket.name)}, {"order", order}};
            if (words["order"] == "gather") words["accumulate"] = "wire";
            const std::string grads = "[[rule]]\nparams = \"*\"\ngrad = \"bf16:stochastic\"\n";
            const ResolvedPolicy resolved = resolve(
                parse_policy("name = \"drawn\"\nextends = \"pure-bf16-sr\"\n" + grads + table_of(words), "test"),
                sites);
            TrainOptions options = small_options(4);
            options.micro_batches = 2;
            CpuBackend backend(1);
            std::vector<RandomDraw> draws;
            Step step(backend, {resolved, fp32_policy, model, options, *data, 3});
            backend.list_draws(&draws);
            for (std::int64_t i = 0; i < 3; ++i) step.run(i);
            std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> keys;
            for (const RandomDraw& draw : draws) keys.insert({draw.key.seed, draw.key.step, draw.key.site});
            CAPTURE(bucket.name, order);
            CHECK(draws.size() > 100);
            CHECK(keys.size() == draws.size());
        }
    }
}

TEST_CASE("the number of ranks must divide the batch, and each rank needs memory for its gradients", "[ranks]") {
    TrainOptions options = small_options(3);
    try {
        validate(options);
        FAIL("8 samples were divided among 3 ranks");
    } catch (const FieldError& error) {
        CHECK(error.field() == "ranks");
        CHECK(error.parts().exit == Exit::usage);
    }
    for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, max_ranks + 1}) {
        options.ranks = bad;
        CHECK_THROWS_AS(validate(options), FieldError);
    }
    const TemporaryFolder folder;
    Experiment one = small_experiment(folder / "run", {}, 1), four = one;
    four.options.batch = 32, four.options.ranks = 4;  // the same number of samples per rank
    CHECK(min_memory(four) - min_memory(one) == 4.0 * 4 * double(parameter_count(one.model)));
}

TEST_CASE("[reduce] refuses unknown keys and invalid values", "[ranks]") {
    struct Case {
        const char *text, *says;
    };
    for (const Case& c : std::initializer_list<Case>{{"wire = \"e4m3fn/tensor\"", "has a scale"},
                                                     {"wire = \"bf61\"", "bf61"},
                                                     {"order = \"rings\"", "unknown order 'rings'"},
                                                     {"start = -1", "'start' is -1"},
                                                     {"predivide = 2.0", "has no effect"},
                                                     {"average = \"after\"\npredivide = 0.0", "'predivide' is 0"},
                                                     {"average = \"after\"\npredivide = nan", "'predivide' is nan"},
                                                     {"ranks = 4", "unknown key 'ranks'"}}) {
        CAPTURE(c.text);
        try {
            parse_policy(fmt::format("name = \"x\"\n[reduce]\n{}\n", c.text), "test");
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.parts().what.find(c.says) != std::string::npos);
            CHECK(error.parts().where.find("test:") != std::string::npos);
        }
    }
}

}  // namespace ranks_test
