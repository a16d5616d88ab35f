// SPDX-License-Identifier: Apache-2.0
// Tests imports of LLaMA-Factory configs: the truth table of the compute dtype, each finding, and the fp8 recipe that
// the key `fp8` selects.
#include "experiments/configs/llamafactory/llamafactory.hpp"
#include "tests/configs/import_case.hpp"
#include "tests/configs/imported.hpp"

namespace import_llamafactory_test {

using namespace macheps;
using namespace macheps::configs;
using test::Imported;

namespace {

Imported factory(const std::string& keys, test::Asked said = {}) {
    said.framework = "llamafactory";
    return Imported("stage: sft\n" + keys, said);
}

}  // namespace

TEST_CASE("LLaMA-Factory chooses its compute dtype from bf16, fp16, the device and the dtype of the checkpoint",
          "[experiments][import][llamafactory]") {
    using llamafactory::compute_dtype;
    const struct {
        bool bf16, fp16, torch_bf16, has_fp16;
        char checkpoint, compute;
    } rows[] = {
        {true, false, false, false, 'F', 'B'}, {true, true, true, true, 'H', 'B'},
        {false, true, true, true, 'B', 'H'},   {false, true, false, false, 'F', 'H'},
        {false, false, true, true, 'B', 'B'},  {false, false, true, true, 0, 'B'},
        {false, false, true, false, 'B', 'B'}, {false, false, true, true, 'H', 'H'},
        {false, false, true, true, 'F', 'H'},  {false, false, false, true, 'B', 'H'},
        {false, false, false, true, 'F', 'H'}, {false, false, false, false, 'B', 'F'},
    };
    for (const auto& row : rows) {
        CAPTURE(row.bf16, row.fp16, row.torch_bf16, row.has_fp16, row.checkpoint);
        CHECK(compute_dtype(row.bf16, row.fp16, row.torch_bf16, row.has_fp16, row.checkpoint) == row.compute);
    }
}

TEST_CASE("LLaMA-Factory trains weights in fp32 unless an option says otherwise",
          "[experiments][import][llamafactory]") {
    const Imported full = factory("do_train: true\nfinetuning_type: full\nbf16: true", {.checkpoint = "bf16"});
    CHECK(full.field("store") == "F");
    CHECK(full.field("compute") == "B");
    CHECK(full.field("opt_state") == "F");
    CHECK_FALSE(full.has("W transformers/no-master"));
    const Imported pure =
        factory("do_train: true\nfinetuning_type: full\npure_bf16: true\nuse_galore: true", {.checkpoint = "bf16"});
    CHECK(pure.field("store") == "B");
    CHECK(pure.field("compute") == "B");
    CHECK(pure.field("opt_state") == "B");
    CHECK(pure.field("oplist") == "none");
    CHECK(pure.field("scaler") == "none");
    CHECK(pure.has("W llamafactory/recommend-mixed-precision"));
    CHECK_FALSE(pure.has("W llamafactory/galore-memory"));
    CHECK(factory("do_train: true\nfinetuning_type: full\npure_bf16: true", {.checkpoint = "fp16"}).result().refused());
    const Imported lora = factory("do_train: true\nbf16: true", {.checkpoint = "bf16"});
    CHECK(lora.field("store") == "B");
    CHECK(lora.field("adapter") == "F");
    CHECK(lora.field("grad") == "F");
    CHECK(factory("do_train: true\nbf16: true\nupcast_layernorm: true", {.checkpoint = "bf16"}).field("norm") == "F");
    CHECK(factory("bf16: true\nupcast_lmhead_output: true").field("logits") == "F");
    CHECK(factory("bf16: true").field("ckpt") == "true");
    CHECK(factory("bf16: true\ndisable_gradient_checkpointing: true").field("ckpt") == "false");
}

TEST_CASE("pure_bf16 makes whole weights bf16, and adapters only with PEFT before 0.12",
          "[experiments][import][llamafactory]") {
    const struct {
        const char *keys, *peft, *formats;  ///< store, adapter, grad, opt_state
        bool no_master, is_named;           ///< the findings no-master and pure-bf16-adapters
    } rows[] = {
        {"pure_bf16: true", "0.14.0", "store=B adapter=F grad=F opt_state=F", false, true},
        {"pure_bf16: true\nbf16: true", "0.14.0", "store=B adapter=F grad=F opt_state=F", false, true},
        {"use_badam: true", "0.14.0", "store=B adapter=F grad=F opt_state=F", false, false},
        {"pure_bf16: true", "0.11.1", "store=B adapter=B grad=B opt_state=B", true, false},
        {"bf16: true", "0.11.1", "store=B adapter=F grad=F opt_state=F", false, false},  // LLaMA-Factory casts them
        {"pure_bf16: true\nquantization_bit: 4", "0.11.1", "store=nf4 adapter=F grad=F opt_state=F", false, true},
        {"pure_bf16: true\nadditional_target: lm_head", "0.14.0", "store=B adapter=F grad=F opt_state=F", true, true},
        {"pure_bf16: true\nfinetuning_type: full", "0.14.0", "store=B adapter=none grad=B opt_state=B", true, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.peft);
        const Imported config = factory(fmt::format("do_train: true\n{}", row.keys),
                                        {.checkpoint = "bf16", .versions = {{"peft", parse_version(row.peft)}}});
        CHECK(test::fields_of(config.result(), {"store", "adapter", "grad", "opt_state"}) == row.formats);
        CHECK(config.has("W llamafactory/no-master") == row.no_master);
        CHECK(config.has("C llamafactory/pure-bf16-adapters") == row.is_named);
        CHECK(config.has("W llamafactory/nan-filter") ==
              (row.keys != std::string_view("bf16: true") && !std::string_view(row.keys).ends_with("\nbf16: true")));
    }
}

TEST_CASE("LLaMA-Factory's base has the format that the name of a quantised checkpoint says",
          "[experiments][import][llamafactory]") {
    const struct {
        const char *model, *store;
    } rows[] = {
        {"Qwen/Qwen3-32B-AWQ", "int4"},
        {"Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "int8"},
        {"Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "int4"},
        {"Qwen/Qwen3-32B", "F"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.model);
        const Imported config = factory(fmt::format("do_train: true\nfp16: true\nmodel_name_or_path: {}", row.model));
        CHECK(test::fields_of(config.result(), {"store", "adapter"}) == fmt::format("store={} adapter=F", row.store));
        CHECK(config.has("N llamafactory/quantised-checkpoint") == (std::string_view(row.store) != "F"));
    }
}

TEST_CASE("with finetuning_type freeze, LLaMA-Factory casts only the trained layers to fp32",
          "[experiments][import][llamafactory]") {
    const auto formats = [](const std::string& keys) {
        const Imported config = factory("do_train: true\nfinetuning_type: freeze\n" + keys, {.checkpoint = "bf16"});
        CHECK(config.has("N llamafactory/frozen-layers"));
        CHECK(config.has("W llamafactory/no-master") == (keys == "pure_bf16: true"));
        return test::fields_of(config.result(), {"store", "norm", "embed", "lm_head", "grad", "opt_state"});
    };
    CHECK(formats("bf16: true") == "store=B norm=B embed=B lm_head=B grad=F opt_state=F");
    CHECK(formats("pure_bf16: true") == "store=B norm=B embed=B lm_head=B grad=B opt_state=B");
    CHECK_FALSE(factory("do_train: true\nfinetuning_type: full\nbf16: true").has("N llamafactory/frozen-layers"));
}

TEST_CASE("without autocast, LLaMA-Factory multiplies in the format of the weights",
          "[experiments][import][llamafactory]") {
    const struct {
        const char *keys, *checkpoint, *store, *compute;
    } rows[] = {
        {"do_train: true\nfinetuning_type: full", "bf16", "F", "F"},  // trained weights are cast to fp32
        {"do_train: true\nfinetuning_type: full\ntf32: true", "bf16", "F", "T"},
        {"do_train: true\nfinetuning_type: lora", "bf16", "B", "B"},
        {"do_train: true\nfinetuning_type: lora", "fp16", "H", "H"},
        {"do_train: true\nfinetuning_type: full\nuse_badam: true", "bf16", "B", "B"},
        {"do_train: false\nfinetuning_type: full", "bf16", "B", "B"},  // nothing is trained, so nothing is cast
        {"do_train: true\nquantization_bit: 4", "bf16", "nf4", "B"},   // computes in the dtype of the truth table
        {"do_train: true\nquantization_bit: 4", "fp32", "nf4", "H"},
        {"do_train: true\nquantization_bit: 3\nquantization_method: hqq\nbf16: true", "bf16", "int3", "B"},
        {"do_train: true\nquantization_bit: 8\nquantization_method: eetq\nbf16: true", "bf16", "int8", "B"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.checkpoint);
        const Imported config = factory(row.keys, {.checkpoint = row.checkpoint});
        CHECK(config.field("store") == row.store);
        CHECK(config.field("compute") == row.compute);
    }
    CHECK(factory("do_train: true\nfinetuning_type: full\nfp16: true", {.device = "cpu", .checkpoint = "bf16"})
              .field("compute") == "F");
    CHECK(factory("do_train: true\nfinetuning_type: full\npure_bf16: true", {.checkpoint = "bf16"}).field("oplist") ==
          "none");
    CHECK(factory("do_train: true\nfinetuning_type: full\npure_bf16: true\nbf16: true", {.checkpoint = "bf16"})
              .field("oplist") == "torch-cuda");
    CHECK_FALSE(
        factory("do_train: false\nfinetuning_type: full", {.checkpoint = "bf16"}).has("W llamafactory/no-master"));
}

TEST_CASE("the sample configs of LLaMA-Factory are accepted, with recommendations",
          "[experiments][import][llamafactory]") {
    const Imported lora(
        "{stage: sft, do_train: true, finetuning_type: lora, quantization_bit: 4, bf16: true, upcast_layernorm: "
        "false}");
    CHECK(lora.result().framework->name == "llamafactory");
    CHECK_FALSE(lora.result().refused());
    CHECK(lora.has("W llamafactory/recommend-upcast-layernorm"));
    CHECK(lora.field("adapter") == "F");
    CHECK(lora.field("store") == "nf4");
    CHECK(lora.field("compute") == "B");
    const Imported galore(
        "{stage: pt, do_train: true, finetuning_type: full, use_galore: true, optim: adamw_torch, pure_bf16: true, "
        "galore_rank: 128}",
        {.checkpoint = "bf16"});
    CHECK_FALSE(galore.result().refused());
    CHECK(galore.has("W llamafactory/recommend-mixed-precision"));
    CHECK(galore.field("store") == "B");
}

TEST_CASE("each finding about a LLaMA-Factory config is reported in the cases that this test lists, and in no others",
          "[experiments][import][llamafactory]") {
    const struct {
        const char *keys, *device, *finding;
        bool fires;
    } rows[] = {
        {"do_train: true", "a100", "W llamafactory/recommend-mixed-precision", true},
        {"do_train: true\nbf16: true", "a100", "W llamafactory/recommend-mixed-precision", false},
        {"do_train: false", "a100", "W llamafactory/recommend-mixed-precision", false},
        {"do_train: true\nquantization_bit: 4\nbf16: true", "a100", "W llamafactory/recommend-upcast-layernorm", true},
        {"do_train: true\nquantization_bit: 4\nbf16: true\nupcast_layernorm: true", "a100",
         "W llamafactory/recommend-upcast-layernorm", false},
        {"do_train: true\nfinetuning_type: full\nuse_galore: true\nbf16: true", "a100", "W llamafactory/galore-memory",
         true},
        {"do_train: true\nfinetuning_type: full\nuse_apollo: true\npure_bf16: true", "a100",
         "W llamafactory/galore-memory", false},
        {"do_train: false\nquantization_bit: 4", "a100", "W llamafactory/quantised-evaluation", true},
        {"do_train: true\nfinetuning_type: full\npure_bf16: true", "cpu", "E llamafactory/pure-bf16-unsupported", true},
        {"do_train: true\nfinetuning_type: full\npure_bf16: true", "v100", "E llamafactory/pure-bf16-unsupported",
         false},
        {"do_train: true\nfinetuning_type: full\npure_bf16: true", "v100", "W llamafactory/pure-bf16-emulated", true},
        {"do_train: true\nfinetuning_type: qlora\nbf16: true", "a100", "E llamafactory/finetuning-type", true},
        {"do_train: true\nfinetuning_type: oft\nbf16: true", "a100", "E llamafactory/finetuning-type", false},
        {"do_train: true\nuse_galore: true\nbf16: true", "a100", "E llamafactory/galore-lora", true},
        {"do_train: true\nfinetuning_type: full\nuse_galore: true\nuse_badam: true", "a100",
         "E llamafactory/galore-apollo-badam", true},
        {"do_train: true\nfinetuning_type: full\nquantization_bit: 4", "a100", "E llamafactory/quantised-full", true},
        {"quantization_bit: 4\npissa_init: true", "a100", "E llamafactory/quantised-adapter", true},
        {"quantization_bit: 4\nadapter_name_or_path: a,b", "a100", "E llamafactory/quantised-adapter", true},
        {"quantization_bit: 4\nadapter_name_or_path: a", "a100", "E llamafactory/quantised-adapter", false},
        {"do_train: true\nfp8: true\nquantization_bit: 4", "h100", "E llamafactory/fp8-quantised", true},
        {"fp8_enable_fsdp_float8_all_gather: true", "h100", "C llamafactory/all-gather-without-fp8", true},
        {"fp8: true", "h100", "W llamafactory/fp8-dropped", true},  // transformers 5 is the default
        {"do_train: true\ninfer_dtype: bfloat16\nbf16: true", "a100", "I llamafactory/infer-dtype-unread", true},
        {"do_train: false\npure_bf16: true", "cpu", "E llamafactory/pure-bf16-unsupported", true},
        {"do_train: false\nfp8: true\nquantization_bit: 4", "h100", "E llamafactory/fp8-quantised", true},
        {"finetuning_type: oft\nadapter_name_or_path: a", "a100", "E llamafactory/adapter-not-lora", true},
        {"adapter_name_or_path: a", "a100", "E llamafactory/adapter-not-lora", false},
        {"adapter_name_or_path: [a]", "a100", "E llamafactory/wrong-type", true},  // must be a text with commas
        {"finetuning_type: full\npissa_init: true", "a100", "E llamafactory/pissa-init", true},
        {"stage: kto\npissa_init: true", "a100", "E llamafactory/pissa-init", true},
        {"stage: dpo\npissa_init: true", "a100", "E llamafactory/pissa-init", true},
        {"stage: dpo\npref_loss: orpo\npissa_init: true", "a100", "E llamafactory/pissa-init", false},
        {"pissa_init: true\ndeepspeed: {zero_optimization: {stage: 3}}", "a100", "E llamafactory/pissa-init", true},
        {"pissa_init: true", "a100", "E llamafactory/pissa-init", false},
        {"do_train: true\nquantization_device_map: auto", "a100", "E llamafactory/quantised-device-map", true},
        {"do_train: false\nquantization_device_map: auto", "a100", "E llamafactory/quantised-device-map", false},
        {"quantization_bit: 2", "a100", "E llamafactory/quantised-bits", true},
        {"quantization_bit: 2\nquantization_method: hqq", "a100", "E llamafactory/quantised-bits", false},
        {"quantization_bit: 7\nquantization_method: hqq", "a100", "E llamafactory/quantised-bits", true},
        {"quantization_bit: 4\nquantization_method: eetq", "a100", "E llamafactory/quantised-bits", true},
        {"quantization_bit: 8\nquantization_method: eetq", "a100", "E llamafactory/quantised-bits", false},
        {"quantization_bit: 8", "a100", "E llamafactory/quantised-bits", false},
        {"quantization_bit: 8\nfsdp: full_shard", "a100", "E llamafactory/quantised-bits", true},
        {"quantization_bit: 4\nfsdp: full_shard", "a100", "E llamafactory/quantised-bits", false},
        {"quantization_bit: 4\nquantization_method: hqq\ndeepspeed: {zero_optimization: {stage: 3}}", "a100",
         "E llamafactory/quantised-bits", true},
        {"do_train: true\nbf16: true\nfinetunning_type: full", "a100", "U llamafactory/unknown-key", true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.device, row.finding);
        CHECK(factory(row.keys, {.device = row.device}).has(row.finding) == row.fires);
    }
    CHECK_FALSE(factory("no_such_key: 1\nbf16: true", {.environment = {{"ALLOW_EXTRA_ARGS", "1"}}}).result().refused());
}

TEST_CASE("LLaMA-Factory's fp8 uses Accelerate's default recipe, and has no effect with transformers 5",
          "[experiments][import][llamafactory]") {
    test::Asked four{.device = "h100"};
    four.versions.emplace("transformers", parse_version("4.57"));
    const Imported executed = factory("do_train: true\nbf16: true\nfp8: true\nfp8_backend: torchao", four);
    CHECK(executed.field("fp8") == "ao_tensorwise");
    CHECK(executed.part("fp8", "pad_inner_dim") == "true");
    CHECK(executed.has("C llamafactory/fp8-as-executed"));
    CHECK(executed.has("C llamafactory/fp8-names"));
    const Imported engine = factory("do_train: true\nbf16: true\nfp8: true\nfp8_backend: te", four);
    CHECK(engine.field("fp8") == "te_delayed");
    CHECK(engine.part("fp8", "history") == "16");
    const Imported five = factory("do_train: true\nbf16: true\nfp8: true", {.device = "h100"});
    CHECK(five.field("fp8") == "none");
    CHECK(five.field("compute") == "B");
    four.device = "a100";
    CHECK(factory("do_train: true\nbf16: true\nfp8: true", four).has("W llamafactory/fp8-unsupported"));
}

TEST_CASE(
    "a key of the Megatron adapter is refused, and the error names the environment variable that enables the adapter",
    "[experiments][import][llamafactory]") {
    const Imported config = factory("do_train: true\nfinetuning_type: full\nbf16: true\nsequence_parallel: true");
    REQUIRE(config.has("U llamafactory/unknown-key"));
    CHECK(config.result().findings.front().instead.find("USE_MCA=1") != std::string::npos);
}

TEST_CASE("if a LLaMA-Factory config names a DeepSpeed file, this file is read",
          "[experiments][import][llamafactory]") {
    std::ofstream(test::import_folder() / "zero3.json")
        << R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}})";
    const Imported config = factory("do_train: true\nfinetuning_type: full\nbf16: true\ndeepspeed: zero3.json");
    CHECK(config.field("store") == "B");
    CHECK(config.field("master") == "F");
    const Imported pure = factory("do_train: true\nfinetuning_type: full\npure_bf16: true\ndeepspeed: zero3.json");
    CHECK(pure.has("E llamafactory/pure-bf16-zero3"));
    const Imported galore =
        factory("do_train: true\nfinetuning_type: full\nuse_galore: true\nbf16: true\ndeepspeed: zero3.json");
    CHECK(galore.has("E llamafactory/galore-deepspeed"));
}

