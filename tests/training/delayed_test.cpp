// SPDX-License-Identifier: Apache-2.0
// Tests delayed scaling in training: the scale of each step, the updates of the amax histories, and the passes that
// must not change a history.
#include "experiments/training/model/histories.hpp"
#include "experiments/training/run/evaluator.hpp"
#include "tests/test.hpp"
#include "tests/training/trained.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace delayed_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

/// Records the casts of each slot whose casts have a scale: the amax of the input, and the scales.
class Scales final : public Observer {
  public:
    struct Seen {
        float amax, encode, decode;
    };
    explicit Scales(Backend& backend) : backend_(backend) {}
    bool sampling() const override { return true; }
    void on_cast(const Slot& slot, const Cast& cast, const Tally&, const Decoding& decoding, ConstView x,
                 ConstView) override {
        if (slot.rule.has_scale()) seen[slot.name].push_back({backend_.amax(x), cast.encode_scale, decoding.factor});
    }
    std::map<std::string, std::vector<Seen>> seen;

  private:
    Backend& backend_;
};

Policy delayed(const std::string& words) {
    return parse_policy(
        "extends = \"amp-bf16\"\n[[rule]]\nsites = \"block.*.{attn.qkv,attn.proj,mlp.up,mlp.down}\"\nrecipe = "
        "\"te-delayed" +
            words + "\"\n",
        "delayed.toml");
}

/// Returns the scale after the first `count` casts by its definition: max 2^-margin, divided by the largest of the last
/// `length` amaxes.
float scale_after(const std::vector<Scales::Seen>& casts, std::size_t count, std::size_t length, float max,
                  int margin) {
    float scale = 1;
    for (std::size_t n = 1; n <= count; ++n) {
        float top = 0;
        for (std::size_t i = n > length ? n - length : 0; i < n; ++i) top = std::max(top, casts[i].amax);
        scale = std::ldexp(max, -margin) / top;
    }
    return scale;
}

}  // namespace

TEST_CASE("a tensor is cast with the scale that follows from earlier steps", "[experiments][recipe]") {
    struct Case {
        const char* words;
        std::size_t length;
        int margin;
    };
    for (const Case& c :
         {Case{"", 1024, 0}, {":history=2", 2, 0}, {":history=3:margin=1", 3, 1}, {":most_recent", 1, 0}}) {
        CAPTURE(c.words);
        test::TinyRun run(delayed(c.words));
        Scales scales(run.backend);
        run.step.model().rounder().observe(&scales);
        run.run(6);
        // Two blocks have four linears each. The activation and the weight are cast in the forward pass, and the
        // gradient in the backward pass. The other operands of matmuls reuse the codes of these three casts.
        CHECK(scales.seen.size() == 2 * 4 * 3);
        for (const auto& [slot, casts] : scales.seen) {
            CAPTURE(slot);
            REQUIRE(casts.size() == 6);
            const float max = slot.ends_with(":input_grad.a") ? 57344.0f : 448.0f;
            for (std::size_t step = 0; step < 6; ++step) {
                CAPTURE(step);
                const float wanted = scale_after(casts, step, c.length, max, c.margin);
                CHECK(casts[step].encode == wanted);
                CHECK(casts[step].decode == 1.0f / wanted);
            }
            CHECK(casts[0].encode == 1);
            CHECK(casts[1].encode != 1);
        }
    }
}

TEST_CASE("each micro-batch adds one entry to an amax history, and the ranks of a step add one entry together",
          "[experiments][recipe]") {
    TrainOptions options = test::TinyRun::tiny_options();
    options.micro_batches = 2;
    test::TinyRun two(delayed(""), ModelKind::gpt2, options);
    Scales scales(two.backend);
    two.step.model().rounder().observe(&scales);
    two.run(3);
    for (const auto& [slot, casts] : scales.seen) {
        CAPTURE(slot);
        REQUIRE(casts.size() == 6);  // each micro-batch casts the weight again, because its scale has changed
        for (std::size_t i = 0; i < 6; ++i) {
            CHECK(casts[i].encode ==
                  scale_after(casts, i, 1024, slot.ends_with("input_grad.a") ? 57344.0f : 448.0f, 0));
        }
    }

    options = test::TinyRun::tiny_options();
    options.ranks = 2;
    test::TinyRun ranks(delayed(""), ModelKind::gpt2, options);
    Scales each(ranks.backend);
    ranks.step.model().rounder().observe(&each);
    ranks.run(2);
    for (const auto& [slot, casts] : each.seen) {
        CAPTURE(slot);
        // A weight is the same on both ranks, but it is cast once for each rank.
        REQUIRE(casts.size() == 4);
        CHECK(casts[0].encode == 1);
        CHECK(casts[1].encode == 1);
        const float top = std::max(casts[0].amax, casts[1].amax);
        CHECK(casts[2].encode == (slot.ends_with("input_grad.a") ? 57344.0f : 448.0f) / top);
        CHECK(casts[3].encode == casts[2].encode);
    }
}

