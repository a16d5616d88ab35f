// SPDX-License-Identifier: Apache-2.0
// Tests imports of Axolotl configs: the formats to which configs resolve and, for each finding, configs for which it is
// reported and configs for which it is not reported.
#include "tests/configs/imported.hpp"

namespace import_axolotl_test {

using namespace macheps;
using test::Imported;

namespace {

Imported axolotl(const std::string& keys, test::Asked said = {}) {
    said.framework = "axolotl";
    return Imported("base_model: my/model\n" + keys, said);
}

}  // namespace

TEST_CASE("axolotl resolves auto from what torch reports about the device", "[experiments][import][axolotl]") {
    const struct {
        const char *keys, *device;
        const char *compute, *scaler;
    } rows[] = {
        {"", "a100", "B", "none"},
        {"bf16: auto", "h100", "B", "none"},
        {"bf16: auto", "v100", "B", "none"},  // torch counts emulated bf16 as supported
        {"bf16: auto", "t4", "B", "none"},
        {"bf16: false\ntf32: false", "a100", "F", "none"},
        {"bf16: false", "a100", "T", "none"},  // tf32 is auto by default
        {"bf16: false", "v100", "F", "none"},
        {"bf16: false\nfp16: true\nadapter: lora", "a100", "H", "torch"},
        {"bf16: auto\nfp16: true\nadapter: lora", "a100", "H", "torch"},
        {"bf16: true\nfp16: true", "a100", "B", "none"},
        {"float32: true", "a100", "B", "none"},
        {"float16: true", "a100", "B", "none"},
        {"bf16: false\nbfloat16: true", "a100", "B", "none"},
        {"bf16: auto", "cpu", "H",
         "none"},  // fp16 is used instead: fp16 weights without autocast, because a CPU has no autocast to fp16
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.device);
        const Imported config = axolotl(row.keys, {.device = row.device});
        CHECK(config.field("compute") == row.compute);
        CHECK(config.field("scaler") == row.scaler);
    }
}

TEST_CASE("axolotl loads weights in the low-precision format, so full fine-tuning has no master weights",
          "[experiments][import][axolotl]") {
    const Imported full = axolotl("bf16: true");
    CHECK(full.field("store") == "B");
    CHECK(full.field("opt_state") == "B");
    CHECK(full.field("master") == "none");
    CHECK(full.field("norm") == "F");  // norms are cast to fp32 after loading, and not cast back
    CHECK(full.has("W axolotl/no-master"));
    const Imported flash = axolotl("bf16: true\nattn_implementation: flash_attention_2");
    CHECK(flash.field("norm") == "B");
    const Imported lora = axolotl("bf16: true\nadapter: lora");
    CHECK(lora.field("store") == "B");
    CHECK(lora.field("adapter") == "F");
    CHECK(lora.field("opt_state") == "F");
    CHECK_FALSE(lora.has("W axolotl/no-master"));
    const Imported qlora = axolotl("bf16: true\nadapter: qlora\nload_in_4bit: true");
    CHECK(qlora.field("store") == "nf4");
    CHECK(axolotl("bf16: true\nadapter: lora\nload_in_8bit: true").field("store") == "int8");
    CHECK(axolotl("bf16: true\nadapter: lora\npeft_autocast_adapter_dtype: false").field("adapter") == "B");
    CHECK(axolotl("bf16: false\ntf32: false").field("store") == "F");
}

