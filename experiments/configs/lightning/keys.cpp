// SPDX-License-Identifier: Apache-2.0
// Keys of LightningCLI's files (arguments of Trainer, of strategies and of optimisers) and of LitGPT's files. Sources:
// lightning/pytorch/trainer/trainer.py and strategies/deepspeed.py of 2.6.5; litgpt/pretrain.py, finetune/full.py,
// finetune/lora.py and args.py of 0.5.13.
#include "experiments/configs/lightning/lightning.hpp"

namespace macheps::configs::lightning {

namespace {

using enum KeyType;

constexpr std::string_view precision_words =
    "64 32 16 bf16 transformer-engine transformer-engine-float16 16-true 16-mixed bf16-true bf16-mixed 32-true 64-true";

const KeyRow key_rows[] = {
    {.path = "trainer", .type = map},
    {.path = "trainer.precision",
     .type = choice,
     .defaults = {{"", "32-true"}},
     .choices = precision_words,
     .sets = "store compute scaler"},
    {.path = "trainer.strategy",
     .type = any,
     .defaults = {{"", "auto"}},
     .sets = "reduce buffers",
     .summary = "a name, or class_path and init_args"},
    {.path = "trainer.strategy.class_path", .type = text},
    {.path = "trainer.strategy.init_args", .type = map},
    {.path = "trainer.strategy.init_args.stage", .type = count, .defaults = {{"", "2"}}},
    {.path = "trainer.strategy.init_args.offload_optimizer", .type = flag, .defaults = {{"", "false"}}},
    {.path = "trainer.strategy.init_args.offload_optimizer_device", .type = text, .defaults = {{"", "cpu"}}},
    {.path = "trainer.strategy.init_args.loss_scale", .type = number, .defaults = {{"", "0"}}, .sets = "scaler"},
    {.path = "trainer.strategy.init_args.initial_scale_power",
     .type = count,
     .defaults = {{"", "16"}},
     .sets = "scaler"},
    {.path = "trainer.strategy.init_args.loss_scale_window",
     .type = count,
     .defaults = {{"", "1000"}},
     .sets = "scaler"},
    {.path = "trainer.strategy.init_args.hysteresis", .type = count, .defaults = {{"", "2"}}, .sets = "scaler"},
    {.path = "trainer.strategy.init_args.min_loss_scale", .type = number, .defaults = {{"", "1"}}, .sets = "scaler"},
    {.path = deepspeed_key, .type = any, .summary = "DeepSpeed's config: the name of a file, or a map"},
    {.path = "trainer.strategy.init_args.mixed_precision", .type = any},
    {.path = "trainer.strategy.init_args.*", .type = any, .effect = KeyEffect::inert},
    {.path = "trainer.accelerator", .type = any, .defaults = {{"", "auto"}}, .summary = "cpu: autocast of a CPU"},
    {.path = "trainer.plugins", .type = any, .summary = "may contain a plugin that replaces `precision`"},
    {.path = "trainer.accumulate_grad_batches", .type = count, .defaults = {{"", "1"}}},
    {.path = "trainer.gradient_clip_val", .type = number, .sets = "clip"},
    {.path = "trainer.gradient_clip_algorithm", .type = text, .defaults = {{"", "norm"}}, .sets = "clip"},
    {.path = "optimizer", .type = any, .summary = "a map of Trainer; of LitGPT, a map or the name of a class"},
    {.path = "optimizer.class_path", .type = text, .sets = "opt_state"},
    {.path = "optimizer.init_args", .type = map},
    {.path = "optimizer.init_args.fused", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_kernel"},
    {.path = "optimizer.init_args.eps", .type = number, .defaults = {{"", "1e-8"}}},
    {.path = "optimizer.init_args.*", .type = any, .effect = KeyEffect::inert},
    // LitGPT.
    {.path = "precision",
     .type = choice,
     .choices = precision_words,
     .sets = "store compute scaler",
     .summary = "of LitGPT; without it, mixed precision in the format that the device has"},
    {.path = "quantize",
     .type = choice,
     .choices = "bnb.nf4 bnb.nf4-dq bnb.fp4 bnb.fp4-dq bnb.int8-training",
     .sets = "store"},
    {.path = "devices",
     .type = any,
     .summary = "several: the model is sharded; by default 1, or all in pretrain; -1 and auto: all"},
    {.path = "num_nodes", .type = count, .defaults = {{"", "1"}}},
    {.path = "train", .type = map},
    {.path = "train.max_norm", .type = number, .sets = "clip", .summary = "only pretrain reads it"},
    {.path = "lora_r", .type = count, .sets = "adapter"},
};

// The other arguments of Trainer, and the other keys of LightningCLI and of LitGPT.
constexpr std::string_view words =
    "trainer.devices trainer.num_nodes trainer.logger trainer.callbacks trainer.fast_dev_run trainer.max_epochs "
    "trainer.min_epochs trainer.max_steps trainer.min_steps trainer.max_time trainer.limit_train_batches "
    "trainer.limit_val_batches trainer.limit_test_batches trainer.limit_predict_batches trainer.overfit_batches "
    "trainer.val_check_interval trainer.check_val_every_n_epoch trainer.num_sanity_val_steps "
    "trainer.log_every_n_steps trainer.enable_checkpointing trainer.enable_progress_bar trainer.enable_model_summary "
    "trainer.deterministic trainer.benchmark trainer.inference_mode trainer.use_distributed_sampler trainer.profiler "
    "trainer.detect_anomaly trainer.barebones trainer.sync_batchnorm trainer.reload_dataloaders_every_n_epochs "
    "trainer.default_root_dir trainer.enable_autolog_hparams trainer.model_registry "
    "model data lr_scheduler seed_everything ckpt_path return_predictions verbose weights_only "
    "checkpoint_dir out_dir resume logger_name seed access_token model_name model_config initial_checkpoint_dir "
    "tokenizer_dir lora_alpha lora_dropout lora_query lora_key lora_value lora_projection lora_mlp lora_head "
    "eval.* log.* train.save_interval train.log_interval train.global_batch_size train.micro_batch_size "
    "train.lr_warmup_steps train.lr_warmup_fraction train.epochs train.max_tokens train.max_steps train.max_time "
    "train.max_seq_length train.tie_embeddings train.min_lr";

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }
std::string_view inert_keys() { return words; }

}  // namespace macheps::configs::lightning
