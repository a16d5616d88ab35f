// SPDX-License-Identifier: Apache-2.0
// Tests the settings of a policy other than casts, such as clip formulas and the accumulation of micro-batches, and
// trains with them.
#include "core/error.hpp"
#include "experiments/policy/training.hpp"
#include "experiments/training/run/optimizer/adam_kernels.hpp"
#include "experiments/training/run/optimizer/clip_norm.hpp"
#include "experiments/training/run/trainable.hpp"
#include "tests/training/trained.hpp"

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace training_recipe_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using test::TinyRun;
using test::to_bf16;

namespace {

const ClipFormula& formula(std::string_view name) {
    for (const ClipFormula& one : clip_formulas) {
        if (one.name == name) return one;
    }
    FAIL("no formula");
    return clip_formulas[0];
}

}  // namespace

TEST_CASE("the clip formula of each system gives the expected coefficient", "[experiments][optimizer]") {
    struct Case {
        const char* formula;
        double norm, max;
        double wanted;
        const char* why;
    };
    const auto [name, norm, max, wanted, why] = GENERATE(table<const char*, double, double, double, const char*>(
        {{"torch", 4, 1, 1 / (4 + 1e-6), "max / (norm + 1e-6)"},
         {"torch", 0.5, 1, 1, "a coefficient is at most 1"},
         {"torch", 1, 1, 1 / (1 + 1e-6), "1e-6 is also added to a norm at the bound"},
         {"megatron", 4, 1, 1 / (4 + 1e-6), "the same formula if it clips"},
         {"megatron", 0.5, 1, 1, "not applied if it does not clip"},
         {"deepspeed-bf16", 3, 1.5, 1.5 / (3 + 1e-6), "the same formula"},
         {"plain", 4, 1, 1 / (4 + 1e-6), "the default of a run"}}));
    CAPTURE(name, norm, max, why);
    const float n = static_cast<float>(norm);
    const float ratio = static_cast<float>(max) / (n + 1e-6f);
    CHECK(clip_coefficient(formula(name), n, max, fp32) == (ratio > 1 ? 1.0f : ratio));
    CHECK(clip_coefficient(formula(name), n, max, fp32) == Approx(wanted).epsilon(1e-6));
}

TEST_CASE("a NaN norm makes torch's coefficient NaN, and Megatron's coefficient 1", "[experiments][optimizer]") {
    CHECK(std::isnan(clip_coefficient(formula("torch"), NAN, 1, fp32)));
    CHECK(clip_coefficient(formula("megatron"), NAN, 1, fp32) == 1.0f);
    CHECK(clip_coefficient(formula("torch"), INFINITY, 1, fp32) == 0.0f);
}

TEST_CASE("torch's norm of bf16 gradients is a bf16 number, and so is its clip factor", "[experiments][optimizer]") {
    NormOfTensors norm(formula("torch"));
    norm.add(9.0 + 0.01, bf16);  // 3.0017, which rounds to 3 in bf16
    norm.add(16.0 + 0.02, bf16);
    CHECK(norm.result() == 5.0f);
    const float factor = clip_coefficient(formula("torch"), 5.0f, 1, bf16);
    CHECK(factor == to_bf16(0.2f));
    CHECK(factor != 0.2f);
    NormOfTensors mixed(formula("torch"));
    mixed.add(9.0, bf16);
    mixed.add(2.0, fp32);
    CHECK(mixed.result() == std::sqrt(9.0f + std::sqrt(2.0f) * std::sqrt(2.0f)));
}

TEST_CASE("the norm of gradients has the format of the tensors, or fp32 if their formats differ",
          "[experiments][optimizer]") {
    // The root of 3^2 + 4^2 + 0.25^2 is 5.006..., which is neither a bf16 nor an fp16 number.
    for (const Format format : {bf16, fp16, fp32}) {
        NormOfTensors norm(formula("torch")), mixed(formula("torch"));
        for (const double squares : {9.0, 16.0, 0.0625}) {
            norm.add(squares, format);
            mixed.add(squares, squares == 9.0 ? fp32 : bf16);
        }
        const float exact = std::sqrt(25.0625f);
        CHECK(norm.result() == quantize(format, exact, Round::nearest_even, Overflow::nonsaturate));
        CHECK(mixed.result() == exact);
    }
}

