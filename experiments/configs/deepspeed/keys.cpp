// SPDX-License-Identifier: Apache-2.0
// Keys of a DeepSpeed JSON that affect numerical results. Sources:
// deepspeed/runtime/{constants,config,precision_config}.py and zero/config.py of 0.14.4 to 0.19.8.
#include "experiments/configs/deepspeed/deepspeed.hpp"

namespace macheps::configs::deepspeed {

namespace {

using enum KeyType;

const KeyRow key_rows[] = {
    {.path = "fp16", .type = map, .summary = "fp16 training: the whole model is cast"},
    {.path = "fp16.enabled", .type = flag, .defaults = {{"", "false"}}, .sets = "compute store scaler"},
    {.path = "fp16.auto_cast", .type = flag, .defaults = {{"", "false"}}, .summary = "inputs are cast to fp16"},
    {.path = "fp16.loss_scale", .type = number, .defaults = {{"", "0"}}, .sets = "scaler", .summary = "0 is dynamic"},
    {.path = "fp16.initial_scale_power", .type = number, .defaults = {{"", "16"}}, .sets = "scaler"},
    {.path = "fp16.loss_scale_window", .type = number, .defaults = {{"", "1000"}}, .sets = "scaler"},
    {.path = "fp16.hysteresis", .type = number, .defaults = {{"", "2"}}, .sets = "scaler"},
    {.path = "fp16.consecutive_hysteresis", .type = flag, .defaults = {{"", "false"}}, .sets = "scaler"},
    {.path = "fp16.min_loss_scale", .type = number, .defaults = {{"", "1"}}, .sets = "scaler"},
    {.path = "fp16.fp16_master_weights_and_grads",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "master opt_state"},
    {.path = "bf16", .type = map, .summary = "bf16 training: the whole model is cast"},
    {.path = "bf16.enabled", .type = flag, .defaults = {{"", "false"}}, .sets = "compute store"},
    {.path = "bf16.immediate_grad_update",
     .type = flag,
     .defaults = {{"", "false"}},
     .summary = "changes when gradients are added, not their values"},
    {.path = "bf16.check_grad_overflow",
     .type = flag,
     .defaults = {{"", "false"}, {"0.19.3", "true"}},
     .since = "0.17.1",
     .summary = "whether a step with Inf or NaN gradients is skipped"},
    {.path = "bf16.bf16_master_weights_and_grads",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.18.3",
     .sets = "master"},
    {.path = "bf16.bf16_optimizer_states",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.18.3",
     .sets = "opt_state"},
    {.path = "bfloat16",
     .type = map,
     .effect = KeyEffect::inert,
     .summary = "the old name of bf16, read only if the section bf16 is missing"},
    {.path = "bfloat16.*", .type = any, .effect = KeyEffect::inert},
    {.path = "data_types", .type = map},
    {.path = "data_types.grad_accum_dtype", .type = text, .sets = "accum"},
    {.path = "data_types.param_dtype", .type = text, .since = "0.19.2", .sets = "store"},
    {.path = "data_types.buffer_dtype", .type = text, .since = "0.19.2", .sets = "buffers"},
    {.path = "data_types.keep_in_fp32_modules",
     .type = any,
     .since = "0.19.8",
     .sets = "buffers",
     .summary = "names of buffers that stay in fp32; by default, those that the model lists"},
    {.path = "communication_data_type", .type = text, .sets = "reduce"},
    {.path = "seq_parallel_communication_data_type",
     .type = text,
     .defaults = {{"", "fp32"}},
     .since = "0.16.5",
     .sets = "reduce"},
    {.path = "seq_parallel_comm_data_type",
     .type = text,
     .defaults = {{"", "fp32"}},
     .until = "0.16.5",
     .sets = "reduce",
     .summary = "the old name of seq_parallel_communication_data_type"},
    {.path = "prescale_gradients", .type = flag, .defaults = {{"", "false"}}, .sets = "predivide"},
    {.path = "gradient_predivide_factor", .type = number, .defaults = {{"", "1.0"}}, .sets = "predivide"},
    {.path = "gradient_clipping", .type = number, .defaults = {{"", "0.0"}, {"0.19.3", "1.0"}}, .sets = "clip"},
    {.path = "gradient_accumulation_steps", .type = number, .summary = "the loss is divided by this number"},
    {.path = "torch_autocast", .type = map, .since = "0.17.2"},
    {.path = "torch_autocast.enabled",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.17.2",
     .sets = "oplist compute"},
    {.path = "torch_autocast.dtype", .type = text, .since = "0.17.2", .sets = "compute"},
    {.path = "torch_autocast.lower_precision_safe_modules", .type = list, .since = "0.17.2", .sets = "oplist"},
    {.path = "amp", .type = map, .until = "0.19.8", .summary = "Apex"},
    {.path = "amp.enabled",
     .type = flag,
     .defaults = {{"", "false"}},
     .until = "0.19.8",
     .sets = "compute oplist scaler"},
    {.path = "amp.opt_level",
     .type = text,
     .defaults = {{"", "O1"}},
     .until = "0.19.8",
     .sets = "compute oplist store master"},
    {.path = "amp.*", .type = any, .until = "0.19.8"},
    {.path = "optimizer", .type = map},
    {.path = "optimizer.type", .type = text, .sets = "scaler opt_kernel"},
    {.path = "optimizer.params", .type = map},
    {.path = "optimizer.params.max_grad_norm", .type = number},
    {.path = "optimizer.params.torch_adam", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_kernel scaler"},
    {.path = "zero_optimization", .type = map},
    {.path = "zero_optimization.stage", .type = number, .defaults = {{"", "0"}}, .sets = "scaler accum"},
    {.path = "zero_optimization.reduce_scatter", .type = flag, .defaults = {{"", "true"}}},
    {.path = "zero_optimization.cpu_offload", .type = flag, .summary = "the old spelling of offload_optimizer"},
    {.path = "zero_optimization.offload_optimizer", .type = map},
    {.path = "zero_optimization.offload_optimizer.device", .type = text, .defaults = {{"", "none"}}, .sets = "accum"},
    {.path = "zero_optimization.zero_quantized_weights", .type = flag, .defaults = {{"", "false"}}},
    {.path = "zero_optimization.zero_quantized_nontrainable_weights", .type = flag, .defaults = {{"", "false"}}},
    {.path = "zero_optimization.zero_quantized_gradients", .type = flag, .defaults = {{"", "false"}}},
    {.path = "compression_training", .type = map, .until = "0.19.7"},
    {.path = "weight_quantization", .type = map},
    {.path = "vocabulary_size", .type = number},
};

/// A section whose pydantic model forbids unknown keys (`extra = "forbid"`), and the first version in which it does.
struct TypedSection {
    std::string_view name, since;
};
constexpr TypedSection typed_sections[] = {
    {"zero_optimization", ""}, {"fp16", "0.17.1"},    {"bf16", "0.17.1"},    {"bfloat16", "0.17.1"},
    {"tensorboard", ""},       {"wandb", ""},         {"csv_monitor", ""},   {"comet", ""},
    {"comms_logger", ""},      {"hybrid_engine", ""}, {"compile", "0.16.6"}, {"tensor_parallel", "0.16.4"}};

/// A key or section that DeepSpeed refuses from a version on, because the feature was removed.
struct RemovedKey {
    std::string_view path, since;
};
constexpr RemovedKey removed_keys[] = {{"amp", "0.19.8"},
                                       {"compression_training", "0.19.7"},
                                       {"curriculum_learning", "0.19.8"},
                                       {"eigenvalue", "0.19.8"},
                                       {"elasticity", "0.19.8"},
                                       {"graph_harvesting", "0.19.8"},
                                       {"nebula", "0.19.7"},
                                       {"progressive_layer_drop", "0.19.8"},
                                       {"quantize_training", "0.19.7"},
                                       {"sparse_attention", "0.19.7"},
                                       {"sparse_gradients", "0.19.8"}};

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }

int recognises(const files::ConfigValue& root) {
    const auto is_section = [&](std::string_view key) {
        const files::ConfigValue::Entry* entry = root.entry(key);
        return entry && entry->value.is_map();
    };
    int score = 0;
    for (std::string_view section : {"zero_optimization", "fp16", "bf16", "bfloat16", "data_types", "torch_autocast"}) {
        if (is_section(section)) score += 40;
    }
    for (std::string_view key :
         {"train_batch_size", "train_micro_batch_size_per_gpu", "steps_per_print", "gradient_predivide_factor",
          "prescale_gradients", "wall_clock_breakdown", "zero_allow_untested_optimizer"}) {
        if (root.entry(key)) score += 30;
    }
    if (is_section("optimizer") && root.find("optimizer.type") && root.find("optimizer.params")) score += 30;
    for (std::string_view key : {"per_device_train_batch_size", "distributed_type", "base_model", "model_name_or_path",
                                 "ds_cfg", "compute_environment"}) {
        if (root.entry(key)) return 0;
    }
    return score > 95 ? 95 : score;
}

bool refuses_unknown(const ImportContext& context, std::string_view path) {
    for (const RemovedKey& key : removed_keys) {
        if (path == key.path && context.version("deepspeed") >= parse_version(key.since)) return true;
    }
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos)
        return false;  // DeepSpeed looks up the keys that it knows and ignores the others
    for (const TypedSection& section : typed_sections) {
        if (path.substr(0, dot) != section.name) continue;
        return section.since.empty() || context.version("deepspeed") >= parse_version(section.since);
    }
    return false;
}

std::optional<FindingCode> judges_type(const ImportContext& context, const KeyRow& row,
                                       const files::ConfigValue& value) {
    if (value.is_text() && value.written == "auto") return std::nullopt;  // the rule deepspeed/auto reports it
    if (row.path == "fp16.loss_scale") return std::nullopt;               // the rule deepspeed/loss-scale reports it
    if (row.type == map) return FindingCode::error;
    // Before 0.17.1, the section fp16 was not typed, and any value that is true in Python enabled fp16.
    return has_models(context) || !row.path.starts_with("fp16.") ? FindingCode::error : FindingCode::warning;
}

}  // namespace macheps::configs::deepspeed