TEST_CASE("before 0.10.0, Axolotl's bfloat16 turns autocast on only in preference tuning",
          "[experiments][import][axolotl]") {
    const struct {
        const char *keys, *version, *formats;
    } rows[] = {
        {"bf16: false\nbfloat16: true", "0.9.2", "store=B compute=B oplist=none"},
        {"bf16: false\nbfloat16: true", "0.10.0", "store=B compute=B oplist=torch-cuda"},
        {"bf16: false\nbfloat16: true\nrl: dpo", "0.9.2", "store=B compute=B oplist=torch-cuda"},
        {"bfloat16: true", "0.9.2", "store=B compute=B oplist=torch-cuda"},  // the default of bf16 is auto
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.version);
        const Imported config = axolotl(row.keys, {.version = row.version});
        CHECK(test::fields_of(config.result(), {"store", "compute", "oplist"}) == row.formats);
        const bool is_amp = std::string_view(row.version) == "0.10.0" || std::string_view(row.keys).ends_with("dpo");
        CHECK(config.has("C axolotl/bfloat16-is-amp") == is_amp);
    }
}

TEST_CASE("before 0.16.0, Axolotl refuses bf16 on a device without it", "[experiments][import][axolotl]") {
    for (const char* keys : {"bf16: true", "bf16: false\nbfloat16: true"}) {
        CAPTURE(keys);
        const Imported old = axolotl(keys, {.version = "0.15.0", .device = "cpu"});
        CHECK(old.has("E axolotl/bf16-unsupported"));
        CHECK_FALSE(old.has("W axolotl/bf16-unsupported"));
        CHECK_FALSE(axolotl(keys, {.version = "0.16.0", .device = "cpu"}).result().refused());
    }
    CHECK_FALSE(axolotl("bf16: true\nmerge_lora: true", {.version = "0.15.0", .device = "cpu"}).result().refused());
    CHECK_FALSE(axolotl("bf16: auto", {.version = "0.15.0", .device = "cpu"}).has("E axolotl/bf16-unsupported"));
}

TEST_CASE("adapters of Axolotl follow the version of PEFT and peft_autocast_adapter_dtype",
          "[experiments][import][axolotl]") {
    const struct {
        const char *keys, *peft;
        const char* adapter;
        const char* finding;  ///< about the format of the adapters, or an empty text
    } rows[] = {
        {"bf16: true\nadapter: lora", "0.12.0", "F", ""},
        {"bf16: true\nadapter: lora", "0.11.1", "B", "W axolotl/no-master"},
        {"bf16: false\nfp16: true\nadapter: lora", "0.11.1", "H", "E axolotl/unscale-low-gradients"},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true", "0.11.1", "B", "W axolotl/no-master"},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true", "0.12.0", "F", ""},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_quant_storage: uint8}", "0.11.1",
         "F", ""},
        {"bf16: true\nadapter: lora\nload_in_8bit: true", "0.11.1", "F", ""},
        {"bf16: true\nadapter: lora\npeft_autocast_adapter_dtype: false", "0.12.0", "B", "W axolotl/no-master"},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true\npeft_autocast_adapter_dtype: false", "0.18.1", "B",
         "W axolotl/no-master"},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true\npeft_autocast_adapter_dtype: false\n"
         "bnb_config_kwargs: {bnb_4bit_quant_storage: uint8}",
         "0.18.1", "F", ""},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true\npeft_autocast_adapter_dtype: false", "0.19.0", "B",
         "W axolotl/no-master"},
        {"bf16: true\nadapter: lora\nload_in_8bit: true\npeft_autocast_adapter_dtype: false", "0.19.0", "F", ""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.peft);
        const Imported config = axolotl(row.keys, {.versions = {{"peft", configs::parse_version(row.peft)}}});
        CHECK(config.field("adapter") == row.adapter);
        CHECK(config.field("grad") == row.adapter);
        for (const char* rule : {"W axolotl/no-master", "E axolotl/unscale-low-gradients"})
            CHECK(config.has(rule) == (row.finding == std::string(rule)));
    }
    // Axolotl 0.4.1 requires PEFT 0.11.1, and 0.5.0 requires 0.13.2.
    CHECK(axolotl("bf16: true\nadapter: lora", {.version = "0.4.1"}).field("adapter") == "B");
    CHECK(axolotl("bf16: true\nadapter: lora", {.version = "0.5.0"}).field("adapter") == "F");
}

