// SPDX-License-Identifier: Apache-2.0
// Compares the memory estimates for training with published figures and with sums over the tensors of a model.
#include "experiments/policy/memory_bytes.hpp"
#include "core/error.hpp"
#include "experiments/configs/memory/memory_recipe.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/memory.hpp"
#include "tests/configs/imported.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <string>
#include <string_view>

namespace memory_bytes_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;
using namespace macheps::training;
using macheps::test::Asked;
using macheps::test::Imported;

namespace {

double total_of(std::string_view recipe, double trainable = 0) {
    const MemoryRecipe* found = find_memory_recipe(recipe);
    REQUIRE(found != nullptr);
    return found->per_parameter(trainable).total();
}

const Sharding& sharding(std::string_view name) {
    for (const Sharding& each : shardings()) {
        if (each.name == name) return each;
    }
    FAIL("no such sharding");
    return shardings().front();
}

/// Rounds `value` to as many decimals as the paper prints.
double rounded(double value, double decimals) {
    return std::round(value * std::pow(10, decimals)) / std::pow(10, decimals);
}

}  // namespace

TEST_CASE("each recipe has the bytes per parameter of its training system", "[experiments][memory]") {
    struct Row {
        const char* recipe;
        double value, gradients, master, rest, total, cast;
    };
    // `rest` contains the moments, and the second copy of the gradients that some systems keep for the master weights.
    for (const Row& row : {Row{"fp32", 4, 4, 0, 8, 16, 0}, Row{"amp", 4, 4, 0, 8, 16, 2}, Row{"pure", 2, 2, 0, 4, 8, 0},
                           Row{"deepspeed", 2, 2, 4, 8, 16, 0}, Row{"deepspeed-fp32-accum", 2, 6, 4, 8, 20, 0},
                           Row{"fsdp", 4, 4, 0, 8, 16, 0}, Row{"apex-o1", 4, 4, 0, 8, 16, 2},
                           Row{"apex-o2", 2, 2, 4, 12, 20, 0}, Row{"apex-o3", 2, 2, 0, 4, 8, 0},
                           Row{"megatron-fp16", 2, 2, 4, 12, 20, 0}, Row{"megatron-bf16", 2, 4, 4, 8, 18, 0},
                           Row{"megatron-fp32", 4, 4, 0, 8, 16, 0}, Row{"adam-8bit", 4, 4, 0, 2.03125, 10.03125, 2}}) {
        CAPTURE(row.recipe);
        const MemoryRecipe* found = find_memory_recipe(row.recipe);
        REQUIRE(found != nullptr);
        const ParameterBytes each = found->per_parameter(0.5);  // no parameter is frozen, so the trainable
                                                                // fraction does not matter
        CHECK(each.value == row.value);
        CHECK(each.gradients() == row.gradients);
        CHECK(each.master == row.master);
        CHECK(each.moments + each.master_grad == row.rest);
        CHECK(each.total() == row.total);
        CHECK(each.cast == row.cast);
    }
}

TEST_CASE("each adapter parameter needs 16 bytes, and each base parameter needs the bytes of its stored format",
          "[experiments][memory]") {
    struct Row {
        const char* recipe;
        double base;
    };
    for (const Row& row : {Row{"lora-fp32", 4}, Row{"lora", 2}, Row{"lora-int8", 1}, Row{"qlora", 0.5625},
                           Row{"qlora-double", 0.515869140625}}) {
        CAPTURE(row.recipe);
        CHECK(total_of(row.recipe, 0) == row.base);
        CHECK(total_of(row.recipe, 0.25) == row.base + 4);
    }
    CHECK(rounded(8 * total_of("qlora-double"), 3) == 4.127);
    CHECK(rounded(total_of("qlora-double"), 4) == 0.5159);
    CHECK(rounded(total_of("adam-8bit"), 2) == 10.03);
}

