// SPDX-License-Identifier: Apache-2.0
// Importer of LongSpec. A config is a Hydra tree (`defaults`, `${key}`, `_target_`) that contains a config of
// DeepSpeed. Sources: longspec/train/trainer_base_ds_mul_fs_tp.py, general_util/evaluator.py, models/qwen2_glide.py at
// commit 15e4998; the defaults list of Hydra 1.3.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/hydra/hydra.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::longspec {

namespace {

using enum KeyType;

const KeyRow rows[] = {
    {.path = "ds_cfg", .type = map, .sets = "store compute master scaler", .summary = "DeepSpeed's config"},
    {.path = "fp16",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "eval",
     .summary = "autocast in evaluation; training does not read it"},
    {.path = "fp16_bfloat16",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "eval",
     .summary = "autocast uses bf16"},
    {.path = "fp16_opt_level", .type = text, .effect = KeyEffect::inert},
    {.path = "torch_dtype", .type = any, .summary = "dtype in which the checkpoint is loaded"},
    {.path = "torch_dtype.*", .type = any},
    {.path = "model", .type = map},
    {.path = "model.gradient_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "model.*", .type = any},
    {.path = "gradient_accumulation_steps", .type = count},
    {.path = "max_grad_norm", .type = number, .summary = "read if `optimizer` defines the optimiser"},
    {.path = "adam_epsilon", .type = any},
    {.path = "adam_betas", .type = any},
    {.path = "weight_decay", .type = any},
    {.path = "optimizer", .type = any, .summary = "a separate `_target_`"},
};

// Top-level keys of LongSpec's experiments that do not affect numerical results.
constexpr std::string_view inert_keys =
    "defaults hydra data_path_prefix model_path_prefix output_path_prefix train_file dev_file test_file eos_token "
    "eos_token_id "
    "tokenizer_init device_map read_tensor dist_load_data_barrier extended_vocab collator num_workers prefetch_factor "
    "model_name "
    "model_name_or_path pretrain resume dp_size tp_size pp_size wandb_project exp_name exp_notes output_dir do_train "
    "evaluate_during_training do_eval eval_sub_path per_gpu_train_batch_size per_gpu_eval_batch_size learning_rate "
    "total_dataset_len num_train_epochs max_steps warmup_proportion warmup_steps use_nvlamb bit_training logging_steps "
    "save_ds_state save_steps save_best eval_steps ddp_eval no_cuda seed local_rank prediction_cfg eval_forward_fn "
    "post_process "
    "summary_helper n_gpu device train_batch_size eval_batch_size world_size";

struct Facts {
    char engine = 'F';  ///< format that DeepSpeed casts the model to
    char loaded = 0;    ///< torch_dtype; 0 if it is not set
    char eval = 'F';    ///< format of autocast in evaluation
};

Facts facts_of(const ImportContext& context) {
    Facts facts;
    const std::string_view store = context.resolved().word("store");
    if (store == "H" || store == "B") facts.engine = store.front();
    facts.loaded = context.dtype(context.value("torch_dtype.dtype") != nullptr ? "torch_dtype.dtype" : "torch_dtype");
    if (context.flag("fp16")) facts.eval = context.flag("fp16_bfloat16") ? 'B' : 'H';
    return facts;
}

using Found = std::optional<FindingText>;
using enum FindingCode;

Found load_dtype(const ImportContext&, const Facts& facts) {
    if (facts.loaded == 0 || facts.engine == 'F' || facts.loaded == facts.engine) return {};
    return FindingText{fmt::format("torch_dtype requests {}, but the target model is always loaded in fp16, and then "
                                   "DeepSpeed's engine casts the whole model to {}",
                                   format_word(facts.loaded), format_word(facts.engine)),
                       fmt::format("torch_dtype: {}", facts.engine == 'H' ? "float16" : "bfloat16")};
}

Found eval_dtype(const ImportContext&, const Facts& facts) {
    if (facts.eval == 'F' || facts.engine == 'F' || facts.eval == facts.engine) return {};
    return FindingText{fmt::format("evaluation is autocast to {}, but training runs in {}", format_word(facts.eval),
                                   format_word(facts.engine)),
                       facts.engine == 'H' ? "fp16_bfloat16: false" : "fp16_bfloat16: true"};
}

Found fp16_is_eval(const ImportContext& context, const Facts& facts) {
    if (!context.has("fp16")) return {};
    return FindingText{
        fmt::format(
            "the top-level `fp16` turns on autocast in evaluation; training follows only ds_cfg, and runs in {}",
            format_word(facts.engine)),
        "ds_cfg.fp16.enabled, for training"};
}

Found ignored_optimizer_keys(const ImportContext& context, const Facts&) {
    if (hydra::is_set(context.root(), "optimizer") || context.value("ds_cfg.optimizer.params") == nullptr) return {};
    for (const std::string_view key : {"adam_betas", "adam_epsilon"}) {
        if (context.has(key))
            return FindingText{fmt::format("`{}` is not read: the optimiser is made from ds_cfg.optimizer.params", key),
                               "ds_cfg.optimizer.params"};
    }
    return {};
}

Found ignored_clip(const ImportContext& context, const Facts&) {
    if (!context.has("max_grad_norm") || hydra::is_set(context.root(), "optimizer")) return {};
    return FindingText{"`max_grad_norm` is not read with DeepSpeed: gradients are clipped at ds_cfg.gradient_clipping",
                       "ds_cfg.gradient_clipping"};
}

Found loss_in_tf32(const ImportContext& context, const Facts&) {
    if (!context.device().tf32) return {};
    return FindingText{
        "the trainer turns TF32 on for matmuls, so the matmul that computes the logits of the loss runs in tf32, even "
        "though its operands are cast with `.float()`",
        {}};
}

const FindingRow<Facts> finding_rows[] = {
    {"load-dtype", contradiction, {"torch_dtype", "ds_cfg.fp16.enabled", "ds_cfg.bf16.enabled"}, load_dtype},
    {"eval-dtype", contradiction, {"fp16_bfloat16", "fp16", "ds_cfg.fp16.enabled"}, eval_dtype},
    {"optimizer-keys-unread",
     contradiction,
     {"adam_betas", "adam_epsilon", "ds_cfg.optimizer.params"},
     ignored_optimizer_keys},
    {"clip-unread", inert, {"max_grad_norm", "ds_cfg.gradient_clipping"}, ignored_clip},
    {"fp16-is-evaluation", note, {"fp16", "ds_cfg.fp16.enabled"}, fp16_is_eval},
    {"tf32-in-loss", note, {"torch_dtype"}, loss_in_tf32},
};

void resolve(ImportContext& context) {
    context.delegate(deepspeed::framework, "ds_cfg");
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, finding_rows);
    if (facts.eval != 'F')
        context.set("eval", letter(facts.eval), context.flag("fp16_bfloat16") ? "fp16_bfloat16" : "fp16");
    context.set("ckpt", {.value = context.flag("model.gradient_checkpointing"), .parts = {}},
                "model.gradient_checkpointing");
    context.infer("adapter", {.value = std::string("none"), .parts = {}},
                  "no experiment calls the helpers for adapters");
}

int recognises(const files::ConfigValue& root) {
    int score = 0;
    if (root.entry("ds_cfg") != nullptr) score += 60;
    for (const std::string_view key :
         {"fp16_bfloat16", "defaults", "hydra", "per_gpu_train_batch_size", "save_ds_state"}) {
        if (root.entry(key) != nullptr) score += 15;
    }
    return std::min(score, 95);
}

}  // namespace

extern const Framework framework{.name = "longspec",
                                 .title = "LongSpec",
                                 .newest = "1",
                                 .oldest = "1",
                                 .keys = rows,
                                 .inert_keys = inert_keys,
                                 .model = "llama",
                                 .model_keys = "model_name_or_path pretrain",
                                 .dtype_keys = "torch_dtype.dtype torch_dtype",
                                 .marks = "ds_cfg fp16_bfloat16",
                                 .recognises = recognises,
                                 .refuses_unknown = [](const ImportContext&, std::string_view) { return false; },
                                 .prepare =
                                     [](ImportContext& context) {
                                         hydra::take_options(context, {});
                                         hydra::compose(context);
                                     },
                                 .resolve = resolve};

}  // namespace macheps::configs::longspec