TEST_CASE("each finding about an axolotl config is reported in the cases that this test lists, and in no others",
          "[experiments][import][axolotl]") {
    const struct {
        const char *keys, *device, *finding;
        bool fires;
    } rows[] = {
        {"bf16: full", "a100", "E axolotl/bf16-full", true},
        {"bf16: true", "a100", "E axolotl/bf16-full", false},
        {"bf16: maybe", "a100", "E axolotl/bf16-word", true},
        {"fp8_enable_fsdp_float8_all_gather: true", "h100", "E axolotl/all-gather-without-fsdp2", true},
        {"fp8: true\nfp8_enable_fsdp_float8_all_gather: true\nfsdp_version: 2", "h100",
         "E axolotl/all-gather-without-fsdp2", false},
        {"fp8: true", "a100", "E axolotl/fp8-unsupported", true},
        {"fp8: true", "h100", "E axolotl/fp8-unsupported", false},
        {"fp8: true", "h100", "W axolotl/fp8-without-compile", true},
        {"fp8: true\ntorch_compile: true", "h100", "W axolotl/fp8-without-compile", false},
        {"fp8: true\nfsdp_version: 2\nfsdp_config:\n  activation_checkpointing: true", "h100",
         "W axolotl/fp8-activation-checkpointing", true},
        {"fp8: true\nfsdp_version: 2\nfsdp_config:\n  cpu_ram_efficient_loading: true", "h100",
         "E axolotl/fp8-cpu-ram-efficient-loading", true},
        {"bf16: auto", "v100", "W axolotl/bf16-emulated", true},
        {"bf16: auto", "a100", "W axolotl/bf16-emulated", false},
        {"bf16: false", "a100", "N axolotl/bf16-unused", true},
        {"bf16: false", "v100", "N axolotl/bf16-unused", false},
        {"bf16: false", "cpu", "N axolotl/bf16-unused", false},
        {"bf16: false\nfp16: true", "a100", "E axolotl/unscale-low-gradients", true},
        {"bf16: false\nfp16: true\nadapter: lora", "a100", "E axolotl/unscale-low-gradients", false},
        {"bf16: false\nfp16: true\nsample_packing: true", "a100", "W axolotl/fp16-packing-without-flash", true},
        {"bf16: false\nfp16: true\nsample_packing: true\nflash_attention: true", "a100",
         "W axolotl/fp16-packing-without-flash", false},
        {"bf16: true\nsample_packing: true\nattn_implementation: sdpa", "a100", "W axolotl/sdpa-packing-zero-loss",
         true},
        {"bf16: true\nsample_packing: true\nattn_implementation: sdpa", "h100", "W axolotl/sdpa-packing-zero-loss",
         false},
        {"bf16: true\nflash_optimum: true", "a100", "E axolotl/better-transformer-amp", true},
        {"fp32_norms: true", "a100", "E axolotl/fp32-norms-without-fsdp2", true},
        {"fp32_norms: true\nfsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true", "a100",
         "E axolotl/fp32-norms-without-fsdp2", false},
        {"fp32_norm_classes: [RMSNorm]", "a100", "W axolotl/norm-classes-alone", true},
        {"bf16: false\noptimizer: q_galore_adamw8bit", "a100", "W axolotl/q-galore-precision", true},
        {"bf16: true\noptimizer: q_galore_adamw8bit", "a100", "W axolotl/q-galore-precision", false},
        {"float32: true\nbf16: true", "a100", "C axolotl/float32-ignored", true},
        {"float16: true", "a100", "C axolotl/float16-ignored", true},
        {"bf16: true\nfp16: true", "a100", "C axolotl/bf16-and-fp16", true},
        {"bf16: auto\nfp16: true\nadapter: lora", "a100", "C axolotl/fp16-beside-auto", true},
        {"bfloat16: true", "a100", "C axolotl/bfloat16-is-amp", true},
        {"tf32: true", "npu", "E axolotl/npu-tf32", true},
        {"tf32: true", "v100", "E axolotl/tf32-unsupported", true},
        {"tf32: auto", "v100", "E axolotl/tf32-unsupported", false},
        {"use_ray: true", "a100", "N axolotl/ray-workers", true},
        {"fp8: true", "l40", "E axolotl/fp8-unsupported", true},  // compute capability 9.0 is required
        {"fp8: true", "mi300x", "E axolotl/fp8-unsupported", false},
        {"tf32: true", "mi300x", "E axolotl/tf32-unsupported", true},  // Transformers requires CUDA, not ROCm
        {"tf32: auto", "npu", "E axolotl/npu-tf32", true},
        {"bf16: true", "npu", "E axolotl/npu-tf32", false},
        {"fp32_norms: true\nfsdp_config:\n  fsdp_version: 2", "a100", "E axolotl/fp32-norms-without-fsdp2", false},
        {"fp32_norms: true\nfsdp_config:\n  version: 1", "a100", "E axolotl/fp32-norms-without-fsdp2", true},
        {"bf16: t", "a100", "E axolotl/bf16-word", false},
        {"flash_optimum: true\nfloat16: true", "cpu", "E axolotl/better-transformer-amp",
         true},  // `auto` counts as set
        {"flash_optimum: true\nbf16: false\nbfloat16: true", "a100", "E axolotl/better-transformer-amp", false},
        {"bf16: false\nfp16: true\nbfloat16: true", "a100", "E axolotl/fp16-and-bfloat16", true},
        {"bf16: true\nfp16: true\nbfloat16: true", "a100", "E axolotl/fp16-and-bfloat16", false},
        {"bf16: true", "cpu", "W axolotl/bf16-unsupported", true},
        {"bf16: false\nbfloat16: true", "cpu", "W axolotl/bf16-unsupported", true},
        {"bf16: auto", "cpu", "W axolotl/bf16-unsupported", false},
        {"bf16: true\nsample_packing: true\nsdp_attention: true", "a100", "W axolotl/sdpa-packing-zero-loss", true},
        {"bf16: true\nadapter: lora\ndsv4_fp4_grouped_mode: nvfp4", "a100", "N axolotl/quantised-base", true},
        {"bf16: true\nadapter: lora\nquantize_moe_experts: true", "a100", "N axolotl/quantised-base", true},
        {"bf16: true\nadapter: lora\nquantize_moe_experts: false", "a100", "N axolotl/quantised-base", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.device, row.finding);
        CHECK(axolotl(row.keys, {.device = row.device}).has(row.finding) == row.fires);
    }
    const Imported legacy = axolotl("bf16: full", {.version = "0.4"});
    CHECK(legacy.has("W axolotl/bf16-full-is-eval"));
    CHECK(legacy.field("compute") == "B");
    CHECK_FALSE(legacy.has("N axolotl/bf16-unused"));
    CHECK_FALSE(legacy.has("N axolotl/tf32-auto"));
}

