// SPDX-License-Identifier: Apache-2.0
// Tests that every importer reports the traps that its framework has. Each cell of the table of traps and frameworks is
// a config with the trap, or the reason why the framework does not have it.
#include "tests/configs/import_case.hpp"

#include <set>

namespace traps_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

enum class Trap { reduce, buffers, masters, no_master, gradients, evaluation };
constexpr Trap all_traps[] = {Trap::reduce,    Trap::buffers,   Trap::masters,
                              Trap::no_master, Trap::gradients, Trap::evaluation};

struct Cell {
    Trap trap;
    const char* framework;
    const char* config;  ///< empty if the framework does not have the trap
    const char* rule;    ///< the rule that reports the trap, or the reason why there is none
    const char* versions = "";
    const char* checkpoint = "fp32";
    const char* cured = "";  ///< a config without the trap; empty if any config of the framework has it
};

constexpr const char* launcher =
    "compute_environment: LOCAL_MACHINE\nnum_processes: 2\ndistributed_type: FSDP\nmixed_precision: bf16\n";
constexpr const char* unscaled =
    "compute_environment: LOCAL_MACHINE\nnum_processes: 2\ndistributed_type: FSDP\nmixed_precision: fp16\n"
    "fsdp_config: {fsdp_version: 2}";
constexpr const char* llama = "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\n";

