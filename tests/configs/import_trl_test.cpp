// SPDX-License-Identifier: Apache-2.0
// Tests imports of TRL recipes: how each version names and chooses the dtype of the model, the defaults that TRL
// changes, and each finding.
#include "tests/configs/imported.hpp"

namespace import_trl_test {

using namespace macheps;
using namespace macheps::configs;
using test::Imported;

namespace {

/// Imports a recipe with versions of TRL and Transformers.
Imported recipe(const std::string& keys, const char* trl, const char* transformers, const char* checkpoint = "bf16",
                const char* device = "a100") {
    return Imported("model_name_or_path: m\ndataset_name: d\noutput_dir: o\n" + keys,
                    {.framework = "trl",
                     .device = device,
                     .checkpoint = checkpoint,
                     .versions = {{"trl", parse_version(trl)}, {"transformers", parse_version(transformers)}}});
}

std::string formats(const Imported& config) {
    return config.field("store") + config.field("compute") + config.field("grad") + config.field("opt_state");
}

}  // namespace

TEST_CASE("TRL loads the model in the dtype that the recipe gives, or in the default of its version", "[import][trl]") {
    const struct {
        const char *keys, *trl, *transformers, *checkpoint;
        const char* formats;  ///< store, compute, grad, opt_state
        const char* why;
    } rows[] = {
        {"torch_dtype: bfloat16\nbf16: true", "0.22.2", "4.55", "fp32", "BBBB", "no master weights"},
        {"torch_dtype: bfloat16\nbf16: true", "0.26.2", "4.57", "fp32", "BBBB", "0.26 still knows the old name"},
        {"dtype: bfloat16\nbf16: true", "0.23.1", "4.57", "fp32", "BBBB", "0.23 knows the new name"},
        {"dtype: float32\ntorch_dtype: bfloat16", "0.26.2", "4.57", "bf16", "FBFF", "the new name has precedence"},
        {"dtype: auto", "1.8.0", "5.14", "bf16", "BBBB", "auto is the dtype of the checkpoint"},
        {"", "1.8.0", "5.14", "bf16", "FBFF", "TRL passes float32 from 0.27 on"},
        {"", "0.27.0", "4.57", "bf16", "FBFF", "the first version that passes float32"},
        {"", "0.26.2", "5.1", "bf16", "BBBB", "TRL passes nothing, and Transformers 5 keeps the checkpoint"},
        {"", "0.26.2", "4.57", "bf16", "FBFF", "TRL passes nothing, and Transformers 4 loads fp32"},
        {"bf16: false", "1.8.0", "5.14", "bf16", "FFFF", "no autocast"},
        {"dtype: bfloat16\nbf16: false", "1.8.0", "5.14", "bf16", "BBBB", "everything is in the loaded format"},
        {"dtype: float16\nfp16: true", "1.8.0", "5.14", "bf16", "HHHH", "refused by the scaler"},
        {"dtype: bfloat16\ndeepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: auto}}", "1.8.0", "5.14", "bf16",
         "BBBF", "DeepSpeed keeps master weights"},
        {"dtype: bfloat16\nfsdp: full_shard", "1.8.0", "5.14", "bf16", "FBFF", "Accelerate widens the shards"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.trl, row.transformers, row.checkpoint, row.why);
        CHECK(formats(recipe(row.keys, row.trl, row.transformers, row.checkpoint)) == row.formats);
    }
}

TEST_CASE("TRL changes defaults of Transformers by version, and the import says whose default it is", "[import][trl]") {
    const struct {
        const char *keys, *trl, *compute, *ckpt;
    } rows[] = {
        {"", "0.18.2", "F", "false"},           {"", "0.19.0", "B", "false"},
        {"", "0.21.0", "B", "false"},           {"", "0.22.0", "B", "true"},
        {"fp16: true", "0.22.0", "H", "true"},  {"bf16: false", "1.8.0", "F", "true"},
        {"fp16: true", "0.18.2", "H", "false"}, {"gradient_checkpointing: false", "1.8.0", "B", "false"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.trl);
        const Imported config = recipe(row.keys, row.trl, "4.57");
        CHECK(config.field("compute") == row.compute);
        CHECK(config.field("ckpt") == row.ckpt);
    }
    const Imported config = recipe("", "1.8.0", "5.14");
    const auto& findings = config.result().findings;
    const auto is_default = [](const Finding& one) {
        return one.code == FindingCode::defaulted && one.key == "bf16" &&
               one.message.find("default of trl 1.8") != std::string::npos;
    };
    CHECK(std::any_of(findings.begin(), findings.end(), is_default));
}

TEST_CASE("each finding about a TRL recipe is reported in the cases that this test lists, and in no others",
          "[import][trl]") {
    const struct {
        const char *keys, *trl, *finding;
        bool fires;
    } rows[] = {
        {"torch_dtype: bfloat16", "0.27.0", "E trl/torch-dtype-removed", true},
        {"torch_dtype: bfloat16", "0.26.2", "E trl/torch-dtype-removed", false},
        {"dtype: bfloat16", "0.22.2", "E trl/dtype-too-new", true},
        {"dtype: bfloat16", "0.23.0", "E trl/dtype-too-new", false},
        {"dtype: float32\ntorch_dtype: float32", "0.26.2", "C trl/two-dtypes", true},
        {"dtype: float32\ntorch_dtype: float32", "0.27.0", "C trl/two-dtypes", false},
        {"torch_dtype: bfloat16\nfp16: true", "0.26.2", "E trl/low-weights-under-scaler", true},
        {"torch_dtype: float16\nfp16: true", "0.26.2", "E trl/low-weights-under-scaler", true},
        {"torch_dtype: float32\nfp16: true", "0.26.2", "E trl/low-weights-under-scaler", false},
        {"torch_dtype: bfloat16\nbf16: true", "0.26.2", "E trl/low-weights-under-scaler", false},
        {"torch_dtype: float16\nfp16: true\nuse_peft: true", "0.26.2", "E trl/low-weights-under-scaler", false},
        {"torch_dtype: float16\nfp16: true\nuse_peft: true\nlora_modules_to_save: [lm_head]", "0.26.2",
         "E trl/low-weights-under-scaler", true},
        {"torch_dtype: float16\nfp16: true\nuse_peft: true\nload_in_4bit: true", "0.26.2",
         "E trl/low-weights-under-scaler", true},
        {"torch_dtype: float16\nfp16: true\nuse_peft: true\nload_in_4bit: true", "0.25.1",
         "E trl/low-weights-under-scaler", false},
        {"torch_dtype: float16\nfp16: true\nuse_peft: true\nload_in_4bit: true\nlora_modules_to_save: [lm_head]",
         "0.25.1", "E trl/low-weights-under-scaler", false},
        {"dtype: bfloat16", "1.8.0", "W trl/no-master", true},
        {"dtype: float32", "1.8.0", "W trl/no-master", false},
        {"dtype: bfloat16\nuse_peft: true", "1.8.0", "W trl/no-master", false},
        {"dtype: bfloat16\ndeepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: true}}", "1.8.0",
         "W trl/no-master", false},
        {"use_peft: true\nlora_modules_to_save: [lm_head]", "1.8.0", "W trl/modules-to-save", true},
        {"use_peft: true", "1.8.0", "W trl/modules-to-save", false},
        {"lora_modules_to_save: [lm_head]", "1.8.0", "W trl/modules-to-save", false},
        {"use_peft: true\nload_in_4bit: true", "0.26.0", "W trl/low-adapters", true},
        {"use_peft: true\nload_in_4bit: true", "0.25.1", "W trl/low-adapters", false},
        {"load_in_4bit: true", "1.8.0", "E trl/quantised-full", true},
        {"load_in_8bit: true\nuse_peft: true", "1.8.0", "E trl/quantised-full", false},
        {"load_in_8bit: true\nload_in_4bit: true\nuse_peft: true", "1.8.0", "E trl/load-in-both", true},
        {"load_in_8bit: true\nuse_peft: true", "1.8.0", "E trl/load-in-both", false},
        {"model_init_kwargs: {torch_dtype: bfloat16}", "1.8.0", "W trl/init-kwargs-dtype", true},
        {"model_init_kwargs: {trust_remote_code: true}", "1.8.0", "W trl/init-kwargs-dtype", false},
        {"bf16: false\nenv: {ACCELERATE_MIXED_PRECISION: bf16}", "1.8.0", "W trl/env-precision", true},
        {"env: {ACCELERATE_MIXED_PRECISION: bf16}", "1.8.0", "W trl/env-precision", false},
        {"no_such_key: 1", "1.8.0", "U trl/unknown-key", true},
        {"max_length: 8\nper_device_train_batch_size: 1\ndataset_mixer: {a: 1.0}", "1.8.0", "U trl/unknown-key", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.trl, row.finding);
        const Imported config = recipe(row.keys, row.trl, "4.57", "fp32");
        CAPTURE(config.findings("EUWC"));
        CHECK(config.has(row.finding) == row.fires);
        // TRL's findings about the loaded model replace those of Transformers.
        CHECK_FALSE(config.has("W transformers/no-master"));
    }
}

TEST_CASE("TRL trains adapters in fp32, or in bf16 over a quantised model", "[import][trl]") {
    const struct {
        const char *keys, *trl, *fields;  ///< store, adapter, grad, opt_state
    } rows[] = {
        {"dtype: bfloat16\nuse_peft: true", "1.8.0", "B F F F"},
        {"dtype: bfloat16\nuse_peft: true\nload_in_4bit: true", "1.8.0", "nf4 B B B"},
        {"dtype: bfloat16\nuse_peft: true\nload_in_4bit: true\nbnb_4bit_quant_type: fp4", "0.25.1", "fp4 F F F"},
        {"dtype: bfloat16\nuse_peft: true\nload_in_8bit: true", "0.26.0", "int8 B B B"},
        {"dtype: bfloat16\noptim: paged_adamw_32bit", "1.8.0", "B none B F"},
        {"dtype: bfloat16\noptim: adamw_bnb_8bit", "1.8.0", "B none B int8"},
        {"dtype: bfloat16\noptim: adamw_torch_4bit", "1.8.0", "B none B int4"},
        {"dtype: bfloat16\noptim: rmsprop_bnb", "1.8.0", "B none B F"},
        {"dtype: bfloat16\noptim: rmsprop", "1.8.0", "B none B B"},
        {"dtype: bfloat16\nuse_peft: true\nload_in_4bit: true\noptim: ademamix", "1.8.0", "nf4 B B F"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.trl);
        const Imported config = recipe(row.keys, row.trl, "5.14");
        CHECK(config.field("store") + " " + config.field("adapter") + " " + config.field("grad") + " " +
                  config.field("opt_state") ==
              row.fields);
    }
    const std::string quantised = "dtype: bfloat16\nuse_peft: true\nload_in_4bit: true";
    CHECK(recipe(quantised, "0.25.1", "4.57").field("norm") == "F");
    CHECK(recipe(quantised, "0.25.1", "4.57").field("lm_head") == "B");
    CHECK(recipe(quantised, "0.26.0", "4.57").field("norm") == "B");
    CHECK(recipe(quantised + "\ndeepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: true}}", "1.8.0", "5.14")
              .field("store") == "nf4");
    CHECK(recipe("cast_lm_head_to_fp32: true\ndtype: bfloat16", "1.8.0", "5.14").field("lm_head") == "F");
    CHECK(recipe("dtype: bfloat16", "1.8.0", "5.14").field("lm_head") == "B");
}

TEST_CASE("adapters of PEFT before 0.12 have the format of the model, and are trained in it", "[import][trl]") {
    const struct {
        const char *keys, *peft, *formats;  ///< adapter, grad, opt_state
        const char* finding;                ///< the finding about the format, or an empty text
        bool is_filtered;                   ///< the finding nan-filter, which otherwise only autocast causes
    } rows[] = {
        {"torch_dtype: auto", "0.9.0", "adapter=B grad=B opt_state=B", "W trl/no-master", true},
        {"torch_dtype: auto", "0.12.0", "adapter=F grad=F opt_state=F", "", true},
        {"torch_dtype: float32", "0.9.0", "adapter=F grad=F opt_state=F", "", false},
        {"torch_dtype: float16\nfp16: true", "0.7.1", "adapter=H grad=H opt_state=H", "E trl/low-weights-under-scaler",
         false},
        {"torch_dtype: float16\nfp16: true", "0.12.0", "adapter=F grad=F opt_state=F", "", false},
        {"torch_dtype: bfloat16\nload_in_4bit: true", "0.9.0", "adapter=F grad=F opt_state=F", "", true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.peft);
        const Imported config("model_name_or_path: m\nuse_peft: true\n" + std::string(row.keys),
                              {.framework = "trl",
                               .checkpoint = "bf16",
                               .versions = {{"trl", parse_version("0.12.0")},
                                            {"transformers", parse_version("4.46.3")},
                                            {"peft", parse_version(row.peft)}}});
        CHECK(test::fields_of(config.result(), {"adapter", "grad", "opt_state"}) == row.formats);
        for (const char* rule : {"W trl/no-master", "E trl/low-weights-under-scaler"})
            CHECK(config.has(rule) == (row.finding == std::string(rule)));
        CHECK(config.has("W trl/nan-filter") == row.is_filtered);
    }
}

TEST_CASE("the advice to use fp16 on a device without bf16 also loads trained weights in fp32", "[import][trl]") {
    const struct {
        const char *keys, *instead;
    } rows[] = {
        {"dtype: bfloat16\nbf16: true", "bf16: false with fp16: true with dtype: float32"},
        {"dtype: bfloat16\nbf16: true\nbf16_full_eval: true",
         "bf16: false with bf16_full_eval: false with fp16: true with dtype: float32"},
        {"dtype: float32\nbf16: true", "bf16: false with fp16: true"},
        {"dtype: bfloat16\nbf16: true\nuse_peft: true", "bf16: false with fp16: true"},
        {"dtype: bfloat16\nbf16: true\nuse_peft: true\nload_in_4bit: true", ""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys);
        const Imported config = recipe(row.keys, "1.8.0", "5.14", "bf16", "v100");
        const Finding* found = test::find_rule(config.result(), "transformers/bf16-emulated");
        REQUIRE(found != nullptr);
        CHECK(found->instead == row.instead);
    }
    // If the user says that the checkpoint is bf16, the advice is fp32: such weights overflow in fp16.
    const struct {
        const char *keys, *instead;
    } bf16_rows[] = {
        {"dtype: bfloat16\nbf16: true", "bf16: false with dtype: float32"},
        {"dtype: float32\nbf16: true", "bf16: false"},
        {"dtype: bfloat16\nbf16: true\nuse_peft: true", "bf16: false"},
        {"dtype: bfloat16\nbf16: true\nuse_peft: true\nload_in_4bit: true", ""},
    };
    for (const auto& row : bf16_rows) {
        CAPTURE(row.keys);
        const ImportResult result = test::import_text(
            fmt::format("model_name_or_path: m\ndataset_name: d\noutput_dir: o\n{}", row.keys),
            {.framework = "trl", .versions = "trl=1.8.0,transformers=5.14", .device = "v100", .checkpoint = "bf16"});
        const Finding* found = test::find_rule(result, "transformers/bf16-emulated");
        REQUIRE(found != nullptr);
        CHECK(found->instead == row.instead);
    }
}

TEST_CASE("a recipe of TRL is recognised by its keys, and a config of LLaMA-Factory is not taken for one",
          "[import][trl]") {
    const auto framework = [](const char* text) { return std::string(Imported(text).result().framework->name); };
    CHECK(framework("{model_name_or_path: m, dtype: bfloat16, dataset_name: d, bf16: true, max_length: 8}") == "trl");
    CHECK(framework("{model_name_or_path: m, use_peft: true, lora_r: 8, beta: 0.1, fp16: true}") == "trl");
    CHECK(framework("{model_name_or_path: m, dataset_mixer: {a: 1.0}, learning_rate: 1.0e-5}") == "trl");
    CHECK(framework("{model_name_or_path: m, stage: sft, finetuning_type: lora, dataset_dir: d}") == "llamafactory");
    // Keys of Seq2SeqTrainingArguments, from which no class of TRL derives, and those of scripts of Transformers.
    for (const char* key : {"predict_with_generate: true", "generation_max_length: 64", "generation_num_beams: 4",
                            "generation_config: g", "sortish_sampler: true", "block_size: 512", "train_file: t.json"}) {
        const std::string text = fmt::format(
            "{{model_name_or_path: google/flan-t5-large, output_dir: o, fp16: false, "
            "learning_rate: 1.0e-5, {}}}",
            key);
        CAPTURE(text);
        CHECK(framework(text.c_str()) == "transformers");
    }
    CHECK(framework("{model_name_or_path: m, dataset_name: d, predict_with_generate: true, fp16: true}") ==
          "transformers");
    CHECK(framework("{model_name_or_path: m, stage: sft, template: t, predict_with_generate: true}") == "llamafactory");
    CHECK(framework("{model_name_or_path: m, output_dir: o, fp16: false, learning_rate: 1.0e-5}") == "trl");
}

TEST_CASE("keys of TRL and Transformers belong to Transformers if the model has an encoder and a decoder",
          "[import][trl]") {
    const test::ConfigFolder folder;
    const auto framework = [&](const char* text, bool is_seq2seq) {
        ImportOptions options;
        options.model = {.type = "t5", .is_seq2seq = is_seq2seq};
        return std::string(import_config(std::vector{folder.write("c.yaml", text)}, options).framework->name);
    };
    const char* shared = "{model_name_or_path: m, output_dir: o, fp16: false, learning_rate: 1.0e-5}";
    CHECK(framework(shared, true) == "transformers");
    CHECK(framework(shared, false) == "trl");
    CHECK(framework("{model_name_or_path: m, output_dir: o, fp16: false, packing: true}", true) == "trl");
}

}  // namespace import_trl_test