TEST_CASE("axolotl's validators refuse some combinations of base models, adapters, optimisers and sharding",
          "[experiments][import][axolotl]") {
    const std::string fsdp2 = "fsdp_version: 2\nfsdp_config:\n  offload_params: true\n";
    const std::string fsdp1 = "fsdp_config:\n  offload_params: true\n";
    const struct {
        std::string keys;
        const char *device, *finding;
        bool fires;
    } rows[] = {
        {"load_in_8bit: true", "a100", "E axolotl/quantised-without-adapter", true},
        {"load_in_4bit: true\nadapter: ''", "a100", "E axolotl/quantised-without-adapter", true},
        {"load_in_8bit: true\nadapter: lora", "a100", "E axolotl/quantised-without-adapter", false},
        {"load_in_8bit: true\ninference: true", "a100", "E axolotl/quantised-without-adapter", false},
        {"adapter: nolora", "a100", "E axolotl/unknown-adapter", true},
        {"adapter: mora\nplugins: [axolotl.integrations.mora.MoraPlugin]", "a100", "E axolotl/unknown-adapter", false},
        {"adapter: qlora", "a100", "E axolotl/qlora-base", true},
        {"adapter: qlora\nload_in_4bit: true", "a100", "E axolotl/qlora-base", false},
        {"adapter: qlora\nload_in_4bit: true\nload_in_8bit: true", "a100", "E axolotl/qlora-base", true},
        {"adapter: qlora\nload_in_4bit: true\ngptq: true", "a100", "E axolotl/qlora-base", true},
        {"adapter: qlora\nmerge_lora: true", "a100", "E axolotl/qlora-base", false},
        {"adapter: qlora\nmerge_lora: true\nload_in_4bit: true", "a100", "E axolotl/qlora-base", true},
        {"adapter: lora\nload_in_8bit: true\nmodel_quantization_config: Mxfp4Config", "a100",
         "E axolotl/quantised-twice", true},
        {"fsdp: [full_shard]\ndeepspeed: {zero_optimization: {stage: 2}}", "a100", "E axolotl/deepspeed-and-fsdp",
         true},
        {fsdp1 + "deepspeed: {zero_optimization: {stage: 2}}", "a100", "E axolotl/deepspeed-and-fsdp", false},
        {"optimizer: q_galore_adamw8bit\nadapter: lora", "a100", "E axolotl/optimizer-refused", true},
        {"optimizer: q_galore_adamw8bit\n" + fsdp2, "a100", "E axolotl/optimizer-refused", true},
        {"optimizer: q_galore_adamw8bit\n" + fsdp2 + "  use_orig_params: true", "a100", "E axolotl/optimizer-refused",
         false},
        {"optimizer: q_galore_adamw8bit", "a100", "E axolotl/optimizer-refused", false},
        {"optimizer: muon\ndeepspeed: {zero_optimization: {stage: 2}}", "a100", "E axolotl/optimizer-refused", true},
        {"optimizer: flash_adamw\n" + fsdp1, "a100", "E axolotl/optimizer-refused", true},
        {"optimizer: flash_adamw\n" + fsdp2, "a100", "E axolotl/optimizer-refused", false},
        {"optimizer: adamw_bnb_8bit\n" + fsdp2, "a100", "E axolotl/optimizer-refused", true},
        {"optimizer: adamw_torch_8bit\n" + fsdp2, "a100", "E axolotl/optimizer-refused", false},
        {"optimizer: adamw_torch_8bit\n" + fsdp1, "a100", "E axolotl/optimizer-refused", true},
        {"optimizer: adamw_torch_8bit\nfsdp_config:\n  reshard_after_forward: true", "a100",
         "E axolotl/optimizer-refused", false},
        {"rl: dpo\nadapter: lora\nload_in_8bit: true\nfsdp_version: 2", "a100", "E axolotl/quantised-fsdp2", true},
        {"rl: dpo\nadapter: lora\nload_in_8bit: true\nfsdp_version: 1", "a100", "E axolotl/quantised-fsdp2", false},
        {"rl: dpo\nadapter: lora\nfsdp_version: 2", "a100", "E axolotl/quantised-fsdp2", false},
        {"rl: grpo\nadapter: lora\nload_in_8bit: true\nfsdp_version: 2", "a100", "E axolotl/quantised-fsdp2", false},
        {"adapter: lora\nload_in_8bit: true", "npu", "E axolotl/npu-unsupported", true},
        {"optimizer: adamw_8bit", "npu", "E axolotl/npu-unsupported", true},
        {"sdp_attention: true", "npu", "E axolotl/npu-unsupported", true},
        {"attn_implementation: eager", "npu", "E axolotl/npu-unsupported", false},
        {"attn_implementation: sdpa\nflash_attention: true", "a100", "E axolotl/attention-twice", true},
        {"attn_implementation: flash", "a100", "E axolotl/attention-name", true},
        {"attn_implementation: kernels-community/flash-attn3", "a100", "E axolotl/attention-name", false},
        {"sage_attention: true", "v100", "E axolotl/attention-unsupported", true},
        {"attn_implementation: sage", "l40", "E axolotl/attention-unsupported", false},
        {"attn_implementation: fp8", "a100", "E axolotl/attention-unsupported", true},
        {"attn_implementation: fp8", "h100", "E axolotl/attention-unsupported", false},
        {"adapter: lora\nload_in_4bit: true", "a100", "W axolotl/bits-ignored", true},
        {"adapter: qlora\nload_in_4bit: true", "a100", "W axolotl/bits-ignored", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.device, row.finding);
        CHECK(axolotl(row.keys, {.device = row.device}).has(row.finding) == row.fires);
    }
}

