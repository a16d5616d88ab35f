// SPDX-License-Identifier: Apache-2.0
// Importer of Composer, in the YAML files of llm-foundry. Sources: composer/core/precision.py,
// distributed/mosaic_parallelism.py (get_mixed_precision), utils/parallelism.py, trainer/trainer.py and
// algorithms/gradient_clipping of 0.16.4 to 0.32.1; llmfoundry/utils/config_utils.py and command_utils/train.py of
// 0.22.0.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/hydra/hydra.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::composer {

namespace {

using enum KeyType;

const KeyRow rows[] = {
    {.path = "precision",
     .type = choice,
     .defaults = {{"", "amp_bf16"}},
     .choices = "fp32 amp_fp16 amp_bf16 amp_fp8",
     .sets = "compute oplist scaler",
     .summary = "the default is that of llm-foundry"},
    {.path = "fsdp_config", .type = map, .summary = "FSDP 1; without it, DDP"},
    {.path = "fsdp_config.mixed_precision",
     .type = any,
     .defaults = {{"", "DEFAULT"}},
     .sets = "reduce buffers",
     .summary = "PURE, DEFAULT, FULL, or a map of formats"},
    {.path = "fsdp_config.mixed_precision.param_dtype", .type = text, .sets = "compute"},
    {.path = "fsdp_config.mixed_precision.reduce_dtype", .type = text, .sets = "reduce"},
    {.path = "fsdp_config.mixed_precision.buffer_dtype", .type = text, .sets = "buffers"},
    {.path = "fsdp_config.keep_low_precision_grads", .type = flag, .defaults = {{"", "false"}}, .sets = "grad"},
    {.path = "fsdp_config.activation_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "model", .type = map},
    {.path = "model.master_weights_dtype",
     .type = text,
     .sets = "store grad opt_state",
     .summary = "format to which llm-foundry converts the whole model"},
    {.path = "model.fc_type", .type = any, .summary = "te: linear layers of Transformer Engine"},
    {.path = "model.ffn_config.ffn_type", .type = text, .summary = "te_*: a block of Transformer Engine"},
    {.path = "model.*", .type = any},
    {.path = "optimizer", .type = map},
    {.path = "optimizer.name", .type = text, .sets = "opt_kernel"},
    {.path = "optimizer.*", .type = any},
    {.path = "algorithms", .type = map},
    {.path = "algorithms.gradient_clipping", .type = map},
    {.path = "algorithms.gradient_clipping.clipping_type",
     .type = choice,
     .choices = "norm value adaptive",
     .sets = "clip"},
    {.path = "algorithms.gradient_clipping.clipping_threshold", .type = number, .sets = "clip"},
    {.path = "algorithms.*", .type = any},
    {.path = "compile_config", .type = any},
};

// The other keys of the data class TrainConfig and of FSDPConfig.
constexpr std::string_view inert_keys =
    "tokenizer tokenizer.* tokenizer.*.* scheduler scheduler.* train_loader eval_loader eval_loaders "
    "device_train_batch_size device_eval_batch_size max_duration max_seq_len seed code_paths max_split_size_mb "
    "expandable_segments cuda_load_lazy dist_timeout tp_config accumulate_train_batch_on_tokens eval_interval "
    "icl_tasks icl_tasks_str eval_gauntlet eval_gauntlet_str icl_subset_num_batches icl_seq_len loggers progress_bar "
    "log_to_console python_log_level console_log_interval log_config callbacks save_folder save_latest_filename "
    "save_overwrite save_weights_only save_filename save_interval save_num_checkpoints_to_keep load_path "
    "load_weights_only load_strict_model_weights load_ignore_keys save_ignore_keys only_hf_checkpoint "
    "only_composer_checkpoint train_subset_num_batches device_train_microbatch_size global_train_batch_size "
    "spin_dataloaders eval_subset_num_batches eval_first metadata flatten_metadata run_name autoresume profiler "
    "variables n_gpus device_train_grad_accum "
    "fsdp_config.activation_checkpointing_reentrant fsdp_config.activation_cpu_offload fsdp_config.auto_wrap "
    "fsdp_config.te_checkpoint_wrapper fsdp_config.te_shard_fp8_weight fsdp_config.backward_prefetch "
    "fsdp_config.backward_prefetch_limit fsdp_config.cpu_offload fsdp_config.data_parallel_shard_degree "
    "fsdp_config.data_parallel_replicate_degree fsdp_config.forward_prefetch fsdp_config.forward_prefetch_limit "
    "fsdp_config.ignored_modules fsdp_config.limit_all_gathers fsdp_config.load_monolith_rank0_only "
    "fsdp_config.load_planner fsdp_config.process_group fsdp_config.save_planner fsdp_config.sharded_ckpt_prefix_dir "
    "fsdp_config.sharding_strategy fsdp_config.state_dict_type fsdp_config.sync_module_states "
    "fsdp_config.use_orig_params fsdp_config.verbose fsdp_config.min_params fsdp_config.flatten_parameters "
    "fsdp_config.load_fsdp_monolith_rank0_only fsdp_config.activation_checkpointing_target fsdp_config.device_mesh";

constexpr std::string_view mixed_key = "fsdp_config.mixed_precision";
constexpr std::string_view param_key = "fsdp_config.mixed_precision.param_dtype";

struct Facts {
    std::string precision;
    char low = 'F';  ///< format of `precision`; bf16 for amp_fp8
    bool fsdp = false, fp8 = false;
    std::string mixed;                       ///< PURE, DEFAULT or FULL; empty for a map
    bool is_known_word = true;               ///< `mixed` is a word that Composer accepts, or a map
    char param = 0, reduce = 0, buffer = 0;  ///< formats of FSDP's MixedPrecision; 0 if they are not set
    char master = 'F';                       ///< master_weights_dtype of llm-foundry
    bool has_te_layers = false;              ///< the model is built from layers of Transformer Engine
};

/// Returns 'F', 'H' or 'B' for a word of Composer's _get_torch_dtype, or 0 for another word.
char composer_dtype(std::string_view word) {
    if (word == "amp" || word == "amp_fp16") return 'H';
    if (word == "bfloat" || word == "amp_bf16" || word == "float8" || word == "fp8" || word == "amp_fp8") return 'B';
    return dtype_letter(word);
}

std::string uppercase(std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return word;
}

/// Sets the formats of FSDP's MixedPrecision, as get_mixed_precision() of Composer computes them.
void read_mixed_precision(const ImportContext& context, Facts& facts) {
    const auto format = [&](std::string_view key) {
        return composer_dtype(context.text(fmt::format("{}.{}", mixed_key, key)));
    };
    const files::ConfigValue* value = context.value(mixed_key);
    if (value != nullptr && value->is_map()) {
        facts.param = format("param_dtype");
        facts.reduce = format("reduce_dtype");
        facts.buffer = format("buffer_dtype");
        return;
    }
    facts.mixed = uppercase(context.text(mixed_key));
    const bool is_pure = facts.mixed == "PURE";
    facts.is_known_word = is_pure || facts.mixed == "DEFAULT" || facts.mixed == "FULL";
    if (!is_pure && facts.mixed != "DEFAULT") return;
    facts.param = facts.buffer = facts.low;
    facts.reduce = is_pure ? facts.low : 'F';
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.precision = context.text("precision");
    facts.fp8 = facts.precision == "amp_fp8";
    if (const char low = composer_dtype(facts.precision); low != 0) facts.low = low;
    const files::ConfigValue* section = context.value("fsdp_config");
    facts.fsdp = section != nullptr && section->is_map();
    if (facts.fsdp) read_mixed_precision(context, facts);
    const char master = composer_dtype(context.text("model.master_weights_dtype"));
    facts.master = master == 0 ? 'F' : master;
    // llm-foundry replaces the section's formats if the weights are already in a low-precision format.
    if (facts.fsdp && facts.master != 'F') {
        const bool is_map = facts.mixed.empty();
        facts.param = 0;
        if (!is_map) facts.reduce = facts.buffer = 0;
    }
    facts.has_te_layers = context.text("model.fc_type") == "te" || context.text("model.fc_type.name") == "te" ||
                          context.text("model.ffn_config.ffn_type").starts_with("te_");
    return facts;
}

/// Returns the format in which FSDP or DDP adds up the gradients of the ranks.
char reduce_format(const Facts& facts) {
    if (!facts.fsdp) return facts.master;
    if (facts.reduce != 0) return facts.reduce;
    return facts.param != 0 ? facts.param : facts.master;
}

/// Returns whether Composer starts torch's autocast. For amp_fp8, it starts only that of Transformer Engine.
bool has_autocast(const Facts& facts) { return facts.low != 'F' && !facts.fp8; }

bool is_low(char format) { return format == 'H' || format == 'B'; }

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

Found on_cpu(const Context& c, const Facts& f) {
    if (c.device().kind != DeviceProfile::Kind::cpu || f.precision == "fp32") return {};
    return FindingText{fmt::format("Composer refuses {} on a CPU: it raises ValueError", f.precision),
                       "precision: fp32"};
}
Found mixed_word(const Context&, const Facts& f) {
    if (!f.fsdp || f.is_known_word) return {};
    return FindingText{
        fmt::format("`mixed_precision` is {}, which Composer does not know: it raises ValueError", f.mixed), "DEFAULT"};
}
Found fp8_unsupported(const Context& c, const Facts& f) {
    if (!f.fp8 || c.device().capability() >= 89) return {};
    return FindingText{fmt::format("{} has no fp8: Composer raises RuntimeError", c.device().name),
                       "precision: amp_bf16"};
}
Found clip_kind(const Context& c, const Facts& f) {
    if (!f.fsdp || c.text("algorithms.gradient_clipping.clipping_type") != "adaptive") return {};
    return FindingText{"with FSDP, Composer clips by norm or by value, and raises ValueError for `adaptive`",
                       "clipping_type: norm"};
}
Found low_reduce(const Context&, const Facts& f) {
    if (!f.fsdp || f.master != 'F' || !is_low(reduce_format(f))) return {};
    const std::string why = f.mixed == "PURE" ? "PURE gives FSDP one format for everything"
                            : f.reduce != 0   ? fmt::format("reduce_dtype is {}", format_word(f.reduce))
                                              : "reduce_dtype is not set, so that it follows param_dtype";
    return FindingText{fmt::format("{}: gradients are summed between ranks in {}", why, format_word(reduce_format(f))),
                       f.mixed == "PURE" ? "mixed_precision: DEFAULT" : "reduce_dtype: float32"};
}
Found low_buffers(const Context&, const Facts& f) {
    if (!f.fsdp || !is_low(f.buffer)) return {};
    return FindingText{fmt::format("buffers, such as rotary frequencies, are rounded to {}", format_word(f.buffer)),
                       f.mixed.empty() ? "buffer_dtype: float32"
                                       : "a map with param_dtype, reduce_dtype: float32 and buffer_dtype: float32"};
}
Found no_master(const Context&, const Facts& f) {
    if (f.master == 'F') return {};
    return FindingText{fmt::format("llm-foundry converts the whole model to {}: weights, gradients and moments have no "
                                   "fp32 copy, so small updates are lost",
                                   format_word(f.master)),
                       "remove master_weights_dtype"};
}
Found low_weights_scaled(const Context&, const Facts& f) {
    if (f.master != 'H' || f.precision != "amp_fp16" || f.fsdp) return {};
    return FindingText{
        "weights in fp16 give fp16 gradients, which GradScaler refuses: \"Attempting to unscale FP16 "
        "gradients\"",
        "remove master_weights_dtype"};
}
Found fp8_without_layers(const Context&, const Facts& f) {
    if (!f.fp8 || f.has_te_layers) return {};
    return FindingText{"amp_fp8 changes only layers of Transformer Engine, and no key builds the model from them",
                       "model.fc_type: te"};
}
Found fp8_without_autocast(const Context&, const Facts& f) {
    if (!f.fp8 || (f.fsdp && f.param != 0)) return {};
    return FindingText{
        "amp_fp8 does not start torch's autocast: matmuls that are not in fp8 have the format of the "
        "weights",
        {}};
}
/// Returns how a `clipping_type` other than norm clips. With FSDP, Composer clips by value with the norm Linf.
std::string_view clip_way(std::string_view type, bool fsdp) {
    if (type == "adaptive") return "clipping by the ratio of the norms of gradient and weights, unit by unit,";
    return fsdp ? "clipping by the largest element of the whole gradient" : "clipping of each element";
}

/// The row adaptive-clip-with-fsdp reports adaptive clipping with FSDP, which Composer refuses.
Found other_clip(const Context& c, const Facts& f) {
    const std::string type = c.text("algorithms.gradient_clipping.clipping_type");
    if (type != "value" && (type != "adaptive" || f.fsdp)) return {};
    FindingText text =
        not_emulated(fmt::format("{} is not emulated: the policy does not clip", clip_way(type, f.fsdp)));
    text.instead = "clipping_type: norm";
    return text;
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if (f.low != 'B' || c.device().bf16) return {};
    return FindingText{fmt::format("{} has no bf16 units; torch emulates bf16, which is slow", c.device().name),
                       training_format(c) == 'H' ? "precision: amp_fp16" : "precision: fp32"};
}
Found two_formats(const Context&, const Facts& f) {
    if (!f.fsdp || !has_autocast(f) || !is_low(f.param) || f.param == f.low) return {};
    return FindingText{fmt::format("FSDP gathers the weights in {}, and autocast then rounds them to {}",
                                   format_word(f.param), format_word(f.low)),
                       f.low == 'H' ? "param_dtype: float16" : "param_dtype: bfloat16"};
}
/// llm-foundry replaces a word of mixed_precision by a map without formats. In a map, it replaces only param_dtype.
Found unread_formats(const Context& c, const Facts& f) {
    const bool is_word = !f.mixed.empty();
    if (f.master == 'F' || !c.has(is_word ? mixed_key : param_key)) return {};
    return FindingText{
        fmt::format("`{}` has no effect, because llm-foundry replaces it if `master_weights_dtype` is set",
                    is_word ? "mixed_precision" : "param_dtype"),
        {},
        is_word ? std::size_t{0} : std::size_t{2}};
}
Found compiled(const Context& c, const Facts&) {
    if (!c.has("compile_config")) return {};
    return compilation_not_emulated();
}

const FindingRow<Facts> findings[] = {
    {"cpu-precision", error, {"precision"}, on_cpu},
    {"mixed-precision-word", error, {"fsdp_config.mixed_precision"}, mixed_word},
    {"fp8-unsupported", error, {"precision"}, fp8_unsupported},
    {"adaptive-clip-with-fsdp", error, {"algorithms.gradient_clipping.clipping_type", "fsdp_config"}, clip_kind},
    {"low-weights-under-scaler", error, {"model.master_weights_dtype", "precision"}, low_weights_scaled},
    {"fsdp-low-reduce", warning, {"fsdp_config.mixed_precision", "precision"}, low_reduce},
    {"no-master", warning, {"model.master_weights_dtype"}, no_master},
    {"fp8-without-layers", warning, {"precision", "model.fc_type", "model.ffn_config.ffn_type"}, fp8_without_layers},
    {"fp8-without-autocast", warning, {"precision", "fsdp_config.mixed_precision"}, fp8_without_autocast},
    {"other-clip", warning, {"algorithms.gradient_clipping.clipping_type", "fsdp_config"}, other_clip},
    {"bf16-emulated", warning, {"precision"}, bf16_emulated},
    {"torch-compile", warning, {"compile_config"}, compiled},
    {"buffers-cast", warning, {"fsdp_config.mixed_precision", "precision"}, low_buffers},
    {"two-formats", contradiction, {"fsdp_config.mixed_precision", "precision"}, two_formats},
    {"mixed-precision-unread", inert, {mixed_key, "model.master_weights_dtype", param_key}, unread_formats},
};

void set_fsdp(ImportContext& context, const Facts& facts) {
    if (is_low(facts.param))
        set_storage(context, storage::fsdp, facts.param, "precision");
    else
        set_storage(context, has_autocast(facts) ? storage::amp : storage::fp32, facts.low, "precision");
    // Autocast rounds the gathered weights to its own format.
    if (has_autocast(facts)) context.set("compute", letter(facts.low), "precision");
    context.set("reduce", letter(reduce_format(facts)), mixed_key);
    context.set("buffers", letter(facts.buffer != 0 ? facts.buffer : 'F'), mixed_key);
    context.infer("predivide", word_field("split"), "FSDP 1");
    if (is_low(facts.param) && context.flag("fsdp_config.keep_low_precision_grads"))
        context.set("grad", letter(facts.param), "fsdp_config.keep_low_precision_grads");
}

void set_formats(ImportContext& context, const Facts& facts) {
    const bool autocasts = has_autocast(facts);
    if (facts.master != 'F')
        set_storage(context, autocasts ? storage::low_amp : storage::pure, autocasts ? facts.low : facts.master,
                    "precision");
    else if (facts.fsdp)
        set_fsdp(context, facts);
    else
        set_storage(context, autocasts ? storage::amp : storage::fp32, facts.low, "precision");
    if (autocasts)
        context.infer("oplist", word_field("torch-cuda"), "from precision: Composer starts torch's autocast");
    if (facts.master == 'F') return;
    for (const std::string_view field :
         {"store", "grad", "accum", "opt_state", "norm", "embed", "lm_head", "buffers", "eval"})
        context.set(field, letter(facts.master), "model.master_weights_dtype");
    context.infer("reduce", letter(reduce_format(facts)), "from store, unless reduce_dtype is set");
}

void set_fp8(ImportContext& context, const Facts& facts) {
    if (!facts.fp8 || !facts.has_te_layers) {
        context.infer("fp8", word_field("none"), "no layer computes in fp8");
        return;
    }
    context.set("fp8",
                {.value = std::string("te_delayed"),
                 .parts = {{"format", std::string("HYBRID")},
                           {"margin", 0.0},
                           {"history", 16.0},
                           {"algorithm", std::string("max")}}},
                "precision");
    context.set("compute", word_field("te_delayed"), "precision");
}

void set_update(ImportContext& context, const Facts& facts) {
    const bool is_scaled = facts.precision == "amp_fp16";
    context.set("scaler", is_scaled ? torch_scaler_field({.sharded = facts.fsdp}) : no_scaler_field(), "precision");
    constexpr std::string_view threshold = "algorithms.gradient_clipping.clipping_threshold";
    const bool is_norm = context.text("algorithms.gradient_clipping.clipping_type") == "norm";
    context.set("clip", clip_field(facts.fsdp ? "fsdp1" : "torch", is_norm ? context.number(threshold).value_or(0) : 0),
                threshold);
    context.infer("opt_kernel", word_field("single"), "Composer's optimisers update each tensor on its own");
    context.set("ckpt", {.value = context.flag("fsdp_config.activation_checkpointing"), .parts = {}},
                "fsdp_config.activation_checkpointing");
    context.infer("adapter", word_field("none"), "the config trains the whole model");
}

void resolve(ImportContext& context) {
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, findings);
    set_formats(context, facts);
    set_fp8(context, facts);
    set_update(context, facts);
}

/// See Framework::recognises.
int recognises(const files::ConfigValue& root) {
    int score = 0;
    if (root.entry("max_duration") != nullptr) score += 50;
    if (const files::ConfigValue* word = root.find("precision"); word != nullptr && word->written.starts_with("amp_"))
        score += 50;
    for (const std::string_view key : {"device_train_microbatch_size", "global_train_batch_size", "train_loader"}) {
        if (root.entry(key) != nullptr) score += 20;
    }
    return std::min(score, 95);
}

}  // namespace

extern const Framework framework{
    .name = "composer",
    .title = "Composer",
    .newest = "0.32.1",
    .oldest = "0.16.4",
    .keys = rows,
    .inert_keys = inert_keys,
    .model_keys = "model.pretrained_model_name_or_path",
    .dtype_keys = "model.master_weights_dtype",
    .marks =
        "max_duration fsdp_config.mixed_precision=PURE|DEFAULT|FULL fsdp_config.mixed_precision.param_dtype "
        "device_train_microbatch_size @composer",
    .recognises = recognises,
    // llm-foundry raises an error on keys that its data class does not have. Other programs of Composer may have own
    // keys.
    .refuses_unknown = [](const ImportContext& context,
                          std::string_view path) { return context.has("train_loader") && path.find('.') == path.npos; },
    .unknown_remedy = "put variables under `variables`",
    // llm-foundry reads its files with OmegaConf.
    .prepare = [](ImportContext& context) { hydra::compose(context); },
    .resolve = resolve};

}  // namespace macheps::configs::composer
