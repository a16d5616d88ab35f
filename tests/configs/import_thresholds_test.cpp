// SPDX-License-Identifier: Apache-2.0
// Tests every framework release at which the result of an importer changes. The release before it must give a different
// result.
#include "experiments/configs/framework_keys.hpp"
#include "tests/configs/import_case.hpp"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

namespace import_thresholds_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

/// Selects one of two imports: with the last release before a change, or with the first release since the change.
enum class Of { before, since };

/// A place in the source of the importers where the framework version is compared with `version`, and a config whose
/// import depends on this comparison.
struct Threshold {
    const char* file;
    const char* version;  ///< as the source writes it
    const char* before;   ///< the last release before the change, such as "deepspeed=0.17.5"
    const char* since;    ///< the first release with the change
    const char* framework;
    const char* device;
    const char* checkpoint;
    const char* config;
    Of of;             ///< the import whose result contains `text`
    const char* text;  ///< a part of a field or a finding
};

constexpr const char* h100 = "h100";
constexpr const char* fsdp2 =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 2\n"
    "fsdp_config: {fsdp_version: 2}";
constexpr const char* llamafactory_fp8 =
    "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\nfp8: true\nfp8_backend: auto";

// The releases are the releases on PyPI.
constexpr Threshold thresholds[] = {
    {"context.cpp", "2.3", "torch=2.2.2", "torch=2.3.0", "transformers", "v100", "fp32", "bf16: true", Of::before,
     "E transformers/bf16-unsupported"},
    {"deepspeed/deepspeed.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}})", Of::before, "field accum F"},
    {"deepspeed/deepspeed.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "fp32"}})",
     Of::since, "field accum B"},
    {"deepspeed/deepspeed.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", Of::before, "field reduce F"},
    {"deepspeed/deepspeed.cpp", "0.18.5", "deepspeed=0.18.4", "deepspeed=0.18.5", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "fp32"}})",
     Of::since, "field accum F"},
    {"deepspeed/deepspeed.cpp", "0.17.1", "deepspeed=0.17.0", "deepspeed=0.17.1", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": "auto"}})", Of::before, "field compute H"},
    {"deepspeed/deepspeed.cpp", "0.17.2", "deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", h100, "fp32",
     R"({"torch_autocast": {"enabled": true, "dtype": "bfloat16"}})", Of::since, "field compute B"},
    {"deepspeed/deepspeed.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "optimizer": {"type": "SGD"}})", Of::since, "field scaler static"},
    {"deepspeed/deepspeed.cpp", "0.18.0", "deepspeed=0.17.6", "deepspeed=0.18.0", "deepspeed", h100, "fp32",
     R"({"torch_autocast": {"enabled": true, "dtype": "float16"}})", Of::since, "field scaler torch"},
    {"deepspeed/deepspeed.cpp", "0.19.8", "deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", h100, "fp32",
     R"({"zero_optimization": {"stage": 1}})", Of::since, "field scaler static"},
    {"deepspeed/findings.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}})", Of::since, "the wrapper of fused Adam ignores"},
    {"deepspeed/deepspeed.cpp", "0.19.8", "deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", h100, "fp32",
     R"({"amp": {"enabled": true, "opt_level": "O2"}})", Of::before, "field compute H"},
    {"deepspeed/deepspeed.cpp", "0.19.2", "deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::since, "field buffers F"},
    {"deepspeed/findings.cpp", "0.17.2", "deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::since,
     "torch_autocast, which keeps the model in fp32"},
    {"deepspeed/findings.cpp", "0.19.2", "deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::before,
     "buffers are cast to bf16 with the model"},
    {"deepspeed/findings.cpp", "0.18.8", "deepspeed=0.18.7", "deepspeed=0.18.8", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true, "loss_scale": -1}})", Of::since, "E deepspeed/loss-scale:"},
    {"deepspeed/findings.cpp", "0.19.3", "deepspeed=0.19.2", "deepspeed=0.19.3", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true, "min_loss_scale": 0}})", Of::since, "E deepspeed/min-loss-scale"},
    {"deepspeed/findings.cpp", "0.18.3", "deepspeed=0.18.2", "deepspeed=0.18.3", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1}})",
     Of::before, "E deepspeed/fp16-masters"},
    {"deepspeed/findings.cpp", "0.18.3", "deepspeed=0.18.2", "deepspeed=0.18.3", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true, "bf16_optimizer_states": true}, "zero_optimization": {"stage": 1}})", Of::since,
     "E deepspeed/bf16-masters"},
    {"deepspeed/findings.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"}})", Of::before,
     "E deepspeed/accumulation-mix"},
    {"deepspeed/findings.cpp", "0.18.5", "deepspeed=0.18.4", "deepspeed=0.18.5", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", Of::since,
     "E deepspeed/accumulation-mix"},
    {"deepspeed/findings.cpp", "0.19.8", "deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}})", Of::since, "the log has a WARNING"},
    {"deepspeed/findings.cpp", "0.19.7", "deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true}, "optimizer": {"type": "OneBitAdam"}})", Of::since, "E deepspeed/optimizer-removed"},
    {"deepspeed/findings.cpp", "0.19.7", "deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true}, "optimizer": {"type": "OneBitAdam"}})", Of::before,
     "N deepspeed/compressed-momentum"},
    {"deepspeed/findings.cpp", "0.17.2", "deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", h100, "fp32",
     R"({"torch_autocast": {"enabled": false}})", Of::since, "an autocast region around the engine has no effect"},
    {"transformers/findings.cpp", "4.42", "transformers=4.41.2,torch=2.2.0", "transformers=4.42.0,torch=2.2.0",
     "transformers", "cpu", "fp32", "fp16: true", Of::before, "E transformers/fp16-unsupported"},
    {"transformers/findings.cpp", "4.41", "transformers=4.40.2", "transformers=4.41.0", "transformers", "cpu", "fp32",
     "fp16: true", Of::before, "E transformers/fp16-unsupported"},
    {"transformers/findings.cpp", "2.3", "transformers=4.41.2,torch=2.2.2", "transformers=4.41.2,torch=2.3.0",
     "transformers", "cpu", "fp32", "fp16: true", Of::before, "E transformers/fp16-unsupported"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nhalf_precision_backend: cpu_amp", Of::before, "E transformers/fp16-cpu-amp"},
    {"transformers/findings.cpp", "4.52", "transformers=4.51.3", "transformers=4.52.0", "transformers", "cpu", "fp32",
     "bf16: true", Of::since, "unless use_cpu is true"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "bf16: true\nhalf_precision_backend: apex", Of::before, "E transformers/bf16-apex"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_backend: apex", Of::before, "transformers/fp16-backend-deprecated"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_opt_level: O1", Of::before, "transformers/opt-level-unread"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_opt_level: O2\ndeepspeed: {\"amp\": {\"enabled\": true, \"opt_level\": \"O1\"}}", Of::before,
     "amp.opt_level is O1"},
    {"transformers/transformers.cpp", "5.10.1", "transformers=5.9.0", "transformers=5.10.1", "transformers", h100,
     "fp32", "bf16: true\nfsdp: full_shard", Of::since, "field predivide average"},
    {"transformers/transformers.cpp", "2.8", "transformers=4.54.0,torch=2.7.1", "transformers=4.54.0,torch=2.8.0",
     "transformers", h100, "fp32", "bf16: true", Of::since, "field opt_kernel fused"},
    {"transformers/transformers.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nhalf_precision_backend: apex", Of::before, "field oplist apex-o1"},
    {"transformers/transformers.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "bf16",
     "bf16: true", Of::since, "field store B"},
    {"transformers/keys.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_opt_level: O2\nhalf_precision_backend: apex\ndeepspeed: {\"amp\": {\"enabled\": true, "
     "\"opt_level\": \"O1\"}}",
     Of::before, "amp.opt_level is O1"},
    {"accelerate/findings.cpp", "0.34", "accelerate=0.33.0", "accelerate=0.34.0", "accelerate", h100, "fp32",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: no", Of::since, "and the launcher raises"},
    {"accelerate/findings.cpp", "0.34", "accelerate=0.33.0", "accelerate=0.34.0", "accelerate", h100, "fp32",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: no", Of::before, "this version treats it as \"no\""},
    {"accelerate/findings.cpp", "1.4", "accelerate=1.3.0", "accelerate=1.4.0", "accelerate", h100, "fp32",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: fp8\nfp8_config: {backend: AO}", Of::before,
     "E accelerate/fp8-backend:"},
    {"accelerate/accelerate.cpp", "0.34", "accelerate=0.33.0", "accelerate=0.34.0", "accelerate", h100, "fp32",
     "distributed_type: DEEPSPEED\nmixed_precision: fp8", Of::before, "field compute F"},
    {"accelerate/accelerate.cpp", "1.8", "accelerate=1.7.0", "accelerate=1.8.0", "accelerate", "a100", "fp32",
     "distributed_type: DEEPSPEED\nmixed_precision: fp8", Of::since, "field compute H"},
    {"accelerate/accelerate.cpp", "1.4", "accelerate=1.3.0", "accelerate=1.4.0", "accelerate", h100, "fp32",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: fp8\nkwargs_handlers: {FP8RecipeKwargs: {}}", Of::since,
     "field fp8 ao_tensorwise"},
    {"accelerate/fsdp.cpp", "1.13", "accelerate=1.12.0", "accelerate=1.13.0", "accelerate", h100, "bf16", fsdp2,
     Of::since, "field opt_state B"},
    {"accelerate/fsdp.cpp", "1.14", "accelerate=1.13.0", "accelerate=1.14.0", "accelerate", h100, "bf16", fsdp2,
     Of::before, "field opt_state B"},
    {"lightning/findings.cpp", "2.0.3", "lightning=2.0.2", "lightning=2.0.3", "lightning", h100, "fp32",
     "trainer: {precision: bf16-mixed, strategy: fsdp, max_steps: 5}", Of::since, "although it gathers the weights"},
    {"torch/torch.cpp", "2.15", "torch=2.14.1", "torch=2.15.0", "torch", h100, "fp32",
     "fsdp: {version: 2, param_dtype: bfloat16}", Of::before, "field reduce B"},
    {"axolotl/axolotl.cpp", "0.17", "axolotl=0.16.1", "axolotl=0.17.0", "axolotl", h100, "fp32",
     "base_model: a\nadapter: lora\nload_in_4bit: true", Of::before, "nf4"},
    {"axolotl/axolotl.cpp", "0.10.0", "axolotl=0.9.2", "axolotl=0.10.0", "axolotl", h100, "fp32",
     "base_model: a\nbf16: false\nbfloat16: true", Of::since, "field oplist torch-cuda"},
    {"axolotl/findings.cpp", "0.16.0", "axolotl=0.15.0", "axolotl=0.16.0", "axolotl", "cpu", "fp32",
     "base_model: a\nbf16: true", Of::before, "E axolotl/bf16-unsupported"},
    {"axolotl/findings.cpp", "0.5", "axolotl=0.4.1", "axolotl=0.5.0", "axolotl", h100, "fp32",
     "base_model: a\nbf16: full", Of::since, "the schema accepts auto, true and false"},
    {"axolotl/axolotl.cpp", "4.39", "transformers=4.38.2,peft=0.11.1", "transformers=4.39.0,peft=0.11.1", "axolotl",
     h100, "fp32", "base_model: a\nadapter: qlora\nload_in_4bit: true", Of::since, "field adapter B"},
    {"axolotl/conflicts.cpp", "0.5", "axolotl=0.4.1,peft=0.11.1", "axolotl=0.5.0,peft=0.11.1", "axolotl", h100, "fp32",
     "base_model: a\nadapter: qlora\nload_in_4bit: true\nfsdp: [full_shard]", Of::before,
     "Transformers before 4.39 stores the 4-bit base in integers"},
    {"nanogpt/nanogpt.cpp", "2.0.0", "torch=1.13.1", "torch=2.0.0", "nanogpt", h100, "fp32", "dtype: float16",
     Of::since, "field opt_kernel fused"},
    {"policy_text/adapter_format.cpp", "0.6.0", "peft=0.5.0", "peft=0.6.0", "axolotl", h100, "fp32",
     "base_model: a\nadapter: lora", Of::since, "field adapter B"},
    {"policy_text/adapter_format.cpp", "0.12.0", "peft=0.11.1", "peft=0.12.0", "axolotl", h100, "fp32",
     "base_model: a\nadapter: lora", Of::before, "field adapter B"},
    {"policy_text/adapter_format.cpp", "0.19.0", "peft=0.18.1", "peft=0.19.0", "axolotl", h100, "fp32",
     "base_model: a\nadapter: qlora\nload_in_4bit: true\npeft_autocast_adapter_dtype: false\n"
     "bnb_config_kwargs: {bnb_4bit_quant_storage: uint8}",
     Of::since, "field adapter B"},
    {"llamafactory/llamafactory.cpp", "5", "llamafactory=0.9.5,transformers=4.57.6",
     "llamafactory=0.9.5,transformers=5.0.0", "llamafactory", h100, "fp32",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\nfp8: true", Of::since,
     "the Trainer of transformers 5 fixes the precision"},
    {"lightning/lightning.cpp", "2.5.0", "lightning=2.4.0", "lightning=2.5.0", "lightning", h100, "fp32",
     "trainer: {strategy: fsdp, precision: bf16-true}", Of::since, "field store B"},
    {"lightning/lightning.cpp", "2.6.0", "lightning=2.5.6", "lightning=2.6.0", "lightning", h100, "fp32",
     "trainer: {strategy: fsdp, precision: bf16-mixed}", Of::before, "although it gathers the weights in fp32"},
    {"lightning/lightning.cpp", "2.6.4", "lightning=2.6.1", "lightning=2.6.4", "lightning", h100, "fp32",
     "trainer: {strategy: fsdp, precision: bf16-mixed}", Of::before, "field store B"},
    {"torchtitan/torchtitan.cpp", "0.2.0", "torchtitan=0.1.0", "torchtitan=0.2.0", "torchtitan", h100, "fp32",
     "model: {converters: [float8]}", Of::since, "raise KeyError for `float8`"},
    {"llamafactory/llamafactory.cpp", "0.9.4", "llamafactory=0.9.3,transformers=4.57.6",
     "llamafactory=0.9.4,transformers=4.57.6", "llamafactory", h100, "fp32", llamafactory_fp8, Of::since,
     "W llamafactory/fp8-dropped"},
    {"llamafactory/llamafactory.cpp", "0.9.5", "llamafactory=0.9.4,transformers=4.57.6",
     "llamafactory=0.9.5,transformers=4.57.6", "llamafactory", h100, "fp32", llamafactory_fp8, Of::since,
     "field fp8 ao_tensorwise"},
    {"axolotl/conflicts.cpp", "0.17", "axolotl=0.16.1", "axolotl=0.17.0", "axolotl", h100, "fp32",
     "base_model: a\nattn_implementation: flash", Of::since, "which the validator refuses"},
    {"history/deepspeed.cpp", "4.49", "deepspeed=0.18.3,transformers=4.48.3", "deepspeed=0.18.3,transformers=4.49.0",
     "transformers", h100, "fp32", "gradient_accumulation_steps: 4\ndeepspeed: {zero_optimization: {stage: 1}}",
     Of::since, "ds-scale-wrt-gas-ignored"},
    {"history/deepspeed_scaler.cpp", "0.18.8", "deepspeed=0.18.7", "deepspeed=0.18.8", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true, "loss_scale": -1}})", Of::before, "ds-scale-validation"},
    {"history/predicates.cpp", "4.46.0", "axolotl=0.5.0,transformers=4.45.2", "axolotl=0.5.0,transformers=4.46.0",
     "axolotl", h100, "fp32", "base_model: m\ngradient_accumulation_steps: 4", Of::since, "axo-ga"},
    {"history/predicates.cpp", "5", "accelerate=1.13.0,transformers=4.57.6", "accelerate=1.13.0,transformers=5.0.0",
     "transformers", h100, "bf16", "bf16: true\nfsdp: full_shard\nfsdp_config: {version: 2}", Of::since,
     "acc-fsdp2-upcast-noop"},
    {"history/predicates.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "model_name_or_path: google/flan-t5-large\ngradient_accumulation_steps: 4", Of::since, "tf-own-compute-loss"},
    {"history/transformers.cpp", "2.8", "torch=2.7.1", "torch=2.8.0", "transformers", h100, "fp32", "bf16: true",
     Of::since, "tf-optim-fused-default"},
    {"trl/trl.cpp", "0.19", "trl=0.18.2", "trl=0.19.0", "trl", h100, "fp32", "model_name_or_path: m", Of::since,
     "field compute B"},
    {"trl/trl.cpp", "0.22", "trl=0.21.0", "trl=0.22.0", "trl", h100, "fp32", "model_name_or_path: m", Of::since,
     "field ckpt true"},
    {"trl/trl.cpp", "0.23", "trl=0.22.2", "trl=0.23.0", "trl", h100, "fp32", "model_name_or_path: m\ndtype: bfloat16",
     Of::before, "E trl/dtype-too-new"},
    {"trl/trl.cpp", "0.26", "trl=0.25.1", "trl=0.26.0", "trl", h100, "fp32",
     "model_name_or_path: m\nload_in_4bit: true\nuse_peft: true", Of::since, "field adapter B"},
    {"trl/trl.cpp", "0.27", "trl=0.26.2", "trl=0.27.0", "trl", h100, "fp32",
     "model_name_or_path: m\ntorch_dtype: bfloat16", Of::since, "E trl/torch-dtype-removed"},
    {"trl/trl.cpp", "0.29", "trl=0.28.0", "trl=0.29.0", "trl", h100, "fp32",
     "model_name_or_path: m\nload_in_4bit: true\nuse_peft: true", Of::before, "the trainer for DPO keeps them in fp32"},
    {"trl/trl.cpp", "5", "trl=0.26.2,transformers=4.57.6", "trl=0.26.2,transformers=5.0.0", "trl", h100, "bf16",
     "model_name_or_path: m", Of::since, "field store B"},
    {"verl/verl.cpp", "0.6", "verl=0.5.0", "verl=0.6.0", "verl", h100, "fp32",
     "actor_rollout_ref: {actor: {fsdp_config: {no_such_key: 1}}}", Of::since, "and refuses the config"},
    {"verl/verl.cpp", "0.6.1", "verl=0.6.0", "verl=0.6.1", "verl", h100, "fp32",
     "actor_rollout_ref: {actor: {fsdp_config: {dtype: float16}}}", Of::since, "field compute H"},
    {"verl/verl.cpp", "0.8", "verl=0.7.1", "verl=0.8.0", "verl", h100, "fp32",
     "actor_rollout_ref: {actor: {fsdp_config: {mixed_precision: {param_dtype: fp16}}}}", Of::since, "field compute H"},
    {"gpt_neox/gpt_neox.cpp", "0.19.3", "deepspeed=0.19.2", "deepspeed=0.19.3", "gpt-neox", h100, "fp32",
     "{num_layers: 2, train_batch_size: 4, precision: fp16}", Of::since, "field clip deepspeed max=1"},
};

/// Returns the fields with their parts and the findings of an import, one per line.
std::string lines_of(const Threshold& at, const char* versions) {
    const ImportResult result = import_text(
        at.config, {.framework = at.framework, .versions = versions, .device = at.device, .checkpoint = at.checkpoint});
    std::string lines;
    for (const ResolvedField* field : result.resolved.fields())
        lines += fmt::format("field {} {}\n", field->name, field_of(result, field->name));
    for (const Finding& finding : result.findings) {
        lines += fmt::format("{} {}: {}; {}\n", static_cast<char>(finding.code), finding.rule, finding.message,
                             finding.instead);
    }
    return lines;
}

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("if an importer treats versions before and since a release differently, its result changes at that release",
          "[import][versions]") {
    for (const Threshold& at : thresholds) {
        const std::string before = lines_of(at, at.before), since = lines_of(at, at.since);
        CAPTURE(at.file, at.version, at.config, at.text, before, since);
        CHECK((before.find(at.text) != std::string::npos) == (at.of == Of::before));
        CHECK((since.find(at.text) != std::string::npos) == (at.of == Of::since));
    }
}

TEST_CASE("for every release that an importer distinguishes, this test has a config whose result depends on it",
          "[import][versions]") {
    std::map<std::string, int> compared, tested;
    const std::regex comparison(R"re((?:\bsince\((?:"\w+", )?|[<>]=? parse_version\()"([0-9.]+)"\))re");
    const std::filesystem::path folder = std::filesystem::path(MACHEPS_SOURCE_DIR) / "experiments/configs";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.path().extension() != ".cpp") continue;
        const std::string text = text_of(entry.path());
        for (std::sregex_iterator found(text.begin(), text.end(), comparison), end; found != end; ++found) {
            ++compared[std::filesystem::relative(entry.path(), folder).string() + " " + (*found)[1].str()];
        }
    }
    for (const Threshold& at : thresholds) ++tested[std::string(at.file) + " " + at.version];
    CHECK(compared.size() >= 16);
    for (const auto& [place, count] : compared) {
        CAPTURE(place);
        CHECK(tested[place] == count);
    }
    for (const auto& [place, count] : tested) {
        CAPTURE(place);
        CHECK(compared.contains(place));
    }
}