// clang-format off
const Cell cells[] = {
    // Gradients are summed between ranks in a low format.
    {Trap::reduce, "transformers", "bf16: true\nfsdp: full_shard", "transformers/fsdp-low-reduce", "", "fp32", "bf16: true"},
    {Trap::reduce, "accelerate", launcher, "accelerate/fsdp-low-reduce", "", "fp32", "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16"},
    {Trap::reduce, "accelerate", "distributed_type: MULTI_GPU\nmixed_precision: bf16\nkwargs_handlers: {DistributedDataParallelKwargs: {comm_hook: bf16}}", "accelerate/low-reduce"},
    {Trap::reduce, "deepspeed", R"({"bf16": {"enabled": true}})", "deepspeed/low-reduce", "", "fp32", R"({"bf16": {"enabled": true}, "communication_data_type": "fp32"})"},
    {Trap::reduce, "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\npure_bf16: true", "llamafactory/low-reduce", "", "bf16", llama},
    {Trap::reduce, "axolotl", "base_model: a\nbf16: true\nfsdp_version: 2\nfsdp_config: {state_dict_type: FULL_STATE_DICT}", "axolotl/fsdp-low-reduce", "", "fp32", "base_model: a\nbf16: false"},
    {Trap::reduce, "longspec", "ds_cfg: {bf16: {enabled: true}}", "longspec/low-reduce", "", "fp32", "ds_cfg: {bf16: {enabled: true}, communication_data_type: fp32}"},
    {Trap::reduce, "torch", "{fsdp: {param_dtype: bfloat16, reduce_dtype: bfloat16}}", "torch/fsdp-low-reduce", "", "fp32", "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32}}"},
    {Trap::reduce, "torch", "{comm_hook: bf16}", "torch/low-hook", "", "fp32", "{comm_hook: none}"},
    {Trap::reduce, "apex", "{opt_level: O2}", "apex/low-reduce", "", "fp32", "{opt_level: O1}"},
    {Trap::reduce, "megatron", "{bf16: true, grad-reduce-in-bf16: true}", "megatron/low-reduce", "", "fp32", "{bf16: true}"},
    {Trap::reduce, "nanogpt", "", "weights and gradients are always fp32"},
    {Trap::reduce, "lightning", "trainer: {precision: bf16-mixed, strategy: fsdp}", "lightning/fsdp-low-reduce", "", "fp32", "trainer: {precision: bf16-mixed}"},
    {Trap::reduce, "composer", "max_duration: 1ba\nprecision: amp_bf16\nfsdp_config: {mixed_precision: PURE}", "composer/fsdp-low-reduce", "", "fp32", "max_duration: 1ba\nprecision: amp_bf16\nfsdp_config: {mixed_precision: DEFAULT}"},
    {Trap::reduce, "torchtitan", "model: {flavor: 8B}\ntraining: {dtype: bfloat16}\nparallelism: {data_parallel_shard_degree: 1}", "torchtitan/low-reduce", "", "fp32", "model: {flavor: 8B}\ntraining: {dtype: bfloat16}"},
    {Trap::reduce, "kohya", "pretrained_model_name_or_path: m\nmax_train_steps: 10\nmixed_precision: bf16\nfull_bf16: true", "kohya/low-reduce", "", "fp32", "pretrained_model_name_or_path: m\nmax_train_steps: 10\nmixed_precision: bf16"},
    {Trap::reduce, "trl", "model_name_or_path: m\ndataset_name: d\ndtype: bfloat16", "trl/low-reduce", "", "fp32", "model_name_or_path: m\ndataset_name: d\ndtype: float32"},
    {Trap::reduce, "verl", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {mixed_precision: {reduce_dtype: bf16}}}}}", "verl/fsdp-low-reduce", "", "fp32", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {mixed_precision: {reduce_dtype: fp32}}}}}"},
    {Trap::reduce, "torchtune", "model: {_component_: torchtune.models.llama3.llama3_8b}\ndtype: bf16", "torchtune/low-reduce", "", "fp32", "model: {_component_: torchtune.models.llama3.llama3_8b}\ndtype: fp32"},
    {Trap::reduce, "gpt-neox", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization: {stage: 1}\nprecision: bfloat16", "gpt-neox/low-reduce", "", "fp32", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization: {stage: 1}\nprecision: bfloat16\ndata_types: {grad_accum_dtype: fp32}"},
    // Buffers, such as the frequencies of rotary embeddings, have a low format.
    {Trap::buffers, "transformers", "bf16: true\nfsdp: full_shard\nfsdp_config: {version: 1}", "transformers/low-buffers", "", "fp32", "bf16: true\nfsdp: full_shard\nfsdp_config: {version: 2}"},
    {Trap::buffers, "accelerate", launcher, "accelerate/low-buffers", "", "fp32", unscaled},
    {Trap::buffers, "deepspeed", R"({"bf16": {"enabled": true}})", "deepspeed/buffers-cast", "deepspeed=0.19.1"},
    {Trap::buffers, "deepspeed", R"({"bf16": {"enabled": true}, "data_types": {"buffer_dtype": "bf16"}})", "deepspeed/low-buffers", "", "fp32", R"({"bf16": {"enabled": true}})"},
    {Trap::buffers, "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\nfsdp: full_shard\nfsdp_config: {version: 1}", "llamafactory/low-buffers", "", "fp32", llama},
    {Trap::buffers, "axolotl", "base_model: a\nbf16: true\nfsdp: [full_shard]", "axolotl/low-buffers", "", "fp32", "base_model: a\nbf16: true"},
    {Trap::buffers, "longspec", "ds_cfg: {bf16: {enabled: true}}", "deepspeed/buffers-cast", "deepspeed=0.19.1"},
    {Trap::buffers, "torch", "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: bfloat16}}", "torch/buffers-cast", "", "fp32", "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32}}"},
    {Trap::buffers, "torch", "{model_dtype: bfloat16}", "torch/low-buffers", "", "fp32", "{autocast: {dtype: bfloat16}}"},
    {Trap::buffers, "apex", "{opt_level: O2}", "apex/low-buffers", "", "fp32", "{opt_level: O1}"},
    {Trap::buffers, "megatron", "", "rotary frequencies are no buffers of the model, so the cast of the model leaves them in fp32"},
    {Trap::buffers, "nanogpt", "", "the model is never cast"},
    {Trap::buffers, "lightning", "trainer: {precision: bf16-mixed, strategy: fsdp}", "lightning/buffers-cast", "", "fp32", "trainer: {precision: bf16-mixed}"},
    {Trap::buffers, "composer", "max_duration: 1ba\nprecision: amp_bf16\nfsdp_config: {mixed_precision: DEFAULT}", "composer/buffers-cast", "", "fp32", "max_duration: 1ba\nprecision: amp_bf16\nfsdp_config: {mixed_precision: FULL}"},
    {Trap::buffers, "torchtitan", "", "the rotary frequencies are complex numbers of fp32 parts, which no cast changes"},
    {Trap::buffers, "kohya", "pretrained_model_name_or_path: m\nmax_train_steps: 10\nmixed_precision: bf16\nfull_bf16: true", "kohya/buffers-cast", "", "fp32", "pretrained_model_name_or_path: m\nmax_train_steps: 10\nmixed_precision: bf16"},
    {Trap::buffers, "trl", "model_name_or_path: m\ndataset_name: d\nbf16: true\nfsdp: full_shard\nfsdp_config: {version: 1}", "trl/low-buffers", "", "fp32", "model_name_or_path: m\ndataset_name: d\nbf16: true\nfsdp: full_shard\nfsdp_config: {version: 2}"},
    {Trap::buffers, "verl", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {mixed_precision: {buffer_dtype: bf16}}}}}", "verl/buffers-cast", "", "fp32", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {mixed_precision: {buffer_dtype: fp32}}}}}"},
    {Trap::buffers, "torchtune", "", "the rotary angles are computed in fp32"},
    {Trap::buffers, "gpt-neox", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization: {stage: 1}\nprecision: bfloat16", "deepspeed/buffers-cast", "", "fp32", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization: {stage: 1}\nprecision: fp32"},
    // Master weights have a low format.
    {Trap::masters, "deepspeed", R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1}})", "deepspeed/low-masters", "", "fp32", R"({"bf16": {"enabled": true}})"},
    {Trap::masters, "longspec", "ds_cfg: {bf16: {enabled: true, bf16_master_weights_and_grads: true}, zero_optimization: {stage: 1}}", "deepspeed/low-masters"},
    {Trap::masters, "megatron", "{bf16: true, use-precision-aware-optimizer: true, main-params-dtype: fp16}", "megatron/low-masters", "", "fp32", "{bf16: true}"},
    {Trap::masters, "transformers", R"({"bf16": true, "deepspeed": {"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1}}})", "deepspeed/low-masters"},
    {Trap::masters, "accelerate", "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: {bf16: {enabled: true, bf16_master_weights_and_grads: true}, zero_optimization: {stage: 1}}}", "deepspeed/low-masters"},
    {Trap::masters, "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\ndeepspeed: {bf16: {enabled: true, bf16_master_weights_and_grads: true}, zero_optimization: {stage: 1}}", "deepspeed/low-masters"},
    {Trap::masters, "axolotl", "base_model: a\nbf16: true\ndeepspeed: {bf16: {enabled: true, bf16_master_weights_and_grads: true}, zero_optimization: {stage: 1}}", "deepspeed/low-masters"},
    {Trap::masters, "torch", "", "PyTorch keeps no separate master weights"},
    {Trap::masters, "apex", "", "master weights are fp32 whenever they exist"},
    {Trap::masters, "nanogpt", "", "weights are always fp32"},
    {Trap::masters, "lightning", "trainer: {precision: bf16-mixed, strategy: {class_path: DeepSpeedStrategy, init_args: {config: {bf16: {enabled: true, bf16_master_weights_and_grads: true}, zero_optimization: {stage: 1}}}}}", "deepspeed/low-masters"},
    {Trap::masters, "composer", "", "Composer keeps no separate master weights"},
    {Trap::masters, "torchtitan", "", "torchtitan keeps no separate master weights"},
    {Trap::masters, "kohya", "", "the scripts keep no separate master weights"},
    {Trap::masters, "trl", "model_name_or_path: m\ndataset_name: d\nbf16: true\ndeepspeed: {bf16: {enabled: true, bf16_master_weights_and_grads: true}, zero_optimization: {stage: 1}}", "deepspeed/low-masters"},
    {Trap::masters, "verl", "", "the FSDP engine keeps no separate master weights"},
    {Trap::masters, "torchtune", "", "torchtune keeps no separate master weights"},
    {Trap::masters, "gpt-neox", "", "it runs a fork of DeepSpeed 0.16.5, whose master weights are always fp32"},
    // There are no master weights, and the weights have a low format.
    {Trap::no_master, "transformers", "bf16: true", "transformers/no-master", "", "bf16", "bf16: true\nfsdp: full_shard"},
    {Trap::no_master, "accelerate", "distributed_type: FSDP\nnum_processes: 2\nmixed_precision: bf16\nfsdp_config: {fsdp_version: 2}", "accelerate/acc-fsdp2-upcast-noop", "accelerate=1.13.0", "bf16", launcher},
    {Trap::no_master, "deepspeed", "", "the engine always makes master weights for fp16 and bf16"},
    {Trap::no_master, "longspec", "", "DeepSpeed's engine always makes master weights for fp16 and bf16"},
    {Trap::no_master, "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\npure_bf16: true", "llamafactory/no-master", "", "bf16", llama},
    {Trap::no_master, "axolotl", "base_model: a\nbf16: true", "axolotl/no-master", "", "fp32", "base_model: a\nbf16: false"},
    {Trap::no_master, "axolotl", "base_model: a\nbf16: true\nfsdp_version: 2\nfsdp_config: {state_dict_type: FULL_STATE_DICT}", "axolotl/fsdp-no-master", "", "fp32", "base_model: a\nbf16: true\nfsdp: [full_shard]"},
    {Trap::no_master, "torch", "{model_dtype: bfloat16}", "torch/no-master", "", "fp32", "{autocast: {dtype: bfloat16}}"},
    {Trap::no_master, "apex", "{opt_level: O3}", "apex/no-masters", "", "fp32", "{opt_level: O2}"},
    {Trap::no_master, "megatron", "", "master weights always exist with --fp16 and --bf16"},
    {Trap::no_master, "nanogpt", "", "weights are always fp32"},
    {Trap::no_master, "lightning", "trainer: {precision: bf16-true}", "lightning/no-master", "", "fp32", "trainer: {precision: bf16-mixed}"},
    {Trap::no_master, "composer", "max_duration: 1ba\nprecision: amp_bf16\nmodel: {master_weights_dtype: bf16}", "composer/no-master", "", "fp32", "max_duration: 1ba\nprecision: amp_bf16"},
    {Trap::no_master, "torchtitan", "model: {flavor: 8B}\ntraining: {dtype: bfloat16}", "torchtitan/no-master", "", "fp32", "model: {flavor: 8B}\ntraining: {dtype: float32}"},
    {Trap::no_master, "kohya", "pretrained_model_name_or_path: m\nmax_train_steps: 10\nmixed_precision: bf16\nfull_bf16: true", "kohya/no-master", "", "fp32", "pretrained_model_name_or_path: m\nmax_train_steps: 10\nmixed_precision: bf16"},
    {Trap::no_master, "trl", "model_name_or_path: m\ndataset_name: d\ndtype: bfloat16", "trl/no-master", "", "fp32", "model_name_or_path: m\ndataset_name: d\ndtype: float32"},
    {Trap::no_master, "verl", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {model_dtype: bf16}}}}", "verl/no-master", "", "fp32", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {model_dtype: fp32}}}}"},
    {Trap::no_master, "torchtune", "model: {_component_: torchtune.models.llama3.llama3_8b}\ndtype: bf16", "torchtune/no-master", "", "fp32", "model: {_component_: torchtune.models.llama3.llama3_8b}\ndtype: fp32"},
    {Trap::no_master, "gpt-neox", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization: {stage: 1}\nprecision: bfloat16\nbf16: {enabled: false}", "gpt-neox/bf16-section-off", "", "fp32", "num_layers: 2\ntrain_micro_batch_size_per_gpu: 4\nzero_optimization: {stage: 1}\nprecision: bfloat16"},
    // GradScaler gets gradients in a low format.
    {Trap::gradients, "transformers", "fp16: true", "transformers/low-weights-under-scaler", "", "fp16", "fp16: true\nfsdp: full_shard"},
    {Trap::gradients, "accelerate", unscaled, "accelerate/low-gradients-under-scaler", "accelerate=1.13.0", "fp16", launcher},
    {Trap::gradients, "deepspeed", "", "its own wrappers unscale fp32 copies of the gradients"},
    {Trap::gradients, "longspec", "", "DeepSpeed's own wrappers unscale fp32 copies of the gradients"},
    {Trap::gradients, "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\npure_bf16: true\nfp16: true", "llamafactory/low-gradients-under-scaler", "", "fp16", llama},
    {Trap::gradients, "axolotl", "base_model: a\nfp16: true\nbf16: false", "axolotl/unscale-low-gradients", "", "fp32", "base_model: a\nbf16: true"},
    {Trap::gradients, "torch", "{model_dtype: float16, grad_scaler: {}}", "torch/fp16-gradients", "", "fp32", "{autocast: {dtype: float16}, grad_scaler: {}}"},
    {Trap::gradients, "apex", "", "amp.scale_loss unscales the gradients itself, also in fp16"},
    {Trap::gradients, "megatron", "", "its own scaler unscales the main gradients"},
    {Trap::gradients, "nanogpt", "", "gradients are always fp32"},
    {Trap::gradients, "lightning", "", "only 16-mixed has a scaler, and it keeps fp32 weights; the scaler of FSDP accepts fp16 gradients"},
    {Trap::gradients, "composer", "max_duration: 1ba\nprecision: amp_fp16\nmodel: {master_weights_dtype: fp16}", "composer/low-weights-under-scaler", "", "fp32", "max_duration: 1ba\nprecision: amp_fp16"},
    {Trap::gradients, "composer", "max_duration: 1ba\nprecision: amp_fp16\nmodel: {master_weights_dtype: bf16}\nfsdp_config: {mixed_precision: PURE}", "composer/low-gradients-under-scaler", "", "fp32", "max_duration: 1ba\nprecision: amp_fp16\nmodel: {master_weights_dtype: fp16}\nfsdp_config: {mixed_precision: PURE}"},
    {Trap::gradients, "torchtitan", "", "there is no loss scaler"},
    {Trap::gradients, "kohya", "", "the scripts replace the check of GradScaler, so that it unscales fp16 gradients"},
    {Trap::gradients, "trl", "model_name_or_path: m\ndataset_name: d\nfp16: true\ndtype: float16", "trl/low-weights-under-scaler", "", "fp32", "model_name_or_path: m\ndataset_name: d\nfp16: true\ndtype: float32"},
    {Trap::gradients, "verl", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {model_dtype: bf16, mixed_precision: {param_dtype: fp16}}}}}", "verl/low-gradients-under-scaler", "", "fp32", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {model_dtype: fp32, mixed_precision: {param_dtype: fp16}}}}}"},
    {Trap::gradients, "torchtune", "", "there is no loss scaler"},
    {Trap::gradients, "gpt-neox", "", "DeepSpeed's own wrappers unscale fp32 copies of the gradients"},
    // Evaluation casts the model, and with it the buffers, to a low format.
    {Trap::evaluation, "transformers", "bf16_full_eval: true", "transformers/full-eval-buffers", "", "fp32", "bf16: true"},
    {Trap::evaluation, "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfp16_full_eval: true", "transformers/full-eval-buffers", "", "fp32", llama},
    {Trap::evaluation, "axolotl", "base_model: a\nbf16: full", "axolotl/bf16-full-is-eval", "axolotl=0.4.1"},
    {Trap::evaluation, "accelerate", "", "the program evaluates the prepared model as it is"},
    {Trap::evaluation, "deepspeed", "", "the engine evaluates the model as it is"},
    {Trap::evaluation, "longspec", "", "evaluation uses autocast, which casts no buffers"},
    {Trap::evaluation, "torch", "", "only the program can cast the model"},
    {Trap::evaluation, "apex", "", "Apex has no evaluation"},
    {Trap::evaluation, "megatron", "", "evaluation uses the trained model as it is"},
    {Trap::evaluation, "nanogpt", "", "evaluation uses the trained model under the same autocast"},
    {Trap::evaluation, "lightning", "", "evaluation uses the trained model with the same precision"},
    {Trap::evaluation, "composer", "", "evaluation uses the trained model with the same precision"},
    {Trap::evaluation, "torchtitan", "", "validation uses the trained model as it is"},
    {Trap::evaluation, "kohya", "", "the scripts make samples with the trained model as it is"},
    {Trap::evaluation, "trl", "model_name_or_path: m\ndataset_name: d\nbf16_full_eval: true", "transformers/full-eval-buffers", "", "fp32", "model_name_or_path: m\ndataset_name: d\n"},
    {Trap::evaluation, "verl", "", "the rollout engine evaluates a copy of the weights in its own format"},
    {Trap::evaluation, "torchtune", "", "evaluation uses the trained model as it is"},
    {Trap::evaluation, "gpt-neox", "", "the engine evaluates the model as it is"},
};
// clang-format on