TEST_CASE("axolotl quantises the base model only if the number of bits is the one that the adapter uses",
          "[experiments][import][axolotl]") {
    // The loader does not quantise the base model, and prepare_model_for_kbit_training casts it to fp32.
    CHECK(axolotl("bf16: true\nadapter: lora\nload_in_4bit: true").field("store") == "F");
    CHECK(axolotl("bf16: true\nadapter: lora\nload_in_4bit: true\nfsdp_config:\n  cpu_ram_efficient_loading: true")
              .field("store") == "B");
    CHECK(axolotl("bf16: true\nadapter: qlora\nload_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_quant_type: fp4}")
              .field("store") == "fp4");
    CHECK(axolotl("bf16: true\nadapter: lora\ngptq: true").field("store") == "int4");
    const Imported old = axolotl("bf16: true\nadapter: lora\nload_in_4bit: true", {.version = "0.9.2"});
    CHECK(old.field("store") == "nf4");
    CHECK_FALSE(old.has("W axolotl/bits-ignored"));
    CHECK_FALSE(axolotl("attn_implementation: flash", {.version = "0.9.2"}).has("E axolotl/attention-name"));
}

TEST_CASE("axolotl casts norms back for every attention kernel except eager and sdpa",
          "[experiments][import][axolotl]") {
    const struct {
        const char *keys, *norm;
    } rows[] = {
        {"", "F"},
        {"attn_implementation: eager", "F"},
        {"sdp_attention: true", "F"},
        {"flash_attention: true", "B"},
        {"flex_attention: true", "B"},
        {"attn_implementation: flex_attention", "B"},
        {"attn_implementation: my/kernel", "B"},
        {"sage_attention: true", "B"},
        {"sage_attention: true\nsdp_attention: true", "B"},
        {"gemma4_hybrid_attn_impl: true", "B"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys);
        CHECK(axolotl(std::string("bf16: true\n") + row.keys).field("norm") == row.norm);
    }
}

