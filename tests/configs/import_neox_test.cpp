// SPDX-License-Identifier: Apache-2.0
// Tests imports of GPT-NeoX's configs: which section of DeepSpeed `precision` selects, what GPT-NeoX does not hand on,
// and each finding.
#include "tests/configs/imported.hpp"

namespace import_neox_test {

using namespace macheps;
using namespace macheps::configs;
using test::Imported;

namespace {

Imported neox(const std::string& keys) {
    return Imported("{\"num_layers\": 2, \"hidden_size\": 64, \"train_micro_batch_size_per_gpu\": 4, " + keys + "}");
}

constexpr const char* zero1 = "\"zero_optimization\": {\"stage\": 1}, ";

}  // namespace

TEST_CASE("GPT-NeoX's precision selects the section of DeepSpeed that is enabled", "[import][gpt-neox]") {
    const struct {
        const char *keys, *store, *master, *accum, *scaler;
    } rows[] = {
        {"\"fp16\": {\"enabled\": true}", "H", "F", "H", "ds-zero"},
        {"\"precision\": \"fp16\"", "H", "F", "H", "ds-zero"},
        {"\"precision\": \"fp16\", \"fp16\": {\"enabled\": False, \"loss_scale\": 8}", "H", "F", "H", "static"},
        {"\"precision\": \"bfloat16\"", "B", "F", "B", "none"},
        {"\"precision\": \"bfloat16\", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}", "B", "F", "F", "none"},
        {"\"precision\": \"fp32\"", "F", "none", "F", "none"},
        {"\"precision\": \"bfloat16\", \"bf16\": {\"enabled\": false}", "B", "none", "B", "none"},
        {"\"deepspeed_extra_args\": {\"bf16\": {\"enabled\": true}}", "B", "F", "B", "none"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys);
        const Imported config = neox(std::string(zero1) + row.keys);
        CHECK(config.result().framework->name == "gpt-neox");
        CHECK_FALSE(config.result().refused());
        CHECK(config.field("store") == row.store);
        CHECK(config.field("master") == row.master);
        CHECK(config.field("accum") == row.accum);
        CHECK(config.field("scaler") == row.scaler);
        CHECK(config.findings("U").empty());
    }
}

TEST_CASE("GPT-NeoX's `fp16.type` does not select bf16", "[import][gpt-neox]") {
    const Imported typed = neox(std::string(zero1) + R"("fp16": {"enabled": true, "type": "bfloat16"})");
    CHECK(typed.has("W gpt-neox/fp16-type-unread"));
    CHECK(typed.field("store") == "H");
    CHECK_FALSE(
        neox(std::string(zero1) + R"("fp16": {"enabled": true, "type": "fp16"})").has("W gpt-neox/fp16-type-unread"));
    CHECK_FALSE(neox(std::string(zero1) + R"("precision": "bfloat16", "fp16": {"enabled": false, "type": "bfloat16"})")
                    .has("W gpt-neox/fp16-type-unread"));
}

TEST_CASE("GPT-NeoX runs with the DeepSpeed that it requires unless the user names another", "[import][gpt-neox]") {
    const std::string text = std::string("{num_layers: 2, train_micro_batch_size_per_gpu: 4, ") +
                             "zero_optimization: {stage: 1}, precision: bfloat16}";
    CHECK(Imported(text).has("W deepspeed/buffers-cast"));
    CHECK_FALSE(Imported(text, {.versions = {{"deepspeed", parse_version("0.19.6")}}}).has("W deepspeed/buffers-cast"));
}

TEST_CASE("GPT-NeoX does not hand on a clipping of 1.0, its own default", "[import][gpt-neox]") {
    const struct {
        const char *keys, *deepspeed, *clip;
        bool warns;
    } rows[] = {
        {"precision: fp16", "0.16.5", "none", true},
        {"precision: fp16, gradient_clipping: 1.0", "0.16.5", "none", true},
        {"precision: fp16, gradient_clipping: 0.5", "0.16.5", "deepspeed", false},
        {"precision: fp16, gradient_clipping: 0", "0.16.5", "none", false},
        {"precision: fp16, gradient_clipping: 1.0", "0.19.6", "deepspeed", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.deepspeed);
        const Imported config("{num_layers: 2, train_micro_batch_size_per_gpu: 4, zero_optimization: {stage: 1}, " +
                                  std::string(row.keys) + "}",
                              {.versions = {{"deepspeed", parse_version(row.deepspeed)}}});
        CHECK(config.field("clip") == row.clip);
        CHECK(config.has("W gpt-neox/clipping-omitted") == row.warns);
    }
}

TEST_CASE("each finding about a GPT-NeoX config is reported in the cases that this test lists, and in no others",
          "[import][gpt-neox]") {
    const struct {
        const char *keys, *finding;
        bool fires;
    } rows[] = {
        {"\"precision\": \"fp32\", \"bf16\": {\"enabled\": true}", "E gpt-neox/precision-conflict", true},
        {"\"precision\": \"bfloat16\", \"fp16\": {\"enabled\": true}", "E gpt-neox/precision-conflict", true},
        {"\"precision\": \"fp16\", \"fp16\": {\"enabled\": true}", "E gpt-neox/precision-conflict", false},
        {"\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}", "E gpt-neox/fp16-and-bf16", true},
        {"\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": false}", "E gpt-neox/fp16-and-bf16", false},
        {"\"fp16\": {\"loss_scale\": 0}", "E gpt-neox/fp16-without-enabled", true},
        {"\"fp16\": {\"enabled\": true}", "E gpt-neox/fp16-without-enabled", false},
        {"\"precision\": \"bfloat16\"", "E gpt-neox/bf16-without-zero", false},
        {"\"precision\": \"bfloat16\"", "W gpt-neox/narrow-accumulation", true},
        {"\"precision\": \"bfloat16\", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}",
         "W gpt-neox/narrow-accumulation", false},
        {"\"precision\": \"fp16\"", "W gpt-neox/narrow-accumulation", false},
        {"\"precision\": \"bfloat16\", \"bf16\": {\"enabled\": false}", "W gpt-neox/bf16-section-off", true},
        {"\"precision\": \"bfloat16\", \"bf16\": {\"enabled\": true}", "W gpt-neox/bf16-section-off", false},
        {"\"precision\": \"bfloat16\", \"fp32_allreduce\": true", "W gpt-neox/allreduce-unread", true},
        {"\"precision\": \"bfloat16\", \"fp32_allreduce\": true, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}",
         "W gpt-neox/allreduce-unread", false},
        {"\"te_fp8_mha\": true", "E gpt-neox/fp8-attention", true},
        {"\"te_fp8_mha\": false", "E gpt-neox/fp8-attention", false},
        {"\"te_fp8_format\": \"hybrid\"", "I gpt-neox/fp8-unread", true},
        {"\"te_mha\": true", "I gpt-neox/fp8-unread", false},
        {"\"attention_softmax_in_fp32\": true", "N gpt-neox/unexpressed-option", true},
        {"\"apply-query-key-layer-scaling\": true", "N gpt-neox/unexpressed-option", true},
        {"\"attention_softmax_in_fp32\": false", "N gpt-neox/unexpressed-option", false},
        {"\"no_such_key\": 1", "U gpt-neox/unknown-key", true},
        {"\"num-attention-heads\": 4, \"steps_per_print\": 10", "U gpt-neox/unknown-key", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.finding);
        const Imported config = neox(std::string(zero1) + row.keys);
        CAPTURE(config.findings("EUWCNI"));
        CHECK(config.has(row.finding) == row.fires);
    }
    const Imported adam = neox(
        "\"fp16\": {\"enabled\": true}, \"gradient_accumulation_steps\": 4, "
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"eps\": 1.0e-6}}");
    CHECK(adam.part("optimizer", "eps") == "1e-06");
    CHECK(adam.field("micro_batches") == "4");
    CHECK(neox("\"precision\": \"bfloat16\"").has("E gpt-neox/bf16-without-zero"));
    const Imported scaled = neox("\"fp16\": {\"enabled\": true}, \"apply_query_key_layer_scaling\": true");
    const Finding* unexpressed = test::find_rule(scaled.result(), "gpt-neox/unexpressed-option");
    REQUIRE(unexpressed != nullptr);
    CHECK(unexpressed->not_emulated ==
          "apply_query_key_layer_scaling is not emulated: the policy computes as without it");
    CHECK(unexpressed->key == "apply_query_key_layer_scaling");
    CHECK_FALSE(neox("\"precision\": \"fp16\"").has("E gpt-neox/bf16-without-zero"));
}

TEST_CASE("a config with the sizes of a model belongs to GPT-NeoX, and a config without them to DeepSpeed",
          "[import][gpt-neox]") {
    CHECK(neox("\"fp16\": {\"enabled\": true,},").result().framework->name == "gpt-neox");
    CHECK(
        Imported("{\"pipe-parallel-size\": 1, \"num-layers\": 2, \"precision\": \"fp16\"}").result().framework->name ==
        "gpt-neox");
    CHECK(Imported("{\"train_batch_size\": 4, \"fp16\": {\"enabled\": true}}").result().framework->name == "deepspeed");
}

}  // namespace import_neox_test
