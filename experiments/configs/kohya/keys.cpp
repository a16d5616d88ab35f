// SPDX-License-Identifier: Apache-2.0
// Keys of kohya's sd-scripts: the arguments of its training scripts, which its TOML files may group into sections, and
// the keys that the presets of the graphical interface kohya_ss have in addition. Source: the calls of add_argument in
// library/ and in the training scripts of sd-scripts 0.10.1 and at commit 48d368fa.
#include "experiments/configs/kohya/kohya.hpp"

namespace macheps::configs::kohya {

namespace {

using enum KeyType;

const KeyRow key_rows[] = {
    {.path = "mixed_precision",
     .type = choice,
     .defaults = {{"", "no"}},
     .choices = "no fp16 bf16",
     .sets = "store compute scaler",
     .summary = "format of autocast and of frozen parts"},
    {.path = "full_fp16", .type = flag, .defaults = {{"", "false"}}, .sets = "store grad opt_state"},
    {.path = "full_bf16", .type = flag, .defaults = {{"", "false"}}, .since = "0.7.0", .sets = "store grad opt_state"},
    {.path = "fp8_base",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.8.2",
     .sets = "store",
     .summary = "the frozen model is kept in e4m3"},
    {.path = "fp8_base_unet", .type = flag, .defaults = {{"", "false"}}, .since = "0.10.0", .sets = "store"},
    {.path = "fp8_scaled", .type = flag, .defaults = {{"", "false"}}, .since = "0.10.0", .sets = "store"},
    {.path = "no_half_vae", .type = flag, .defaults = {{"", "false"}}, .summary = "the VAE computes in fp32"},
    {.path = "t5xxl_dtype", .type = text, .summary = "format of a frozen text encoder"},
    {.path = "optimizer_type", .type = text, .sets = "opt_state opt_kernel"},
    {.path = "optimizer_args", .type = any, .summary = "a list of NAME=VALUE"},
    {.path = "use_8bit_adam", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_state"},
    {.path = "use_lion_optimizer", .type = flag, .defaults = {{"", "false"}}},
    {.path = "fused_backward_pass", .type = flag, .defaults = {{"", "false"}}},
    {.path = "max_grad_norm", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "gradient_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "gradient_accumulation_steps", .type = number, .defaults = {{"", "1"}}},
    {.path = "learning_rate", .type = any},
    {.path = "network_module",
     .type = text,
     .sets = "adapter",
     .summary = "a network is trained, and the model is frozen"},
    {.path = "pretrained_model_name_or_path", .type = text},
    {.path = "config_file", .type = text, .summary = "a file with more options"},
    {.path = "deepspeed", .type = flag, .defaults = {{"", "false"}}},
    {.path = "zero_stage", .type = any},
    {.path = "fp16_master_weights_and_gradients", .type = flag, .defaults = {{"", "false"}}},
    {.path = "torch_compile", .type = flag, .defaults = {{"", "false"}}},
    // Keys of presets only. prepare() renames `optimizer` and `sdxl_no_half_vae` to the arguments that they become.
    {.path = "LoRA_type", .type = text, .sets = "adapter"},
    {.path = "sdxl", .type = flag, .defaults = {{"", "false"}}},
};

constexpr std::string_view words =
    // Arguments of the scripts.
    "adaptive_noise_scale ae alpha_mask apply_lg_attn_mask apply_t5_attn_mask async_upload attn_mode base_weights "
    "base_weights_multiplier block_lr blocks_to_swap blockwise_fused_optimizers bucket_no_upscale bucket_reso_steps "
    "byt5 cache_info cache_latents cache_latents_to_disk cache_text_encoder_outputs "
    "cache_text_encoder_outputs_to_disk caption_dropout_every_n_epochs caption_dropout_rate caption_extension "
    "caption_extention caption_prefix caption_separator caption_suffix caption_tag_dropout_rate ckpt clip_g "
    "clip_g_dropout_rate clip_l clip_l_dropout_rate clip_skip color_aug conditioning_data_dir "
    "controlnet_model_name_or_path cpu_offload_checkpointing cross_attn_lr dataset_class dataset_config "
    "dataset_repeats ddp_gradient_as_bucket_view ddp_static_graph ddp_timeout debiased_estimation_loss debug_dataset "
    "diffusers_xformers dim_from_weights disable_mmap_load_safetensors discrete_flow_shift double_blocks_to_swap "
    "dynamo_backend enable_bucket enable_scaled_pos_embed enable_wildcard face_crop_aug_range flip_aug fp8_vl "
    "fused_optimizer_groups gemma2 gemma2_max_token_length guidance_scale highvram huber_c huber_scale huber_schedule "
    "huggingface_path_in_repo huggingface_repo_id huggingface_repo_type huggingface_repo_visibility huggingface_token "
    "in_json init_word initial_epoch initial_step ip_noise_gamma ip_noise_gamma_random_strength keep_tokens "
    "keep_tokens_separator learning_rate_te learning_rate_te1 learning_rate_te2 learning_rate_te3 llm_adapter_lr "
    "llm_adapter_path log_config log_prefix log_tracker_config log_tracker_name log_with logging_dir logit_mean "
    "logit_std loss_type lowram lr_decay_steps lr_scheduler lr_scheduler_args lr_scheduler_min_lr_ratio "
    "lr_scheduler_num_cycles lr_scheduler_power lr_scheduler_timescale lr_scheduler_type lr_warmup_steps masked_loss "
    "max_bucket_reso max_data_loader_n_workers max_timestep max_token_length max_train_epochs max_train_steps "
    "max_validation_steps mem_eff_attn mem_eff_save metadata_author metadata_description "
    "metadata_is_negative_embedding metadata_license metadata_merged_from metadata_preprocessor metadata_tags "
    "metadata_thumbnail metadata_title metadata_trigger_phrase metadata_usage_hint min_bucket_reso min_snr_gamma "
    "min_timestep mlp_lr mod_lr mode_scale model_prediction_type model_type multires_noise_discount "
    "multires_noise_iterations network_alpha network_args network_dim network_dropout network_train_text_encoder_only "
    "network_train_unet_only network_weights no_metadata no_token_padding noise_offset noise_offset_random_strength "
    "num_last_block_to_freeze num_vectors_per_token offload_optimizer_device offload_optimizer_nvme_path "
    "offload_param_device offload_param_nvme_path output_config output_dir output_name persistent_data_loader_workers "
    "pos_emb_random_crop_rate prior_loss_weight qwen3 qwen3_max_token_length random_crop reg_data_dir "
    "resize_interpolation resolution resume resume_from_huggingface sample_at_first sample_batch_size "
    "sample_every_n_epochs sample_every_n_steps sample_prompts sample_sampler save_clip save_every_n_epochs "
    "save_every_n_steps save_last_n_epochs save_last_n_epochs_state save_last_n_steps save_last_n_steps_state "
    "save_model_as save_n_epoch_ratio save_precision save_state save_state_on_train_end save_state_to_huggingface "
    "save_t5xxl scale_v_pred_loss_like_noise_pred scale_weight_norms sdpa secondary_separator seed self_attn_lr "
    "shuffle_caption sigmoid_scale single_blocks_to_swap skip_cache_check skip_latents_validity_check "
    "skip_until_initial_step split_attn split_mode stop_text_encoder_training support_controlnet support_dreambooth "
    "support_dropout support_finetuning system_prompt t5_dropout_rate t5_max_token_length t5_tokenizer_path t5xxl "
    "t5xxl_device t5xxl_max_token_length text_encoder text_encoder_batch_size text_encoder_cpu text_encoder_lr "
    "timestep_sampling token_string token_warmup_min token_warmup_step tokenizer_cache_dir train_batch_size "
    "train_data_dir train_t5xxl train_text_encoder training_comment training_shift unet_lr "
    "unsloth_offload_checkpointing use_flash_attn use_object_template use_safetensors use_sage_attn "
    "use_style_template use_t5xxl_cache_only v2 v_parameterization v_pred_like_loss vae vae_batch_size vae_chunk_size "
    "vae_disable_cache validate_every_n_epochs validate_every_n_steps validation_seed validation_split wandb_api_key "
    "wandb_run_name weighted_captions weighting_scheme weights xformers zero3_init_flag zero3_save_16bit_model "
    "zero_terminal_snr"
    " "
    // Keys of presets.
    "LyCORIS_preset additional_parameters batch_size block_alphas block_dims block_lr_zero_threshold constrain "
    "conv_alpha conv_block_alphas conv_block_dims conv_dim create_buckets create_caption decompose_both "
    "down_lr_weight epoch factor full_path lora_network_weights lr_warmup max_resolution mid_lr_weight module_dropout "
    "noise_offset_type num_cpu_threads_per_process rank_dropout rank_dropout_scale rescaled "
    "sdxl_cache_text_encoder_outputs train_norm train_on_input unit up_lr_weight use_cp use_latent_files use_scalar "
    "use_tucker";

}  // namespace

std::span<const KeyRow> keys() { return key_rows; }
std::string_view inert_keys() { return words; }

}  // namespace macheps::configs::kohya