TEST_CASE("in the sample config of axolotl, the all-gather requires FSDP2 and fp8 requires torch_compile",
          "[experiments][import][axolotl]") {
    const Imported sample(
        "{base_model: my/model, bf16: auto, tf32: auto, fp8: true, fp8_enable_fsdp_float8_all_gather: true, "
        "micro_batch_size: 1}",
        {.device = "h100"});
    CHECK(sample.result().framework->name == "axolotl");
    CHECK(sample.result().refused());
    CHECK(sample.findings("E") == std::vector<std::string>{"E axolotl/all-gather-without-fsdp2"});
    CHECK(sample.has("W axolotl/fp8-without-compile"));
    CHECK(sample.field("fp8") == "ao_tensorwise");
    CHECK(sample.part("fp8", "pad_inner_dim") == "false");
}

TEST_CASE("axolotl drops unknown keys, and parses quoted booleans", "[experiments][import][axolotl]") {
    const Imported config = axolotl("bf16: \"false\"\ntf32: false\nbf61: true");
    CHECK(config.field("compute") == "F");
    CHECK_FALSE(config.result().refused());
    CHECK(config.findings("U").size() == 1);
}

TEST_CASE("with FSDP 1, Axolotl's adapters need the format in which the 4-bit base is stored", "[import][axolotl]") {
    const std::string qlora = "bf16: true\nadapter: qlora\nload_in_4bit: true\nfsdp: [full_shard]\n",
                      no_cast = "peft_autocast_adapter_dtype: false\n",
                      integers = "bnb_config_kwargs: {bnb_4bit_quant_storage: uint8}\n";
    const struct {
        std::string keys;
        const char *version, *peft, *transformers;
        bool fires;
    } rows[] = {
        {qlora, "0.19.0", "0.12.0", "", true},
        {qlora + no_cast, "0.19.0", "0.12.0", "", false},
        {qlora, "0.9.2", "0.11.1", "", false},
        {qlora + integers, "0.9.2", "0.11.1", "", true},
        {qlora + no_cast, "0.19.0", "0.12.0", "4.38.2", true},
        {qlora, "0.4.1", "0.11.1", "", true},
        {qlora, "0.4.1", "0.11.1", "4.39.0", false},
        {qlora + "fsdp_version: 2\n", "0.19.0", "0.12.0", "", false},
        {"bf16: true\nadapter: qlora\nload_in_4bit: true\n", "0.19.0", "0.12.0", "", false},
        {"bf16: true\nadapter: lora\nfsdp: [full_shard]\n", "0.19.0", "0.12.0", "", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.version, row.peft, row.transformers);
        test::Asked asked{.version = row.version, .versions = {{"peft", configs::parse_version(row.peft)}}};
        if (*row.transformers != 0) asked.versions["transformers"] = configs::parse_version(row.transformers);
        CHECK(axolotl(row.keys, asked).has("W axolotl/fsdp1-uniform") == row.fires);
    }
}