TEST_CASE("every loss scaler undoes the token weight exactly", "[experiments][optimizer]") {
    // Multiplying an fp32 gradient by a power of two does not change its significand if it stays normal.
    for (const ScalerKind* kind : scaler_kinds()) {
        for (const bool divides : {false, true}) {
            Policy policy = load_policy("fp32");
            policy.loss_scaler = LossScalerConfig(*kind);
            for (const ScalerKey& key : kind->keys) {
                if (key.name == "unscale_by_division") policy.loss_scaler.set(key.name, divides);
                if (key.name == "scale" || key.name == "init_scale") policy.loss_scaler.set(key.name, 1024);
            }
            const auto trained = [&](double weight) {
                TrainOptions options = TinyRun::tiny_options();
                options.token_weight = weight;
                TinyRun run(policy, ModelKind::gpt2, options);
                run.run(3);
                std::map<std::string, std::vector<float>> values = run.state();
                std::erase_if(values, [](const auto& one) { return !one.first.ends_with(":value"); });
                return values;
            };
            CAPTURE(kind->name, divides);
            const auto plain = trained(1);
            CHECK(!plain.empty());
            CHECK(plain == trained(0x1p-5));
        }
    }
}

TEST_CASE("DeepSpeed unscales and clips by one factor", "[experiments][optimizer]") {
    // Gradients are multiplied by 1 / (c S), where S is the loss scale and c = max(1, (norm + 1e-6) / max_norm).
    CHECK(combined_factor(0.5f, 1024, 1) == 0x1p-10f);
    const float c = (4.0f + 1e-6f) / 1.5f;
    CHECK(combined_factor(4.0f, 1024, 1.5) == static_cast<float>(1.0 / static_cast<double>(c * 1024.0f)));
    CHECK(combined_factor(4.0f, 3, 1.5) == static_cast<float>(1.0 / static_cast<double>(c * 3.0f)));
}

TEST_CASE("steps.csv has the share of second moments that stagnate in their format", "[experiments][optimizer]") {
    const auto share = [](const char* text, OptimizerKind optimizer = OptimizerKind::adamw) {
        TrainOptions options = TinyRun::tiny_options();
        options.optimizer = optimizer;
        options.steps = 400;
        TinyRun run(parse_policy(text, "test"), ModelKind::gpt2, options);
        run.run(300);
        const StepResult last = run.next();
        return run.step.row(last, std::nullopt).moment_stagnation;
    };
    // A bf16 number times 0.999 rounds to the same number. Moments therefore stop changing when they have grown to
    // about the squares of the gradients.
    const char* slow = "extends = \"pure-bf16\"\n[optimizer]\nbeta2 = 0.999\n";
    const char* fast = "extends = \"pure-bf16\"\n[optimizer]\nbeta2 = 0.95\n";
    const char* wide = "extends = \"amp-bf16\"\n[optimizer]\nbeta2 = 0.999\n";
    CHECK(share(slow).value() > 0.3);
    CHECK(share(fast).value() < 0.2);
    CHECK(share(wide).value() < 0.01);
    CHECK_FALSE(share("extends = \"fp32\"\n", OptimizerKind::sgd).has_value());
}

TEST_CASE("gradients of micro-batches are added up in the format that the key accum sets", "[experiments][train]") {
    const auto policy = [](const char* accum) {
        return parse_policy(fmt::format("extends = \"pure-bf16\"\n[[rule]]\nparams = \"*\"\nmaster = \"fp32\"\n{}\n"
                                        "[accumulation]\nmicro_batches = 4\n",
                                        accum),
                            "test");
    };
    TinyRun low(policy("")), wide(policy("accum = \"fp32\""));
    for (TinyRun* run : {&low, &wide}) CHECK(run->run_options.micro_batches == 4);
    CHECK(low.run_options.batch == 1);
    low.next();
    wide.next();
    const auto is_low = [](const std::vector<float>& values) {
        return std::all_of(values.begin(), values.end(), [](float x) { return to_bf16(x) == x; });
    };
    for (const char* name : {"block.0.mlp.up.weight", "embed.token.weight", "final_norm.weight"}) {
        CAPTURE(name);
        CHECK(is_low(low.gradient(name)));
        CHECK_FALSE(is_low(wide.gradient(name)));
        CHECK(low.gradient(name) != wide.gradient(name));
    }
}