TEST_CASE("the bytes with sharding agree with the ZeRO paper and Megatron's documentation", "[experiments][memory]") {
    const auto gigabytes = [](const char* recipe, const char* how, double params, double shards) {
        return params * sharding(how).bytes(find_memory_recipe(recipe)->per_parameter(0), shards) / 1e9;
    };
    CHECK(rounded(gigabytes("deepspeed", "replicated", 7.5e9, 64), 1) == 120);
    CHECK(rounded(gigabytes("deepspeed", "zero1", 7.5e9, 64), 1) == 31.4);
    CHECK(rounded(gigabytes("deepspeed", "zero2", 7.5e9, 64), 1) == 16.6);
    CHECK(rounded(gigabytes("deepspeed", "zero3", 7.5e9, 64), 1) == 1.9);
    CHECK(gigabytes("deepspeed", "replicated", 1.5e9, 1) == 24);
    for (const double shards : {1.0, 2.0, 64.0}) {
        CAPTURE(shards);
        CHECK(gigabytes("deepspeed", "zero1", 1e9, shards) == 4 + 12 / shards);
        CHECK(gigabytes("deepspeed", "zero2", 1e9, shards) == 2 + 14 / shards);
        CHECK(gigabytes("fsdp", "zero3", 1e9, shards) == 16 / shards);
        CHECK(gigabytes("megatron-fp16", "zero1", 1e9, shards) == 4 + 16 / shards);
        CHECK(gigabytes("megatron-bf16", "zero1", 1e9, shards) == 6 + 12 / shards);
        CHECK(gigabytes("megatron-fp32", "zero1", 1e9, shards) == 8 + 8 / shards);
    }
    // With master weights, mixed precision does not reduce the bytes per parameter. The often quoted halving applies to
    // a model without master weights.
    CHECK(total_of("amp") == total_of("fp32"));
    CHECK(total_of("deepspeed") == total_of("fp32"));
    CHECK(total_of("pure") == total_of("fp32") / 2);
}

TEST_CASE("GaLore keeps moments of a projected gradient", "[experiments][memory]") {
    const ParameterBytes each = galore_bytes(4, 4096, 1024, 128);
    // Each of the two moments has 128 x 4096 numbers, and the projector has 1024 x 128. The transpose of the weight
    // needs the same number of bytes.
    CHECK(each.moments == 4 * (2.0 * 128 * 4096 + 128.0 * 1024) / (4096.0 * 1024));
    CHECK(each == galore_bytes(4, 1024, 4096, 128));
    CHECK(galore_bytes(2, 4096, 1024, 128).total() == each.total() / 2);
}

TEST_CASE("the bytes of activations follow the published formula", "[experiments][memory]") {
    const ActivationShape one{.layers = 1, .width = 96, .heads = 6, .context = 40, .batch = 3};
    const double sbh = 40 * 3 * 96, as2b = 6 * 40 * 40 * 3;
    struct Row {
        const ActivationForm* form;
        double position, score, checkpoint, logit;
    };
    for (const Row& row : {Row{&low_activations, 34, 5, 2, 4}, Row{&autocast_activations, 38, 7, 4, 10},
                           Row{&fp32_activations, 66, 9, 4, 8}}) {
        CAPTURE(row.form->name);
        CHECK(activation_bytes(*row.form, one, {}) == row.position * sbh + row.score * as2b);
        CHECK(activation_bytes(*row.form, one, {.has_flash_attention = true}) == row.position * sbh);
        CHECK(activation_bytes(*row.form, one, {.has_checkpoints = true}) == row.checkpoint * sbh);
        ActivationShape deep = one;
        deep.layers = 5;
        deep.vocabulary = 1000;
        CHECK(activation_bytes(*row.form, deep, {}) ==
              5 * activation_bytes(*row.form, one, {}) + row.logit * 40 * 3 * 1000);
    }
}