TEST_CASE("Axolotl's own function for FSDP 2 leaves the shards in the loaded format", "[import][axolotl]") {
    const Imported two = axolotl("bf16: true\nfsdp_version: 2\nfsdp_config: {state_dict_type: FULL_STATE_DICT}");
    for (const char* field : {"store", "grad", "opt_state"}) {
        CAPTURE(field);
        CHECK(two.field(field) == "B");
    }
    CHECK(two.has("W axolotl/fsdp-no-master"));
    CHECK_FALSE(two.has("N axolotl/fsdp-upcast"));
    CHECK_FALSE(two.has("W axolotl/no-master"));  // fsdp-no-master says it
    const std::string sharded = "fsdp_config: {state_dict_type: FULL_STATE_DICT}\n";
    CHECK(axolotl(sharded + "fp16: true\nfsdp_version: 2").has("E axolotl/unscale-low-gradients"));
    CHECK_FALSE(axolotl(sharded + "fp16: true\nfsdp_version: 1").has("E axolotl/unscale-low-gradients"));
    const std::string adapters = sharded + "fp16: true\nfsdp_version: 2\nadapter: lora\n";
    CHECK_FALSE(axolotl(adapters).has("E axolotl/unscale-low-gradients"));
    CHECK(axolotl(adapters + "peft_autocast_adapter_dtype: false").has("E axolotl/unscale-low-gradients"));
    const auto advice = [&](const char* version) {
        const Imported config = axolotl(sharded + "bf16: true\nfsdp_version: " + version, {.device = "v100"});
        return test::find_rule(config.result(), "axolotl/bf16-emulated")->instead;
    };
    CHECK(advice("1") == "bf16: false with fp16: true");
    CHECK(advice("2") == "bf16: false");  // fp16 would leave the shards in fp16
    const Imported one = axolotl("bf16: true\nfsdp_version: 1\nfsdp_config: {state_dict_type: FULL_STATE_DICT}");
    CHECK(one.field("store") == "F");
    CHECK(one.field("opt_state") == "F");
    CHECK(one.has("N axolotl/fsdp-upcast"));
}

}  // namespace import_axolotl_test