TEST_CASE("accumulating bf16 gradients in fp32 gives the sum of the gradients of separate micro-batches",
          "[experiments][train]") {
    // Without clipping and decay, the optimiser leaves the gradient of the step in `grad`.
    const std::string text =
        "extends = \"pure-bf16\"\n[[rule]]\nparams = \"*\"\nmaster = \"fp32\"\naccum = \"fp32\"\n"
        "[clip]\nmax_norm = 0.0\n[accumulation]\nmicro_batches = 2\n";
    TinyRun both(parse_policy(text, "test"));
    both.next();
    std::vector<std::vector<float>> parts;
    Transformer model(both.backend, both.model, 2, both.resolved, 0);
    for (std::int64_t part = 0; part < 2; ++part) {
        model.initialise(0);
        model.clear_gradients();
        Batch batch = both.data.batch(Split::train, 0, 0, 4, both.model.context);
        keep_part(batch, part, 2);
        TokenTensor tokens = both.backend.empty_tokens({2, both.model.context}),
                    targets = both.backend.empty_tokens({2, both.model.context});
        both.backend.upload(batch.tokens, tokens);
        both.backend.upload(batch.targets, targets);
        model.forward(tokens, targets);
        model.backward(0.5f);
        model.end_micro_batch();
        for (const auto& parameter : model.parameters()) {
            if (parameter->name == "block.1.mlp.down.weight")
                parts.push_back(test::values_of(both.backend, parameter->grad));
        }
    }
    const std::vector<float> sum = both.gradient("block.1.mlp.down.weight");
    REQUIRE(parts.size() == 2);
    for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == parts[0][i] + parts[1][i]);
}

TEST_CASE("a policy overrides the options of a run, except a number of micro-batches that the run requests",
          "[experiments][train]") {
    TrainOptions run;
    run.batch = 12;
    run.lr = 1e-3;
    run.min_lr = 1e-4;
    TrainingRecipe recipe;
    CHECK(options_under(recipe, run) == run);
    recipe.lr = 2e-4;
    recipe.beta2 = 0.999;
    recipe.max_norm = 0;
    const auto divided = [&](std::int64_t wanted) {
        recipe.micro_batches = wanted;
        const TrainOptions o = options_under(recipe, run);
        CHECK(o.micro_batches * o.batch == 12);
        return o.micro_batches;
    };
    CHECK(divided(1) == 1);
    CHECK(divided(4) == 4);
    CHECK(divided(5) == 4);
    CHECK(divided(40) == 12);
    const TrainOptions o = options_under(recipe, run);
    CHECK(o.lr == 2e-4);
    CHECK(o.min_lr == Approx(2e-5));
    CHECK(o.beta2 == 0.999);
    CHECK(o.beta1 == run.beta1);
    CHECK(o.clip == 0);
    run.micro_batches = 3;  // requested by the run itself
    CHECK(options_under(recipe, run).micro_batches == 3);
}

TEST_CASE("micro-batches divide the samples of a step and do not draw other samples", "[experiments][train]") {
    const Policy divided = parse_policy("extends = \"fp32\"\n[accumulation]\nmicro_batches = 2\n", "divided.toml");
    TinyRun whole(load_policy("fp32")), parts(divided);
    const StepResult a = whole.next(), b = parts.next();
    CHECK(a.loss == Approx(b.loss).epsilon(1e-6));
    const auto x = whole.gradient("block.0.mlp.up.weight"), y = parts.gradient("block.0.mlp.up.weight");
    REQUIRE(x.size() == y.size());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) error += std::abs(x[i] - y[i]), size += std::abs(x[i]);
    CHECK(error < 1e-5 * size);
    CHECK(size > 0);
}