TEST_CASE("one infinity freezes a scale for as many updates as the amax history has entries", "[experiments][recipe]") {
    AmaxHistory history(*find_scale_rule("te_delayed"), e4m3fn, {.length = 16});
    std::vector<float> scales;
    for (int step = 0; step < 40; ++step) {
        scales.push_back(history.scale());
        history.observe(step == 5 ? std::numeric_limits<float>::infinity() : 0.001f * static_cast<float>(40 - step));
        history.update();
    }
    // The scale of step 5 follows from steps 0 to 4. The infinity of step 5 keeps the scale unchanged for 16 updates,
    // which is the length of the history. Steps 6 to 21 therefore have the same scale.
    for (std::size_t step = 6; step <= 21; ++step) CHECK(scales[step] == scales[5]);
    CHECK(scales[22] != scales[5]);
    CHECK(scales[22] == 448.0f / (0.001f * 34));
}

TEST_CASE("a scale has two counters: updates since its last change, and consecutive updates without a usable amax",
          "[experiments][recipe]") {
    const CastRule rule{.format = e4m3fn,
                        .granularity = find_granularity("tensor"),
                        .scale_rule = find_scale_rule("te_delayed"),
                        .delayed = {.length = 1}};
    REQUIRE(rule.has_history());
    AmaxHistories histories;
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    struct Update {
        float amax;
        std::int64_t steps, frozen;
    };
    for (const Update& c : {Update{0, 1, 1},
                            {2, 0, 0},
                            {infinity, 1, 1},
                            {nan, 2, 2},
                            {0, 3, 3},
                            {2, 4, 0},
                            {2, 5, 0},
                            {infinity, 6, 1},
                            {4, 0, 0}}) {
        CAPTURE(c.amax, c.steps);
        histories.of("slot", rule).observe(c.amax);
        histories.update();
        CHECK(histories.age("slot", rule).steps == c.steps);
        CHECK(histories.age("slot", rule).frozen == c.frozen);
    }
}

TEST_CASE("the first step of delayed scaling loses a third of the gradients to underflow, the second almost none",
          "[experiments][recipe]") {
    /// Counts gradients that enter a matmul, and their underflows.
    struct Lost final : Observer {
        bool sampling() const override { return false; }
        void on_cast(const Slot& slot, const Cast&, const Tally& tally, const Decoding&, ConstView,
                     ConstView) override {
            if (!slot.name.ends_with(":input_grad.a")) return;
            underflow += tally.underflow;
            count += tally.count;
        }
        std::uint64_t underflow = 0, count = 0;
    };
    const ModelSize size = named_size("tiny", ModelKind::gpt2);
    const SiteList sites = model_sites(size.model);
    const ResolvedPolicy policy = resolve(load_policy("te-delayed"), sites),
                         fp32_policy = resolve(load_policy("fp32"), sites);
    TrainOptions options;
    options.batch = size.batch;
    options.probe_every = 0;
    const SyntheticLanguage data(size.model.vocabulary);
    CpuBackend backend(1);
    Step step(backend, {.policy = policy, .fp32 = fp32_policy, .model = size.model, .options = options, .data = data});
    Lost lost;
    step.model().rounder().observe(&lost);
    step.run(0, Sampling::counts);
    // According to the specification fp8-recipes, 32.2 % of the gradients underflow in a model of this size.
    CHECK(static_cast<double>(lost.underflow) > 0.30 * static_cast<double>(lost.count));
    CHECK(static_cast<double>(lost.underflow) < 0.35 * static_cast<double>(lost.count));
    lost = {};
    step.run(1, Sampling::counts);
    CHECK(static_cast<double>(lost.underflow) < 1e-4 * static_cast<double>(lost.count));
}

