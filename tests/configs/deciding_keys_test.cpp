// SPDX-License-Identifier: Apache-2.0
// Tests that no key that decides a number is ignored in silence because of another key. For every pair of such keys of
// an importer, a key that has an effect alone must also have an effect next to the other key: it changes a field or a
// finding, or a table below gives the reason why the other key takes its effect away.
#include "tests/configs/import_case.hpp"

#include <fmt/ranges.h>

#include <map>
#include <set>
#include <sstream>

namespace deciding_keys_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

/// Values, separated by spaces, of a key whose type does not determine its values.
struct Sample {
    std::string_view framework, key, values;
};
constexpr Sample samples[] = {
    {"accelerate", "compute_environment", "AMAZON_SAGEMAKER"},
    {"accelerate", "kwargs_handlers.AORecipeKwargs", "{a: 1}"},
    {"accelerate", "kwargs_handlers.FP8RecipeKwargs", "{a: 1}"},
    {"accelerate", "kwargs_handlers.MSAMPRecipeKwargs", "{a: 1}"},
    {"accelerate", "kwargs_handlers.TERecipeKwargs", "{a: 1}"},
    {"axolotl", "fp32_norm_classes", "[RMSNorm]"},
    {"axolotl", "plugins", "[a]"},
    {"deepspeed", "bf16.enabled", "true false"},
    {"deepspeed", "fp16.enabled", "true false"},
    {"deepspeed", "amp.enabled", "true false"},
    {"deepspeed", "torch_autocast.enabled", "true false"},
    {"llamafactory", "do_train", "true false"},
    {"accelerate", "distributed_type", "FSDP DEEPSPEED MULTI_CPU"},
    {"accelerate", "downcast_bf16", "yes"},
    {"accelerate", "dynamo_backend", "inductor"},
    {"accelerate", "dynamo_config.dynamo_backend", "inductor"},
    {"accelerate", "fp8_config.backend", "TE AO MSAMP"},
    {"accelerate", "fp8_config.fp8_format", "E4M3"},
    {"accelerate", "fp8_config.opt_level", "O1"},
    {"accelerate", "mixed_precision", "fp16 bf16 fp8"},
    {"accelerate", "deepspeed_config.zero_stage", "0 1 3"},
    {"accelerate", "fsdp_config.fsdp_version", "1 2"},
    {"accelerate", "fp8_config.override_linear_precision", "[true,false,false]"},
    {"accelerate", "deepspeed_config.offload_optimizer_device", "cpu"},
    {"apex", "opt_level", "O0 O2 O3"},
    {"apex", "loss_scale", "128.0"},
    {"axolotl", "adapter", "lora qlora"},
    {"axolotl", "attn_implementation", "flash_attention_2 sdpa"},
    {"axolotl", "bf16", "true false"},
    {"axolotl", "bnb_config_kwargs.bnb_4bit_quant_type", "fp4"},
    {"axolotl", "deepspeed", "{zero_optimization: {stage: 2}, bf16: {enabled: auto}}"},
    {"axolotl", "dsv4_fp4_grouped_mode", "a"},
    {"axolotl", "dsv4_fp8_nonexpert_mode", "a"},
    {"axolotl", "fsdp", "[full_shard]"},
    {"axolotl", "fsdp_version", "2"},
    {"axolotl", "gradient_checkpointing", "true"},
    {"axolotl", "lora_modules_to_save", "[embed_tokens]"},
    {"axolotl", "model_quantization_config", "Mxfp4Config"},
    {"axolotl", "optim_args", "a=1"},
    {"axolotl", "optimizer", "adamw_torch adamw_8bit sgd"},
    {"axolotl", "qat", "{weight_dtype: int4}"},
    {"axolotl", "rl", "dpo"},
    {"axolotl", "tf32", "true false"},
    {"axolotl", "torch_compile", "true"},
    {"deepspeed", "amp.opt_level", "O2"},
    {"deepspeed", "communication_data_type", "fp32 bf16"},
    {"deepspeed", "data_types.buffer_dtype", "fp16"},
    {"deepspeed", "data_types.grad_accum_dtype", "fp32 bf16"},
    {"deepspeed", "data_types.param_dtype", "fp16"},
    {"deepspeed", "optimizer.type", "Adam SGD OneBitAdam"},
    {"deepspeed", "seq_parallel_communication_data_type", "bf16"},
    {"deepspeed", "torch_autocast.dtype", "float16 bfloat16"},
    {"deepspeed", "torch_autocast.lower_precision_safe_modules", "[torch.nn.Linear]"},
    {"deepspeed", "zero_optimization.stage", "0 1 2 3"},
    {"deepspeed", "zero_optimization.offload_optimizer", "{device: cpu}"},
    {"llamafactory", "badam_mode", "ratio"},
    {"llamafactory", "additional_target", "embed_tokens"},
    {"llamafactory", "adapter_name_or_path", "a,b"},
    {"llamafactory", "finetuning_type", "full freeze"},
    {"llamafactory", "flash_attn", "fa2"},
    {"llamafactory", "pref_loss", "orpo"},
    {"llamafactory", "quantization_bit", "4 8"},
    {"llamafactory", "quantization_device_map", "auto"},
    {"llamafactory", "quantization_method", "hqq"},
    {"megatron", "fp4-format", "e2m1"},
    {"megatron", "optimizer", "sgd"},
    {"nanogpt", "device", "cpu"},
    {"torch", "fsdp._module_classes_to_ignore", "[torch.nn.LayerNorm]"},
    {"torch", "apex", "{opt_level: O1}"},
    {"torch", "fsdp.version", "1 2"},
    {"torch", "autocast.device_type", "cpu"},
    {"transformers", "deepspeed", "{zero_optimization: {stage: 2}, bf16: {enabled: auto}}"},
    {"transformers", "dtype", "bfloat16 float16 float32"},
    {"transformers", "fsdp", "full_shard"},
    {"transformers", "fsdp_config", "{version: 1}"},
    {"transformers", "optim", "adamw_torch adamw_8bit sgd"},
    {"transformers", "optim_args", "a=1"},
    {"transformers", "torch_compile_backend", "inductor"},
    {"transformers", "torch_compile_mode", "default"},
    {"transformers", "torch_dtype", "bfloat16 float16 float32"},
};