TEST_CASE("LLaMA-Factory's fp8 is used only in the stages whose trainers read it", "[import][llamafactory]") {
    for (const char* stage : {"pt", "sft", "rm", "dpo", "kto", "ppo"}) {
        const bool is_read = std::string(stage) == "pt" || std::string(stage) == "sft";
        const ImportResult result =
            test::import_text(fmt::format("model_name_or_path: a\nstage: {}\ndo_train: true\nbf16: true\nfp8: true\n"
                                          "finetuning_type: full",
                                          stage),
                              {.framework = "llamafactory", .versions = "llamafactory=0.9.5,transformers=4.57.6"});
        CAPTURE(stage);
        CHECK(test::fields_of(result, {"fp8", "compute"}) ==
              (is_read ? "fp8=ao_tensorwise compute=ao_tensorwise" : "fp8=none compute=B"));
        CHECK((test::find_rule(result, "llamafactory/fp8-dropped", 'W') != nullptr) == !is_read);
    }
}

TEST_CASE("the default version of a package is the newest that LLaMA-Factory accepts", "[import][llamafactory]") {
    const auto says = [](const std::string& versions) {
        const ImportResult result = test::import_text(
            "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\nfinetuning_type: full\nwarmup_ratio: 0.1",
            {.framework = "llamafactory", .versions = versions});
        const Finding* found = test::find_rule(result, "transformers/key-of-other-version", 'U');

        return found != nullptr ? found->message : result.resolved.find("opt_kernel")->from;
    };
    CHECK(says("") == "default of transformers 5.6");
    CHECK(says("llamafactory=0.9.4") == "default of transformers 4.57.1");
    CHECK(says("llamafactory=0.9.3") == "default of transformers 4.52.4");
    CHECK(says("transformers=5.24.0") ==
          "Transformers 5.24 does not know `warmup_ratio`, which was removed in 5.15.0, and refuses the config");
    // A requirements file has precedence over the assumed versions, and so has its version of LLaMA-Factory.
    const test::ConfigFolder folder;
    ImportOptions options;
    options.requirements.versions = {{"llamafactory", parse_version("0.9.3")},
                                     {"transformers", parse_version("4.50.0")}};
    const std::string files[] = {folder.write("config.yaml", "stage: sft\ndo_train: true\nbf16: true\ntemplate: t")};
    CHECK(import_config(files, options).resolved.find("opt_kernel")->from == "default of transformers 4.50");
    options.requirements.versions.erase("transformers");
    CHECK(import_config(files, options).resolved.find("opt_kernel")->from == "default of transformers 4.52.4");
}

