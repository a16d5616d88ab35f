// SPDX-License-Identifier: Apache-2.0
// Tests imports of torchtune's configs: one format for everything, the moments of the optimisers, and each finding.
#include "tests/configs/imported.hpp"

namespace import_torchtune_test {

using namespace macheps;
using namespace macheps::configs;
using test::Imported;

namespace {

Imported tune(const std::string& keys, const char* device = "a100",
              const char* model = "torchtune.models.llama2.llama2_7b") {
    return Imported("model: {_component_: " + std::string(model) + "}\n" + keys, {.device = device});
}

std::string formats(const Imported& config) {
    return config.field("store") + config.field("compute") + config.field("grad") + config.field("opt_state");
}

}  // namespace

TEST_CASE("torchtune trains everything in the format of dtype, without autocast and without a scaler",
          "[import][torchtune]") {
    const Imported bf16 = tune("dtype: bf16");
    CHECK(bf16.result().framework->name == "torchtune");
    CHECK(formats(bf16) == "BBBB");
    CHECK(bf16.field("oplist") == "none");
    CHECK(bf16.field("scaler") == "none");
    CHECK(bf16.field("buffers") == "F");
    CHECK(bf16.field("logits") == "F");
    CHECK(formats(tune("dtype: fp32")) == "FFFF");
    CHECK(formats(tune("dtype: null")) == "FFFF");
    CHECK(tune("dtype: fp32\nclip_grad_norm: 2.0").part("clip", "max") == "2");
    CHECK(tune("dtype: fp32\nclip_grad_norm: inf").field("clip") == "none");
    CHECK(tune("dtype: fp32\nenable_activation_checkpointing: true").field("ckpt") == "true");
    const Imported adam = tune(
        "optimizer: {_component_: torch.optim.Adam, lr: 0.5, eps: 1.0e-6}\n"
        "gradient_accumulation_steps: 4");
    CHECK(adam.field("optimizer") == "adam");
    CHECK(adam.part("optimizer", "lr") == "0.5");
    CHECK(adam.part("optimizer", "eps") == "1e-06");
    CHECK(adam.field("micro_batches") == "4");
    CHECK(tune("optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit}").field("optimizer") == "adamw");
    CHECK(tune("optimizer: {_component_: torchao.prototype.low_bit_optim.AdamWFp8}").field("optimizer") == "adamw");
    CHECK(tune("optimizer: {_component_: torch.optim.SGD, momentum: 0.5}").field("opt_state") == "F");
    CHECK(tune("optimizer: {_component_: torch.optim.SGD}").field("opt_state") == "none");
    CHECK(tune("dtype: bf16\ndevice: cpu").field("device") == "cpu");
}

TEST_CASE("the moments of torchtune's optimisers have the format of the weights, unless the class says otherwise",
          "[import][torchtune]") {
    const struct {
        const char *optimizer, *opt_state, *kernel;
    } rows[] = {
        {"torch.optim.AdamW", "B", "single"},
        {"torch.optim.AdamW, fused: true", "B", "fused"},
        {"bitsandbytes.optim.PagedAdamW", "F", "fused"},
        {"bitsandbytes.optim.PagedAdamW8bit", "int8", "fused"},
        {"torchao.optim.AdamW8bit", "int8", "fused"},
        {"torchao.prototype.low_bit_optim.AdamW4bit", "int4", "fused"},
        {"torchao.optim.AdamWFp8", "fp8", "fused"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.optimizer);
        const Imported config = tune("dtype: bf16\noptimizer: {_component_: " + std::string(row.optimizer) + "}");
        CHECK(config.field("opt_state") == row.opt_state);
        CHECK(config.field("opt_kernel") == row.kernel);
    }
}

TEST_CASE("torchtune's LoRA has adapters in the format of dtype, and QLoRA has a base in NF4", "[import][torchtune]") {
    const Imported lora = tune("dtype: bf16", "a100", "torchtune.models.llama3.lora_llama3_8b");
    CHECK(lora.field("adapter") == "B");
    CHECK(lora.field("store") == "B");
    const Imported qlora = tune("dtype: bf16", "a100", "torchtune.models.llama3.qlora_llama3_8b");
    CHECK(qlora.field("adapter") == "B");
    CHECK(qlora.field("store") == "nf4");
    const Imported by_key(
        "model: {_component_: torchtune.models.llama3.lora_llama3_8b, quantize_base: true}\ndtype: bf16");
    CHECK(by_key.field("store") == "nf4");
    CHECK(tune("dtype: bf16").field("adapter") == "none");
}

TEST_CASE("each finding about a torchtune config is reported in the cases that this test lists, and in no others",
          "[import][torchtune]") {
    const struct {
        const char *keys, *device, *finding;
        bool fires;
    } rows[] = {
        {"dtype: fp16", "a100", "E torchtune/fp16-refused", true},
        {"dtype: bf16", "a100", "E torchtune/fp16-refused", false},
        {"dtype: fp64", "a100", "E torchtune/fp64-unread", true},
        {"dtype: fp32", "a100", "E torchtune/fp64-unread", false},
        {"dtype: bf16", "cpu", "E torchtune/bf16-unsupported", false},
        {"dtype: bf16\noptimizer_in_bwd: true\nclip_grad_norm: 1.0", "a100", "E torchtune/clip-in-backward", true},
        {"dtype: bf16\noptimizer_in_bwd: false\nclip_grad_norm: 1.0", "a100", "E torchtune/clip-in-backward", false},
        {"dtype: bf16\noptimizer_in_bwd: true\ngradient_accumulation_steps: 2", "a100",
         "E torchtune/accumulation-in-backward", true},
        {"dtype: bf16\noptimizer_in_bwd: true\ngradient_accumulation_steps: 1", "a100",
         "E torchtune/accumulation-in-backward", false},
        {"dtype: bf16", "a100", "W torchtune/no-master", true},
        {"dtype: fp32", "a100", "W torchtune/no-master", false},
        {"dtype: bf16", "v100", "W torchtune/bf16-emulated", true},
        {"dtype: bf16", "a100", "W torchtune/bf16-emulated", false},
        {"dtype: bf16\ncompile: true", "a100", "W torchtune/torch-compile", true},
        {"dtype: bf16\ncompile: false", "a100", "W torchtune/torch-compile", false},
        {"dtype: bf16\nquantizer: {_component_: torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer}",
         "a100", "W torchtune/quantizer-unread", true},
        {"dtype: fp32", "a100", "N torchtune/fp32-products", true},
        {"dtype: fp32", "v100", "N torchtune/fp32-products", false},
        {"dtype: bfloat16", "a100", "E torchtune/no-such-choice", true},
        {"dtype: bf16\nno_such_key: 1", "a100", "U torchtune/unknown-key", true},
        {"dtype: bf16\nseed: null\nloss: {_component_: torchtune.modules.loss.X, num_output_chunks: 8}", "a100",
         "U torchtune/unknown-key", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.keys, row.device, row.finding);
        const Imported config = tune(row.keys, row.device);
        CAPTURE(config.findings("EUWCN"));
        CHECK(config.has(row.finding) == row.fires);
    }
    const Imported quantised =
        tune("quantizer: {_component_: torchtune.training.quantization.Int4WeightOnlyQATQuantizer}");
    CHECK_FALSE(test::find_rule(quantised.result(), "torchtune/quantizer-unread")->not_emulated.empty());
}

}  // namespace import_torchtune_test