TEST_CASE("the bytes of a policy are the sum of the bytes of its tensors", "[experiments][memory]") {
    for (const std::string_view name : preset_names()) {
        for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
            CAPTURE(name, to_string(kind));
            const SiteList sites = model_sites(named_size("tiny", kind).model);
            const ResolvedPolicy policy = resolve(load_policy(name), sites);
            const MemoryEstimate estimate = estimate_memory(sites, policy, 1, 2);
            const ParameterBytes each = memory_recipe_of(sites, policy).per_parameter(1);
            double count = 0;
            for (const Parameter& parameter : sites.parameters) count += static_cast<double>(parameter.count);
            CHECK(each.value * count == Approx(estimate.parameters));
            CHECK(each.gradients() * count == Approx(estimate.gradients));
            CHECK(each.master * count == Approx(estimate.master));
            CHECK(each.moments * count == Approx(estimate.optimizer));
        }
    }
    const SiteList sites = model_sites(named_size("tiny").model);
    const auto form = [&](const char* name) {
        return memory_recipe_of(sites, resolve(load_policy(name), sites)).activations;
    };
    CHECK(form("tf32") == &fp32_activations);
    CHECK(form("amp-fp16") == &autocast_activations);
    CHECK(form("fp8-tensorwise") == &autocast_activations);
    CHECK(form("pure-bf16") == &low_activations);
}

TEST_CASE("a config has the same bytes per parameter as its training system", "[experiments][memory]") {
    struct Row {
        const char *framework, *text, *recipe, *why;
        Asked asked{};
    };
    for (const Row& row : std::initializer_list<Row>{
             {"deepspeed", "{\"fp16\": {\"enabled\": true, \"hysteresis\": 2}, \"zero_optimization\": {\"stage\": 2}}",
              "deepspeed", "masters in fp32"},
             {"deepspeed",
              "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}, \"data_types\": "
              "{\"grad_accum_dtype\": \"fp32\"}}",
              "deepspeed-fp32-accum", "a second gradient in fp32"},
             {"transformers", "bf16: true\n", "amp", "fp32 weights under autocast", {.version = "4.41"}},
             {"transformers", "bf16: true\n", "pure", "5.x keeps the format of the checkpoint", {.checkpoint = "bf16"}},
             {"transformers",
              "bf16: true\noptim: adamw_bnb_8bit\n",
              "adam-8bit",
              "moments of 8 bits",
              {.version = "4.41"}},
             {"torch", "fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}\n", "fsdp",
              "fp32 shards"},
             {"megatron", "bf16: true\nnum-layers: 2\n", "megatron-bf16", "main gradients in fp32"},
             {"megatron", "fp16: true\nnum-layers: 2\n", "megatron-fp16", "fp16 gradients, and a copy for the masters"},
             {"megatron", "num-layers: 2\n", "megatron-fp32", "no low-precision format"},
             {"apex", "opt_level: O3\n", "apex-o3", "an fp16 model without masters"},
             {"apex", "opt_level: O1\n", "apex-o1", "fp32 weights"},
             {"llamafactory", "stage: sft\ndo_train: true\nfinetuning_type: lora\nquantization_bit: 4\nbf16: true\n",
              "qlora-double", "a 4-bit base"},
             {"llamafactory",
              "stage: sft\ndo_train: true\nfinetuning_type: lora\nbf16: true\n",
              "lora",
              "the base has the format of its checkpoint",
              {.checkpoint = "bf16"}}}) {
        CAPTURE(row.text, row.why);
        Asked asked = row.asked;
        asked.framework = row.framework;
        const Imported config(row.text, asked);
        const ParameterBytes each = memory_recipe_of(config.result()).per_parameter(0.25);
        const ParameterBytes wanted = find_memory_recipe(row.recipe)->per_parameter(0.25);
        CHECK(each == wanted);
    }
    ImportResult strange;
    strange.resolved.set("store", {.value = std::string("int3"), .parts = {}}, Origin::inferred, "a test");
    CHECK_THROWS_AS(memory_recipe_of(strange), Error);
}

}  // namespace memory_bytes_test