TEST_CASE("an evaluation and a recomputed forward pass do not change histories", "[experiments][recipe]") {
    test::TinyRun plain(delayed(":history=4"));
    TrainOptions options = test::TinyRun::tiny_options();
    options.recompute = true;
    test::TinyRun again(delayed(":history=4"), ModelKind::gpt2, options);
    test::TinyRun watched(delayed(":history=4"));
    Evaluator evaluator(watched.backend,
                        RunSetup{.policy = watched.resolved,
                                 .fp32 = watched.fp32_policy,
                                 .model = watched.model,
                                 .options = watched.run_options,
                                 .data = watched.data,
                                 .drawn = watched.run_options.batch},
                        2);
    for (int step = 0; step < 5; ++step) {
        evaluator.evaluate(step, watched.step);
        const double loss = plain.next().loss;
        CHECK(watched.next().loss == loss);
        CHECK(again.next().loss == loss);
    }
    CHECK(watched.state() == plain.state());
    CHECK(again.state() == plain.state());
    CHECK(plain.state().count("block.0.mlp.up:forward.a.amax_history") == 1);
}

TEST_CASE("a run resumes from its checkpoint with the same histories", "[experiments][recipe]") {
    for (const char* words : {"", ":history=3", ":history=1", ":most_recent:margin=2"}) {
        CAPTURE(words);
        test::TinyRun whole(delayed(words)), first(delayed(words)), rest(delayed(words));
        whole.run(7);
        first.run(3);
        Checkpoint checkpoint;
        first.step.save(checkpoint);
        check_state(checkpoint, rest.sites, rest.run_options, rest.resolved);
        rest.step.load(checkpoint);
        rest.next_step = 3;
        rest.run(4);
        CHECK(rest.state() == whole.state());
        // If the histories are lost, the results differ.
        test::TinyRun forgetful(delayed(words));
        forgetful.step.load(checkpoint);
        forgetful.step.model().rounder().histories() = AmaxHistories(forgetful.resolved);
        forgetful.next_step = 3;
        forgetful.run(4);
        CHECK(forgetful.state() != whole.state());
        // A checkpoint with histories of another length is refused.
        test::TinyRun other(delayed(":history=5"));
        CHECK_THROWS_AS(check_state(checkpoint, other.sites, other.run_options, other.resolved), Error);
    }
}

TEST_CASE("a scale rule that ignores NaN scales a tensor by the amax of its numbers", "[experiments][recipe]") {
    CpuBackend backend(1);
    const ResolvedPolicy policy = resolve(load_policy("te-current"), model_sites({}));
    const ResolvedPolicy torchao = resolve(load_policy("ao-tensorwise"), model_sites({}));
    const Tensor x = backend.empty({2, 8});
    std::vector<float> values(16, 0.5f);
    values[3] = std::numeric_limits<float>::quiet_NaN();
    values[9] = -3.5f;
    backend.upload(values, x);
    Rounder rounder(backend, 0);
    Tensor buffer;
    const Value te = rounder.apply(Slot(policy, "block.0.mlp.up:forward.a"), {x.view()}, buffer);
    CHECK(te.scale.decode == 1.0f / 128);
    CHECK(te.view.data[0] == 64);
    CHECK(te.view.data[9] == -448);
    CHECK(te.view.data[3] != te.view.data[3]);
    const Value ao = rounder.apply(Slot(torchao, "block.0.mlp.up:forward.a"), {x.view()}, buffer);
    CHECK(ao.scale.decode != ao.scale.decode);
    // Transformer Engine does not scale a tensor of zeros. torchao computes a scale from the smallest amax that it
    // allows. In both cases, the decoded values are zeros.
    backend.fill(x, 0.0f);
    for (const ResolvedPolicy* each : {&policy, &torchao}) {
        const Value zeros = rounder.apply(Slot(*each, "block.0.mlp.up:forward.a"), {x.view()}, buffer);
        CHECK(backend.amax(zeros.view) == 0);
    }
}

}  // namespace delayed_test