TEST_CASE("versions that a framework allows are assumed and not given", "[import][llamafactory]") {
    const auto message = [](std::string_view framework, std::string_view text, const std::string& versions) {
        const ImportResult result =
            test::import_text(text, {.framework = std::string(framework), .versions = versions});
        const Finding* found = test::find_rule(result, fmt::format("{}/assumed", framework));
        return found == nullptr ? std::string("none") : found->message;
    };
    const auto names = [](const std::string& text, std::string_view part) {
        return text.find(part) != std::string::npos;
    };
    const char* full = "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\nfinetuning_type: full";
    CHECK(names(message("llamafactory", full, ""), "Transformers 5.6"));
    CHECK_FALSE(names(message("llamafactory", full, "transformers=5.6.0"), "Transformers"));
    const char* lora = "base_model: a\nadapter: lora\nbf16: true\nload_in_4bit: false\nmicro_batch_size: 1";
    CHECK(names(message("axolotl", lora, "axolotl=0.4.1"), "peft 0.11.1"));
    CHECK_FALSE(names(message("axolotl", lora, "axolotl=0.4.1,peft=0.11.1"), "peft"));
    CHECK_FALSE(names(message("axolotl", lora, "axolotl=0.9.0"), "peft"));
    const char* neox = R"({"fp16": {"enabled": true}, "precision": "fp16", "train_micro_batch_size_per_gpu": 1})";
    CHECK(names(message("gpt-neox", neox, ""), "DeepSpeed 0.16.5"));
}

}  // namespace import_llamafactory_test