namespace {

/// A key whose range of releases the lists of keys do not show, because the importer has rows for its whole section, or
/// a key that DeepSpeed refuses since it was removed. The import with the older release says nothing about the key, or
/// says that it is ignored.
struct KeyThreshold {
    const char* before;
    const char* since;
    const char* framework;
    const char* config;
    Of of;
    const char* text;
};

constexpr KeyThreshold key_thresholds[] = {
    {"deepspeed=0.17.0", "deepspeed=0.17.1", "deepspeed", R"({"bf16": {"check_grad_overflow": true}})", Of::before,
     "which was added in 0.17.1"},
    {"deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", R"({"torch_autocast": {"enabled": true}})", Of::before,
     "which was added in 0.17.2"},
    {"deepspeed=0.18.2", "deepspeed=0.18.3", "deepspeed", R"({"bf16": {"bf16_master_weights_and_grads": true}})",
     Of::before, "which was added in 0.18.3, and refuses the config"},
    {"deepspeed=0.18.2", "deepspeed=0.18.3", "deepspeed", R"({"bf16": {"bf16_optimizer_states": true}})", Of::before,
     "which was added in 0.18.3, and refuses the config"},
    {"deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed",
     R"({"bf16": {"enabled": true}, "data_types": {"param_dtype": "fp32"}})", Of::since, "E deepspeed/parameter-dtype"},
    {"axolotl=0.18.0", "axolotl=0.19.0", "axolotl", "base_model: a\nfp8_config: {recipe: rowwise}", Of::since,
     "E axolotl/fp8-config-without-fp8"},
    {"deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed", R"({"data_types": {"param_dtype": "fp32"}})", Of::before,
     "which was added in 0.19.2"},
    {"deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed", R"({"data_types": {"buffer_dtype": "fp32"}})", Of::before,
     "which was added in 0.19.2"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"data_types": {"keep_in_fp32_modules": []}})", Of::before,
     "which was added in 0.19.8"},
    {"deepspeed=0.16.4", "deepspeed=0.16.5", "deepspeed", R"({"seq_parallel_comm_data_type": "fp32"})", Of::since,
     "which was removed in 0.16.5, and ignores it"},
    {"deepspeed=0.17.0", "deepspeed=0.17.1", "deepspeed", R"({"fp16": {"unheard_of": 1}})", Of::since,
     "does not know `fp16.unheard_of`, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"amp": {"enabled": true}})", Of::since,
     "does not know `amp`, which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", R"({"compression_training": {}})", Of::since,
     "which was removed in 0.19.7, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"curriculum_learning": {}})", Of::since,
     "which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"eigenvalue": {}})", Of::since,
     "which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"elasticity": {}})", Of::since,
     "which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"graph_harvesting": true})", Of::since,
     "which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", R"({"nebula": {}})", Of::since,
     "which was removed in 0.19.7, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"progressive_layer_drop": {}})", Of::since,
     "which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", R"({"quantize_training": {}})", Of::since,
     "which was removed in 0.19.7, and refuses the config"},
    {"deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", R"({"sparse_attention": {}})", Of::since,
     "which was removed in 0.19.7, and refuses the config"},
    {"deepspeed=0.19.7", "deepspeed=0.19.8", "deepspeed", R"({"sparse_gradients": true})", Of::since,
     "which was removed in 0.19.8, and refuses the config"},
    {"deepspeed=0.19.6", "deepspeed=0.19.7", "deepspeed", R"({"zero_optimization": {"mics_shard_size": 1}})", Of::since,
     "which was removed in 0.19.7, and refuses the config"},
    {"deepspeed=0.19.2", "deepspeed=0.19.3", "deepspeed", R"({"train_batch_size": 1})", Of::since,
     "field clip torch max=1"},
    {"deepspeed=0.19.2", "deepspeed=0.19.3", "deepspeed",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::before,
     "W deepspeed/nan-reaches-weights"},
    {"accelerate=1.12.0", "accelerate=1.13.0", "accelerate",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: fp8\nfp8_config: {backend: AO}", Of::since,
     "field fp8 ao_tensorwise pad_inner_dim=true"},
    {"transformers=4.53.3", "transformers=4.54.0", "transformers", "bf16: true", Of::since, "field opt_kernel fused"},
    {"transformers=5.22.2", "transformers=5.23.0", "transformers", "bf16: true\nactivation_checkpointing: true",
     Of::since, "field ckpt true"},
    {"axolotl=0.18.0", "axolotl=0.19.0", "axolotl", "base_model: a\nfp8: true\nfp8_config: {recipe: rowwise}",
     Of::since, "field fp8 ao_rowwise "},
    {"torch=2.8.0", "torch=2.9.0", "torch", "fp32_precision: tf32", Of::before,
     "PyTorch 2.8 does not know `fp32_precision`, which was added in 2.9"},
};