/// Returns the rule of traps.cpp that reports a trap if the importer has no such rule.
std::string shared_rule(const Cell& cell) {
    constexpr const char* rules[] = {
        "low-reduce", "low-buffers", "low-masters", "no-master", "low-gradients-under-scaler", "full-eval-buffers"};
    return fmt::format("{}/{}", cell.framework, rules[static_cast<std::size_t>(cell.trap)]);
}

std::string said_of(const ImportResult& result) {
    std::string said;
    for (const Finding& finding : result.findings)
        said += fmt::format("{} {}: {}\n", static_cast<char>(finding.code), finding.rule, finding.message);
    return said;
}

}  // namespace

TEST_CASE("an importer reports each trap that its framework has, and does not report it without the trap",
          "[import][traps]") {
    for (const Cell& cell : cells) {
        if (*cell.config == '\0') continue;
        const Told told{.framework = cell.framework, .versions = cell.versions, .checkpoint = cell.checkpoint};
        const ImportResult result = import_text(cell.config, told);
        const std::string said = said_of(result);
        CAPTURE(static_cast<int>(cell.trap), cell.framework, cell.config, cell.rule, said);
        CHECK(find_rule(result, cell.rule) != nullptr);
        if (shared_rule(cell) != cell.rule) CHECK(find_rule(result, shared_rule(cell)) == nullptr);
        if (*cell.cured == '\0') continue;
        const ImportResult cured = import_text(cell.cured, told);
        const std::string said_then = said_of(cured);
        CAPTURE(cell.cured, said_then);
        CHECK(find_rule(cured, cell.rule) == nullptr);
    }
}