/// A config from which the test starts. The test sets only keys at the root and in `sections`, because a key would
/// otherwise have the effect that its section appears.
struct Base {
    std::string_view framework, text, sections;
};
constexpr Base bases[] = {
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp16\n"
     "dynamo_config: {}\nkwargs_handlers: {GradScalerKwargs: {}, DistributedDataParallelKwargs: {}}\n",
     "dynamo_config kwargs_handlers kwargs_handlers.GradScalerKwargs "
     "kwargs_handlers.DistributedDataParallelKwargs"},
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
     "fsdp_config: {fsdp_version: 2}\n",
     "fsdp_config"},
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: fp16\n"
     "deepspeed_config: {zero_stage: 2}\n",
     "deepspeed_config"},
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: MEGATRON_LM\nmixed_precision: bf16\n"
     "megatron_lm_config: {}\n",
     "megatron_lm_config"},
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp8\n"
     "fp8_config: {backend: TE}\n",
     "fp8_config"},
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: fp8\n"
     "fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false}\nfp8_config: {backend: AO}\n",
     "fp8_config"},
    {"axolotl", "base_model: a\n", ""},
    {"axolotl", "base_model: a\nadapter: qlora\nload_in_4bit: true\nsample_packing: true\nbnb_config_kwargs: {}\n",
     "bnb_config_kwargs"},
    {"axolotl", "base_model: a\nfp8: true\nfsdp_version: 2\nfp32_norms: true\nfsdp_config: {}\n", "fsdp_config"},
    {"deepspeed", "{}\n", ""},
    {"deepspeed", "bf16: {enabled: true}\nzero_optimization: {stage: 1}\ndata_types: {}\n",
     "bf16 zero_optimization data_types"},
    {"deepspeed", "fp16: {enabled: true}\nzero_optimization: {stage: 2}\noptimizer: {type: Adam, params: {}}\n",
     "fp16 zero_optimization optimizer optimizer.params"},
    {"deepspeed", "torch_autocast: {enabled: true}\nzero_optimization: {stage: 1}\n", "torch_autocast"},
    {"deepspeed", "amp: {enabled: true}\n", "amp"},
    {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\n", ""},
    {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nquantization_bit: 4\nbf16: true\n", ""},
    {"llamafactory",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\npure_bf16: true\noptim: "
     "adamw_torch\nuse_galore: true\n",
     ""},
    {"llamafactory",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\nbf16: true\nfp8: true\n", ""},
    {"megatron", "bf16: true\n", ""},
    {"megatron", "fp16: true\n", ""},
    {"megatron", "bf16: true\nfp8-format: hybrid\nfirst-last-layers-bf16: true\n", ""},
    {"megatron", "bf16: true\nfp4-format: e2m1\n", ""},
    {"megatron", "bf16: true\nuse-precision-aware-optimizer: true\nuse-distributed-optimizer: true\n", ""},
    {"nanogpt", "{}\n", ""},
    {"torch", "{}\n", ""},
    {"torch", "fsdp: {version: 2, param_dtype: bfloat16, reduce_dtype: float32}\n", "fsdp"},
    {"torch", "fsdp: {version: 1, param_dtype: bfloat16, reduce_dtype: float32}\n", "fsdp"},
    {"torch", "autocast: {dtype: float16}\ngrad_scaler: {}\n", "autocast grad_scaler"},
    {"transformers", "{}\n", ""},
    {"transformers", "fp16: true\n", ""},
    {"transformers", "bf16: true\nfsdp: full_shard\n", ""},
    {"transformers", "bf16: true\ndeepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: auto}}\n", ""},
};

/// A key whose effect ends, without a finding of its own, next to another key. If `beside` is empty: a key that has no
/// effect next to any key. `*` matches any text.
struct Exception {
    std::string_view framework, key, beside, reason;
};
constexpr Exception exceptions[] = {
    {"accelerate", "deepspeed_config.*", "distributed_type",
     "another way to train; the finding section-unread says so"},
    {"accelerate", "fsdp_config.*", "distributed_type", "another way to train; the finding section-unread says so"},
    {"accelerate", "megatron_lm_config.*", "distributed_type",
     "another way to train; the finding section-unread says so"},
    {"accelerate", "fp8_config.*", "mixed_precision", "no fp8; the finding fp8-unread says so"},
    {"accelerate", "fp8_config.*", "distributed_type", "the finding te-section-unread says so"},
    {"accelerate", "fp8_config.*", "fp8_config.*", "each backend and recipe reads its own keys"},
    {"accelerate", "deepspeed_config.zero_stage", "mixed_precision", "the stage decides the scaler, which bf16 lacks"},
    {"accelerate", "distributed_type", "use_cpu", "both select the CPU"},
    {"accelerate", "use_cpu", "distributed_type", "both select the CPU"},
    {"accelerate", "fsdp_config.fsdp_sync_module_states", "fsdp_config.fsdp_cpu_ram_efficient_loading",
     "an error only with it"},
    {"accelerate", "*dynamo_backend", "*dynamo_backend", "one finding reports both"},
    {"accelerate", "kwargs_handlers.GradScalerKwargs.*", "*", "there is no scaler of torch"},
    {"accelerate", "kwargs_handlers.DistributedDataParallelKwargs.comm_hook", "distributed_type", "a hook of DDP"},
    {"accelerate", "kwargs_handlers.*RecipeKwargs", "*", "a recipe of the program without fp8, or next to another one"},
    {"accelerate", "deepspeed_config.deepspeed_config_file", "", "names a file, which this test does not have"},
    {"accelerate", "deepspeed_config.offload_optimizer_device", "", "decides only the wrapper with ZeRO 0"},
    {"accelerate", "fp8_config.amax_compute_algo", "", "Transformer Engine gets its own default in any case"},
    {"accelerate", "fp8_config.interval", "", "Transformer Engine does not read it"},
    {"accelerate", "fp8_config.opt_level", "", "of MS-AMP, which is refused"},
    {"accelerate", "fp8_config.use_autocast_during_eval", "", "concerns evaluation"},
    {"accelerate", "fsdp_config.fsdp_cpu_ram_efficient_loading", "", "decides only what is refused"},
    {"accelerate", "compute_environment", "", "decides no number"},
    {"axolotl", "*attention*", "*attention*", "the first flag in Axolotl's order wins"},
    {"axolotl", "*attention*", "gemma4_hybrid_attn_impl", "the first flag in Axolotl's order wins"},
    {"axolotl", "attn_implementation", "gemma4_hybrid_attn_impl", "both name the same kernel"},
    {"axolotl", "gemma4_hybrid_attn_impl", "*attention*", "both name the same kernel"},
    {"axolotl", "gemma4_hybrid_attn_impl", "attn_implementation", "the newer key wins"},
    {"axolotl", "bf16", "bfloat16", "bfloat16 turns bf16 on; the finding bfloat16-is-amp says so"},
    {"axolotl", "float16", "bfloat16", "the finding bfloat16-is-amp says so"},
    {"axolotl", "float16", "fp16", "both load fp16"},
    {"axolotl", "float32", "*", "contradicts only bf16, which the other key replaces"},
    {"axolotl", "cut_cross_entropy", "*", "it only casts norms and embeddings, which other keys do as well"},
    {"axolotl", "flash_optimum", "bf16", "refused only with autocast"},
    {"axolotl", "use_ray", "bf16", "it decides only what auto means"},
    {"axolotl", "merge_lora", "adapter", "nothing is trained"},
    {"axolotl", "peft_autocast_adapter_dtype", "bf16", "the weights are fp32 in any case"},
    {"axolotl", "bnb_config_kwargs.bnb_4bit_quant_type", "adapter", "lora loads no 4-bit base"},
    {"axolotl", "model_quantization_config", "gptq", "the base is already quantised"},
    {"axolotl", "embeddings_skip_upcast", "", "embeddings are cast back to the loaded format in any case"},
    {"axolotl", "fp32_norm_classes", "", "the norms of the model are not known"},
    {"axolotl", "sample_packing", "", "decides only which attention kernels are warned about"},
    {"axolotl", "fp8_config.recipe", "", "not verified in a released package"},
    {"axolotl", "plugins", "", "only allows unknown adapters"},
    {"deepspeed", "communication_data_type", "data_types.grad_accum_dtype", "both select fp32"},
    {"deepspeed", "communication_data_type", "*.enabled", "everything is fp32"},
    {"deepspeed", "data_types.*", "bf16.enabled", "everything is fp32"},
    {"deepspeed", "bf16.*", "bf16.enabled", "the section is off"},
    {"deepspeed", "fp16.*", "fp16.enabled", "the section is off"},
    {"deepspeed", "torch_autocast.dtype", "torch_autocast.enabled", "autocast is off"},
    {"deepspeed", "fp16.*", "fp16.loss_scale", "a static scale does not move"},
    {"deepspeed", "zero_optimization.zero_quantized_*", "zero_optimization.zero_quantized_*",
     "one finding reports both"},
    {"deepspeed", "data_types.keep_in_fp32_modules", "", "the modules of the model are not known"},
    {"deepspeed", "fp16.auto_cast", "", "casts only inputs, which are tokens"},
    {"deepspeed", "bf16.immediate_grad_update", "", "changes the time of the sum, not the sum"},
    {"deepspeed", "data_types.param_dtype", "", "not verified in a released package"},
    {"deepspeed", "seq_parallel_communication_data_type", "", "there is no sequence parallelism"},
    {"deepspeed", "torch_autocast.lower_precision_safe_modules", "", "the module classes of the model are not known"},
    {"deepspeed", "zero_optimization.offload_optimizer.device", "", "set by its section in this test"},
    {"deepspeed", "zero_optimization.reduce_scatter", "", "decides only which other keys are refused"},
    {"deepspeed", "zero_optimization.zero_quantized_nontrainable_weights", "", "nothing is frozen"},
    {"llamafactory", "quantization_*", "quantization_*", "each method and width reads its own keys"},
    {"llamafactory", "use_*", "loraplus_lr_ratio", "the first key in LLaMA-Factory's order wins"},
    {"llamafactory", "use_*", "use_*", "the first key in LLaMA-Factory's order wins"},
    {"llamafactory", "*", "do_train", "nothing is trained"},
    {"llamafactory", "*_layerwise", "", "refused only on several ranks"},
    {"llamafactory", "badam_mode", "", "refused only on several ranks"},
    {"llamafactory", "create_new_adapter", "", "refused only with an adapter on a quantised base"},
    {"llamafactory", "double_quantization", "", "changes only bytes"},
    {"llamafactory", "galore_rank", "", "GaLore is not emulated"},
    {"llamafactory", "pref_loss", "", "decides only whether PiSSA is refused"},
    {"llamafactory", "use_reentrant_gc", "", "recomputes the same values"},
    {"megatron", "main-grads-dtype", "grad-reduce-in-bf16", "both select bf16"},
    {"megatron", "grad-reduce-in-bf16", "main-grads-dtype", "both select bf16"},
    {"megatron", "main-grads-dtype", "use-precision-aware-optimizer",
     "in fp16, accumulate-allreduce-grads-in-fp32 decides the format of gradients"},
    {"megatron", "*", "loss-scale", "a static scale does not move"},
    {"megatron", "recompute-*", "recompute-*", "both recompute"},
    {"megatron", "no-check-for-nan-in-loss-and-grad", "", "decides whether the program stops"},
    {"megatron", "output-logit-dtype", "", "the cross entropy widens the logits in any case"},
    {"nanogpt", "dtype", "device", "a CPU trains in fp32"},
    {"torch", "allow_tf32", "*", "nothing multiplies in fp32, or both ask for tf32"},
    {"torch", "fp32_precision", "*", "nothing multiplies in fp32, or both ask for tf32"},
    {"torch", "float32_matmul_precision", "*", "nothing multiplies in fp32, or both ask for tf32"},
    {"torch", "autocast.dtype", "autocast.enabled", "autocast is off"},
    {"torch", "grad_scaler.*", "grad_scaler.enabled", "there is no scaler"},
    {"torch", "fsdp.keep_low_precision_grads", "model_dtype", "gradients already have this format"},
    {"torch", "fsdp.output_dtype", "fsdp.*", "the logits already have this format, or FSDP 1 refuses the key"},
    {"torch", "fsdp.cast_root_forward_inputs", "fsdp.version", "the inputs are tokens"},
    {"torch", "fsdp.version", "fsdp.reduce_dtype", "both versions divide in two steps in fp16"},
    {"torch", "autocast.cache_enabled", "", "the cache returns the same casts"},
    {"torch", "cudnn_allow_tf32", "", "concerns convolutions"},
    {"torch", "fsdp.cast_*forward_inputs", "", "the inputs are tokens"},
    {"torch", "grad_scaler.device", "", "the scaler computes the same on every device"},
    {"transformers", "*dtype", "deepspeed", "DeepSpeed casts the model"},
    {"transformers", "*dtype", "fsdp", "Accelerate widens the shards to fp32"},
    {"transformers", "adam_*", "optim", "SGD does not have this constant"},
    {"transformers", "*_checkpointing", "*_checkpointing", "both recompute"},
    {"transformers", "torch_compile_*", "torch_compile_*", "each of them turns compilation on"},
    {"transformers", "logging_nan_inf_filter", "use_cpu", "reported only with mixed precision"},
    {"transformers", "tf32", "*", "nothing multiplies in fp32"},
    {"transformers", "per_device_train_batch_size", "", "decides only whether DeepSpeed's section agrees"},
};

bool matches(std::string_view pattern, std::string_view text) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return pattern == text;
    if (!text.starts_with(pattern.substr(0, star))) return false;
    pattern.remove_prefix(star + 1);
    for (std::size_t at = star; at <= text.size(); ++at) {
        if (matches(pattern, text.substr(at))) return true;
    }
    return false;
}

std::vector<std::string> words_of(std::string_view text) {
    if (text.starts_with("{") || text.starts_with("[")) return {std::string(text)};
    std::istringstream in{std::string(text)};
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

/// Returns values of a key other than its default, as a config has them.
std::vector<std::string> away_values(const Framework& framework, const KeyRow& row) {
    for (const Sample& one : samples) {
        if (one.framework == framework.name && one.key == row.path) return words_of(one.values);
    }
    const std::string standard(default_of(framework, row.path, parse_version(framework.newest)).value_or(""));
    switch (row.type) {
        case KeyType::flag:
            return standard == "unset" ? std::vector<std::string>{"true", "false"}
                                       : std::vector<std::string>{standard == "true" ? "false" : "true"};
        case KeyType::number:
        case KeyType::count:
            return {"4"};
        case KeyType::dtype:
            return {"bfloat16", "float16"};
        case KeyType::choice: {
            std::vector<std::string> others = words_of(row.choices);
            std::erase(others, standard);
            return others;
        }
        default:
            return {};
    }
}

/// Returns all fields and findings that a key may change, as text. Defaults and generic notes about keys are left out.
std::string outcome(const Base& base, const std::string& file, const std::vector<std::string>& overrides) {
    std::vector<std::string> files{file};
    files.insert(files.end(), overrides.begin(), overrides.end());
    const ImportResult result = import_files(files, {.framework = std::string(base.framework)});
    if (result.refused()) return "refused";
    std::set<std::string> lines;  // sorted, because the places of findings differ between a file and an override
    for (const ResolvedField* field : result.resolved.fields())
        lines.insert(fmt::format("{} {}\n", field->name, field_of(result, field->name)));
    for (const Finding& one : result.findings) {
        if (one.code != FindingCode::defaulted && !one.rule.ends_with("/inert-key"))
            lines.insert(fmt::format("{} {}\n", one.rule, one.message));
    }
    return fmt::format("{}", fmt::join(lines, ""));
}

struct Setting {
    std::string key, text;  ///< `text` is the override
};

const Exception* exception_of(std::string_view framework, const std::string& key, const std::string& beside) {
    for (const Exception& one : exceptions) {
        if (one.framework == framework && matches(one.key, key) && matches(one.beside, beside)) return &one;
    }
    return nullptr;
}

}  // namespace

TEST_CASE("a key that decides a number has an effect next to every other key, or the reason is known", "[import]") {
    std::set<const Exception*> used;
    std::map<std::string, bool> has_effect;
    std::size_t pairs = 0;
    for (const Base& base : bases) {
        const Framework& framework = *find_framework(base.framework);
        const ConfigFolder folder;
        const std::string file = folder.write("config.yaml", base.text);
        std::vector<Setting> settings;
        for (const KeyRow& row : framework.keys) {
            if (row.effect == KeyEffect::inert || !row.until.empty()) continue;  // inert, or of older releases
            const std::vector<std::string> values = away_values(framework, row);
            const bool is_section = row.type == KeyType::map && values.empty();
            if (row.path.find('*') != std::string_view::npos || is_section) continue;
            has_effect[fmt::format("{} {}", base.framework, row.path)] |= false;
            const std::size_t dot = row.path.rfind('.');
            const std::vector<std::string> sections = words_of(base.sections);
            const bool is_there = dot == std::string_view::npos || std::find(sections.begin(), sections.end(),
                                                                             row.path.substr(0, dot)) != sections.end();
            if (!is_there) continue;
            for (const std::string& value : values)
                settings.push_back({std::string(row.path), fmt::format("{}={}", row.path, value)});
        }
        const std::string start = outcome(base, file, {});
        std::vector<std::string> alone;
        for (const Setting& one : settings) alone.push_back(outcome(base, file, {one.text}));
        for (std::size_t a = 0; a < settings.size(); ++a) {
            const std::string key = fmt::format("{} {}", base.framework, settings[a].key);
            if (alone[a] != start) has_effect[key] = true;
            for (std::size_t b = 0; b < settings.size(); ++b) {
                const bool is_inside =
                    settings[a].key.starts_with(settings[b].key) || settings[b].key.starts_with(settings[a].key);
                if (is_inside || alone[b] == "refused" || (alone[a] == start && has_effect[key])) continue;
                ++pairs;
                const bool changes = outcome(base, file, {settings[b].text, settings[a].text}) != alone[b];
                if (changes) has_effect[key] = true;
                if (changes || alone[a] == start) continue;
                const Exception* reason = exception_of(base.framework, settings[a].key, settings[b].key);
                used.insert(reason);
                if (reason != nullptr) continue;
                FAIL_CHECK(base.framework << ": `" << settings[a].text << "` has no effect next to `"
                                          << settings[b].text << "` in " << base.text);
            }
        }
    }
    for (const auto& [key, has] : has_effect) {
        const std::size_t space = key.find(' ');
        const Exception* reason = exception_of(key.substr(0, space), key.substr(space + 1), "");
        used.insert(reason);
        if (!has && reason == nullptr) FAIL_CHECK(key << " never has an effect");
    }
    for (const Exception& one : exceptions) {
        CAPTURE(one.framework, one.key, one.beside);
        CHECK(used.contains(&one));
    }
    std::cout << "pairs of keys: " << pairs << std::endl;
    CHECK(pairs > 20000);
}

}  // namespace deciding_keys_test