/// Returns the release with which the list of a framework begins: "# Keys of NAME 0.14.4 to 0.19.8 (43 releases), ...".
std::string first_release(const std::string& list) {
    std::smatch found;
    std::regex_search(list, found, std::regex("^# Keys of [\\w-]+ ([\\w.]+)"));
    return found[1];
}

/// Returns whether a bound of a key's row is the bound that the list has. A row may leave out a bound that lies before
/// the first release of the list. A list of a framework without numbered releases begins with a tag or a revision.
bool same_bound(std::string_view row, std::string_view list, std::string_view first) {
    if (list.empty()) {
        const bool is_number = first[0] >= '0' && first[0] <= '9';
        return row.empty() || (is_number && parse_version(row) <= parse_version(first));
    }
    return !row.empty() && parse_version(row) == parse_version(list);
}

}  // namespace

TEST_CASE("a key, its default and the refusal of a removed key change at the release that the tables name",
          "[import][versions]") {
    for (const KeyThreshold& at : key_thresholds) {
        const Threshold import{"", "", at.before, at.since, at.framework, h100, "fp32", at.config, at.of, at.text};
        const std::string before = lines_of(import, at.before), since = lines_of(import, at.since);
        CAPTURE(at.config, at.text, before, since);
        CHECK((before.find(at.text) != std::string::npos) == (at.of == Of::before));
        CHECK((since.find(at.text) != std::string::npos) == (at.of == Of::since));
    }
}