TEST_CASE("with rate_waits, the learning rate does not advance in skipped steps", "[experiments][train]") {
    const auto rates = [](bool waits) {
        const std::string text = fmt::format(
            "extends = \"amp-fp16\"\n[optimizer]\nrate_waits = {}\n[loss_scaler]\n"
            "kind = \"torch\"\ninit_scale = 16777216.0\n",
            waits);
        TrainOptions options = TinyRun::tiny_options();
        options.warmup = 10;
        TinyRun run(parse_policy(text, "test"), ModelKind::gpt2, options);
        std::vector<double> all;
        std::vector<bool> skipped;
        for (const StepResult& one : run.run(8)) {
            all.push_back(one.outcome.lr);
            skipped.push_back(one.outcome.skipped);
        }
        CHECK(skipped.front());
        CHECK_FALSE(skipped.back());
        return std::pair(all, skipped);
    };
    const auto [advancing, skipped] = rates(false);
    const auto [waiting, same_skips] = rates(true);
    int taken = 0;
    for (std::size_t i = 0; i < advancing.size(); ++i) {
        CHECK(advancing[i] == Approx(1e-3 * static_cast<double>(i + 1) / 10));
        CHECK(waiting[i] == Approx(1e-3 * static_cast<double>(taken + 1) / 10));
        taken += same_skips[i] ? 0 : 1;
    }
}

TEST_CASE("a checkpoint contains the number of steps that were taken", "[experiments][train]") {
    const Policy policy = parse_policy(
        "extends = \"amp-fp16\"\n[optimizer]\nrate_waits = true\nkernel = \"fused\"\n"
        "[loss_scaler]\nkind = \"torch\"\ninit_scale = 16777216.0\n",
        "test");
    TinyRun straight(policy), before(policy), after(policy);
    straight.run(9);
    before.run(6);
    Checkpoint checkpoint;
    before.step.save(checkpoint);
    check_state(checkpoint, after.sites, after.run_options, after.resolved);
    after.step.load(checkpoint);
    after.next_step = 6;
    after.run(3);
    CHECK(straight.state() == after.state());
}

TEST_CASE("a policy that cannot be trained is refused, and the error names the rule", "[experiments][train]") {
    const auto complaint = [](const std::string& text) -> std::string {
        try {
            check_trainable(resolve(parse_policy(text, "test"), model_sites(test::tiny_model(ModelKind::gpt2))));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    CHECK(complaint("extends = \"pure-fp16\"\n[[rule]]\nparams = \"*\"\nmaster = \"bf16\"\n")
              .find("train/master-narrower-than-store") != std::string::npos);
    CHECK(complaint("extends = \"pure-fp16\"\n[loss_scaler]\nkind = \"torch\"\n").find("torch/fp16-gradients") !=
          std::string::npos);
    CHECK(complaint("extends = \"pure-fp16\"\n[loss_scaler]\nkind = \"torch-sharded\"\n").empty());
    CHECK(complaint("extends = \"pure-bf16\"\n[[rule]]\nparams = \"*\"\nmaster = \"bf16\"\n").empty());
    for (const std::string_view name : preset_names()) {
        CAPTURE(name);
        CHECK_NOTHROW(check_trainable(resolve(load_policy(name), model_sites(test::tiny_model(ModelKind::gpt2)))));
    }
}

TEST_CASE("invalid values in the training tables of a policy are refused with a remedy", "[experiments][policy]") {
    struct Case {
        const char *text, *what;
    };
    for (const Case& one :
         {Case{"[clip]\nmax_norm = -1.0\n", "'max_norm' is -1"},
          Case{"[clip]\nformula = \"torhc\"\n", "unknown formula 'torhc'"},
          Case{"[optimizer]\nbeta1 = 1.0\n", "'beta1' is 1"}, Case{"[optimizer]\nlr = 0.0\n", "'lr' is 0"},
          Case{"[accumulation]\nmicro_batches = 0\n", "'micro_batches' is 0"},
          Case{"[accumulation]\nmicro_batches = 2.5\n", "'micro_batches' is a number"},
          Case{"[accumulation]\nbatches = 2\n", "unknown key 'batches' in [accumulation]"}}) {
        CAPTURE(one.text);
        std::string what;
        try {
            parse_policy(one.text, "mine.toml");
        } catch (const Error& error) {
            what = error.parts().what;
            CHECK_FALSE(error.parts().fix.empty());
            CHECK(error.parts().where.find("mine.toml:2") != std::string::npos);
        }
        CHECK(what == one.what);
    }
}

}  // namespace training_recipe_test