TEST_CASE("the table of traps has a cell for each trap and each framework", "[import][traps]") {
    std::set<std::pair<Trap, std::string>> known;
    for (const Cell& cell : cells) known.emplace(cell.trap, cell.framework);
    for (const Framework* framework : frameworks()) {
        for (const Trap trap : all_traps) {
            CAPTURE(framework->name, static_cast<int>(trap));
            CHECK(known.contains({trap, std::string(framework->name)}));
        }
    }
}

TEST_CASE("a trap is reported once, either by the rule of the importer or by the shared rule", "[import][traps]") {
    const ImportResult own = import_text("{fsdp: {param_dtype: bfloat16, buffer_dtype: bfloat16}}",
                                         {.framework = "torch", .versions = "torch=2.9.1"});
    CHECK(find_rule(own, "torch/buffers-cast") != nullptr);
    CHECK(find_rule(own, "torch/low-buffers") == nullptr);
    CHECK(find_rule(own, "torch/fsdp-low-reduce") != nullptr);
    CHECK(find_rule(own, "torch/low-reduce") == nullptr);
}

TEST_CASE("a dynamic loss scale that starts above 2^20 is reported once", "[import][traps]") {
    struct Row {
        const char *framework, *config, *rule;
        int count;
        const char* why;
    };
    const Row rows[] = {
        {"torch", "{autocast: {dtype: float16}, grad_scaler: {init_scale: 4294967296}}", "large-initial-scale", 1,
         "2^32"},
        {"torch", "{autocast: {dtype: float16}, grad_scaler: {init_scale: 1048576}}", "large-initial-scale", 0, "2^20"},
        {"torch", "{autocast: {dtype: float16}, grad_scaler: {}}", "large-initial-scale", 0, "the default"},
        {"accelerate", "mixed_precision: fp16\nkwargs_handlers: {GradScalerKwargs: {init_scale: 16777216}}",
         "large-initial-scale", 1, "2^24"},
        {"accelerate", "distributed_type: MEGATRON_LM\nmixed_precision: fp16\nmegatron_lm_config: {}",
         "large-initial-scale", 1, "Megatron's default of 2^32"},
        {"megatron", "{fp16: true}", "large-initial-scale", 0, "another rule reports it"},
        {"megatron", "{fp16: true}", "long-overflow-cascade", 1, "another rule reports it"},
        {"megatron", "{fp16: true, initial-loss-scale: 4194304}", "large-initial-scale", 1, "2^22"},
        {"megatron", "{fp16: true, loss-scale: 4194304}", "large-initial-scale", 0, "a static scale"},
    };
    for (const Row& row : rows) {
        const ImportResult result = import_text(row.config, {.framework = row.framework});
        CAPTURE(row.why, row.config, said_of(result));
        CHECK(std::count_if(result.findings.begin(), result.findings.end(), [&](const Finding& finding) {
                  return finding.rule == fmt::format("{}/{}", row.framework, row.rule);
              }) == row.count);
    }
}

}  // namespace traps_test