namespace {

/// A key whose row has no bound, although the list has one, and the reason.
struct UnlistedRelease {
    const char *framework, *path, *why;
};
constexpr UnlistedRelease unlisted[] = {
    {"trl", "dtype", "a rule of the importer reports it before 0.23, and names the key that these releases have"},
    {"trl", "torch_dtype",
     "a rule of the importer reports it from 0.27 on, and names the key that these releases have"},
    {"verl", "actor_rollout_ref.actor.fsdp_config.model_dtype",
     "the worker of 0.5 reads it, although no config file of 0.5 lists it (fsdp_workers.py 0.5.0:246)"},
};

bool is_unlisted(const Framework& framework, std::string_view path) {
    return std::any_of(std::begin(unlisted), std::end(unlisted),
                       [&](const UnlistedRelease& one) { return framework.name == one.framework && path == one.path; });
}

}  // namespace

TEST_CASE("the rows of keys have the ranges of releases that scripts/framework-keys found in the sources",
          "[import][versions]") {
    int compared = 0;
    for (const Framework* framework : frameworks()) {
        const std::string list(framework_key_text(framework->name));
        if (list.empty()) continue;
        const std::string first = first_release(list);
        REQUIRE_FALSE(first.empty());
        for (const KeyRow& row : framework->keys) {
            const std::optional<FrameworkKey> key = find_framework_key(list, row.path);
            if (!key || key->path != row.path) continue;
            CAPTURE(framework->name, row.path, row.since, row.until, key->since, key->until);
            const bool is_same = same_bound(row.since, key->since, first) && same_bound(row.until, key->until, first);
            CHECK(is_same == !is_unlisted(*framework, row.path));
            ++compared;
        }
    }
    CHECK(compared >= 150);
}

TEST_CASE("the list of keys of a framework begins and ends with the releases that its importer covers",
          "[import][versions]") {
    const std::regex header("^# Keys of \\w+ ([\\w.]+)(?: to ([\\w.]+))?");
    for (const char* name : {"accelerate", "deepspeed", "transformers"}) {
        const Framework* framework = find_framework(name);
        const std::string list(framework_key_text(name));
        std::smatch found;
        REQUIRE(std::regex_search(list, found, header));
        CAPTURE(name, found[1].str(), found[2].str());
        CHECK(parse_version(found[1].str()) == parse_version(framework->oldest));
        CHECK(parse_version(found[2].str()) == parse_version(framework->newest));
    }
}

}  // namespace import_thresholds_test
