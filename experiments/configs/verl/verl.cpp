// SPDX-License-Identifier: Apache-2.0
// Importer of verl's FSDP engine. The fields describe the training of the actor. A config is a Hydra tree of PPO
// (section actor_rollout_ref), a config of verl's SFT trainer (section engine), or a file of the engine alone. Sources:
// verl/workers/fsdp_workers.py, workers/actor/dp_actor.py, workers/engine/fsdp/transformer_impl.py,
// workers/config/engine.py, trainer/config of 0.5.0 to 0.9.1.
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/hydra/hydra.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/reduce_text.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::verl {

namespace {

using enum KeyType;

// The keys of the engine are read at three places: the section of the actor, the section of the SFT trainer, and the
// root of a file of the engine.
const KeyRow rows[] = {
    {.path = "actor_rollout_ref.actor.fsdp_config.model_dtype", .type = any, .sets = "store grad opt_state"},
    {.path = "actor_rollout_ref.actor.fsdp_config.dtype",
     .type = choice,
     .defaults = {{"", "bfloat16"}},
     .choices = "bfloat16 float16",
     .since = "0.6.1",
     .sets = "compute scaler"},
    {.path = "actor_rollout_ref.actor.fsdp_config.mixed_precision", .type = map},
    {.path = "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype", .type = any, .sets = "compute scaler"},
    {.path = "actor_rollout_ref.actor.fsdp_config.mixed_precision.reduce_dtype", .type = any, .sets = "reduce"},
    {.path = "actor_rollout_ref.actor.fsdp_config.mixed_precision.buffer_dtype", .type = any, .sets = "buffers"},
    {.path = "actor_rollout_ref.actor.fsdp_config.qat.enable", .type = flag, .defaults = {{"", "false"}}},
    {.path = "actor_rollout_ref.actor.fsdp_config.qat.*", .type = any, .effect = KeyEffect::inert},
    {.path = "engine.model_dtype", .type = any, .since = "0.6", .sets = "store grad opt_state"},
    {.path = "engine.dtype", .type = choice, .choices = "bfloat16 float16", .since = "0.6.1"},
    {.path = "engine.mixed_precision", .type = map},
    {.path = "engine.mixed_precision.param_dtype", .type = any, .sets = "compute scaler"},
    {.path = "engine.mixed_precision.reduce_dtype", .type = any, .sets = "reduce"},
    {.path = "engine.mixed_precision.buffer_dtype", .type = any, .sets = "buffers"},
    {.path = "engine.strategy", .type = text, .defaults = {{"", "fsdp"}}, .since = "0.6"},
    {.path = "model_dtype", .type = any, .since = "0.6", .sets = "store grad opt_state"},
    {.path = "dtype", .type = choice, .choices = "bfloat16 float16", .since = "0.6.1", .sets = "compute scaler"},
    {.path = "mixed_precision", .type = map},
    {.path = "mixed_precision.param_dtype", .type = any, .sets = "compute scaler"},
    {.path = "mixed_precision.reduce_dtype", .type = any, .sets = "reduce"},
    {.path = "mixed_precision.buffer_dtype", .type = any, .sets = "buffers"},
    {.path = "strategy", .type = text, .defaults = {{"", "fsdp"}}, .since = "0.6"},
    {.path = "actor_rollout_ref.actor.strategy",
     .type = text,
     .defaults = {{"", "fsdp"}},
     .summary = "fsdp, fsdp2, or an engine that is not imported"},
    {.path = "actor_rollout_ref.actor.grad_clip", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "optim.clip_grad", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "actor_rollout_ref.actor.optim.optimizer",
     .type = text,
     .defaults = {{"", "AdamW"}},
     .since = "0.7",
     .sets = "opt_state",
     .summary = "name of a class"},
    {.path = "optim.optimizer", .type = text, .defaults = {{"", "AdamW"}}, .since = "0.7", .sets = "opt_state"},
    {.path = "actor_rollout_ref.rollout.dtype",
     .type = text,
     .defaults = {{"", "bfloat16"}},
     .summary = "format in which answers are generated"},
    {.path = "actor_rollout_ref.model.enable_gradient_checkpointing",
     .type = flag,
     .defaults = {{"", "true"}},
     .sets = "ckpt"},
    {.path = "model.enable_gradient_checkpointing", .type = flag, .defaults = {{"", "true"}}, .sets = "ckpt"},
    {.path = "actor_rollout_ref.model.lora_rank", .type = number, .defaults = {{"", "0"}}, .sets = "adapter"},
    {.path = "model.lora_rank", .type = number, .defaults = {{"", "0"}}, .sets = "adapter"},
    {.path = "trainer.use_legacy_worker_impl",
     .type = choice,
     .defaults = {{"", "auto"}},
     .choices = "auto enable disable",
     .until = "0.8",
     .summary = "whether the actor is trained by the worker or by the engine"},
};

// The table contains the defaults of these files. The programs of verl select one of them with hydra.main.
constexpr hydra::KnownConfigs default_configs{"config", "ppo_trainer sft_trainer sft_trainer_engine"};

/// A place of the engine's keys, and the places of the keys that belong to it.
struct EnginePlace {
    std::string_view section;  ///< path of the section; empty for the root
    std::string_view strategy, clip, optimizer, checkpointing, lora_rank;
};
constexpr EnginePlace actor{"actor_rollout_ref.actor.fsdp_config",
                            "actor_rollout_ref.actor.strategy",
                            "actor_rollout_ref.actor.grad_clip",
                            "actor_rollout_ref.actor.optim.optimizer",
                            "actor_rollout_ref.model.enable_gradient_checkpointing",
                            "actor_rollout_ref.model.lora_rank"};
constexpr EnginePlace sft{
    "engine",         "engine.strategy", "optim.clip_grad", "optim.optimizer", "model.enable_gradient_checkpointing",
    "model.lora_rank"};
constexpr EnginePlace file{
    "", "strategy", "optim.clip_grad", "optim.optimizer", "model.enable_gradient_checkpointing", "model.lora_rank"};

const EnginePlace& place_in(const files::ConfigValue& root) {
    if (root.entry("actor_rollout_ref") != nullptr) return actor;
    return root.entry("engine") != nullptr ? sft : file;
}

/// Returns F, H or B for the name of a format as verl spells it, or 0 for any other text.
char precision(std::string_view name) {
    if (name == "16") return 'H';
    if (name == "32") return 'F';
    for (const std::string_view word : {"fp16", "float16", "fp32", "float32", "bf16", "bfloat16"}) {
        if (name == word) return dtype_letter(name);
    }
    return 0;
}

struct Facts {
    EnginePlace place;
    std::string model_key, dtype_key, param_key, reduce_key, buffer_key;  ///< paths of the engine's keys
    std::string strategy;
    int version = 1;                ///< version of FSDP
    bool by_worker = false;         ///< the worker of the actor trains, which 0.8 removed; otherwise the engine trains
    bool reads_dtype = false;       ///< the key `dtype` decides formats: the worker reads it from 0.6.1 on
    bool autocast_follows = false;  ///< autocast has the format of the parameters: the engine from 0.8 on
    char model = 'F', param = 'B', reduce = 'F', buffer = 'F';
    char autocast = 'B';  ///< format of autocast around the forward pass; F if there is none
    bool has_scaler = false;

    bool is_fsdp() const { return strategy == "fsdp" || strategy == "fsdp2"; }
    /// Returns the format of the operands of matrix products.
    char compute() const { return autocast == 'F' ? param : autocast; }
};

/// Returns the format that a key gives, or `standard` if the key is not set or its value is not a format.
char precision_of(const ImportContext& context, std::string_view key, char standard) {
    const char said = context.has(key) ? precision(context.text(key)) : '\0';
    return said != 0 ? said : standard;
}

/// Sets the formats that FSDP and autocast use.
void set_formats(const ImportContext& context, Facts& facts) {
    const char dtype = facts.reads_dtype ? precision_of(context, facts.dtype_key, 'B') : 'B';
    const bool has_policy = hydra::is_set(context.root(), facts.param_key.substr(0, facts.param_key.rfind('.')));
    facts.model = precision_of(context, facts.model_key, 'F');
    facts.param = has_policy ? precision_of(context, facts.param_key, 'B') : dtype;
    facts.reduce = precision_of(context, facts.reduce_key, 'F');
    facts.buffer = precision_of(context, facts.buffer_key, 'F');
    facts.autocast = facts.autocast_follows ? facts.param : dtype;
    facts.has_scaler = facts.autocast == 'H';
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.place = place_in(context.root());
    const std::string at = facts.place.section.empty() ? std::string() : fmt::format("{}.", facts.place.section);
    facts.model_key = at + "model_dtype";
    facts.dtype_key = at + "dtype";
    facts.param_key = at + "mixed_precision.param_dtype";
    facts.reduce_key = at + "mixed_precision.reduce_dtype";
    facts.buffer_key = at + "mixed_precision.buffer_dtype";
    facts.strategy = context.text(facts.place.strategy);
    facts.version = facts.strategy == "fsdp2" ? 2 : 1;
    facts.autocast_follows = context.since("0.8");
    facts.by_worker = !facts.autocast_follows && facts.place.section != sft.section &&
                      context.text("trainer.use_legacy_worker_impl") != "disable";
    facts.reads_dtype = facts.by_worker && context.since("0.6.1");
    set_formats(context, facts);
    return facts;
}

using Context = ImportContext;
using enum FindingCode;

std::string title(const Context& context) { return fmt::format("verl {}", to_string(context.version())); }

/// Reports a value that is not the name of a format.
void report_names(Context& context, const Facts& facts) {
    for (const std::string* key : {&facts.model_key, &facts.param_key, &facts.reduce_key, &facts.buffer_key}) {
        if (!context.has(*key) || precision(context.text(*key)) != 0) continue;
        context.report(
            error, "no-such-precision", {*key},
            fmt::format("`{}` is not the name of a format: verl raises \"unexpected precision\"", context.text(*key)),
            "fp32, bf16 or fp16");
    }
}

/// Reports parameters in a format that autocast does not use.
void report_param_ignored(Context& context, const Facts& facts) {
    if (facts.param == facts.autocast) return;
    std::string message = fmt::format(
        "{} casts the parameters to {}, but the forward pass runs under autocast in {}, so products are "
        "computed in {}",
        title(context), format_word(facts.param), format_word(facts.autocast), format_word(facts.autocast));
    if (facts.param == 'H' && !facts.has_scaler)
        message += "; gradients pass through fp16 without a loss scaler, and small ones become 0";
    const std::string instead = facts.reads_dtype && facts.param == 'H'
                                    ? "dtype: float16 in the same section, which also turns on a loss scaler"
                                    : "verl 0.8, or param_dtype: bf16";
    context.report(warning, "param-dtype-ignored", {facts.param_key, facts.dtype_key}, std::move(message), instead);
}

/// Reports a `dtype` that nothing reads.
void report_dtype_unread(Context& context, const Facts& facts) {
    if (!context.has(facts.dtype_key) || facts.reads_dtype) return;
    if (precision(context.text(facts.dtype_key)) == facts.param) return;
    context.report(
        warning, "dtype-unread", {facts.dtype_key, facts.param_key},
        fmt::format("the FSDP engine of {} does not read `dtype`: parameters and autocast are {}", title(context),
                    format_word(facts.param)),
        facts.autocast_follows ? "mixed_precision.param_dtype" : "verl 0.8, and mixed_precision.param_dtype");
}

void report_storage(Context& context, const Facts& facts) {
    if (facts.model != 'F') {
        context.report(warning, "no-master", {facts.model_key},
                       fmt::format("the sharded parameters are {}, and so are gradients and moments: without fp32 "
                                   "master weights small updates are lost",
                                   format_word(facts.model)),
                       "fp32");
    }
    if (facts.reduce != 'F') {
        context.report(warning, "fsdp-low-reduce", {facts.reduce_key},
                       fmt::format("gradients are summed between ranks in {}", format_word(facts.reduce)), "fp32");
    }
    if (facts.buffer != 'F' && facts.version == 1) {
        context.report(warning, "buffers-cast", {facts.buffer_key},
                       fmt::format("buffers are cast to {}: the frequencies of rotary embeddings are rounded",
                                   format_word(facts.buffer)),
                       "fp32");
    }
}

/// Reports that answers are generated in another format than that of training.
void report_rollout(Context& context, const Facts& facts) {
    constexpr std::string_view key = "actor_rollout_ref.rollout.dtype";
    if (facts.place.section != actor.section) return;
    const char rollout = precision(context.text(key));
    if (rollout == 0 || rollout == facts.compute()) return;
    context.report(warning, "rollout-dtype", {key, facts.param_key},
                   fmt::format("answers are generated in {}, but the actor is trained in {}: the log-probabilities of "
                               "the two differ, and so do the ratios in the loss",
                               format_word(rollout), format_word(facts.compute())),
                   facts.compute() == 'H'   ? "float16"
                   : facts.compute() == 'F' ? "float32"
                                            : "bfloat16");
}

/// Reports settings whose effect is not imported.
void report_unread(Context& context) {
    constexpr std::string_view qat = "actor_rollout_ref.actor.fsdp_config.qat.enable";
    if (context.flag(qat)) {
        const std::string statement =
            "quantisation-aware training, which rounds the weights of linear layers in the forward pass, is not "
            "emulated: the policy trains without it";
        context.report(warning, "qat-unread", {qat}, statement, "false").not_emulated = statement;
    }
    if (context.has("defaults")) {
        context.report(note, "defaults-unread", {"defaults"},
                       fmt::format("the files of the defaults list are not read: keys that are not set have the "
                                   "defaults of {}",
                                   title(context)),
                       {});
    }
}

void report_notes(Context& context, const Facts& facts) {
    if (!facts.has_scaler) {
        context.report(note, "skips-nonfinite", {facts.place.clip},
                       "a step whose gradient norm is NaN or Inf is skipped; verl prints a warning", {});
    }
    if (facts.place.section == actor.section) {
        context.report(note, "actor-only", {facts.place.section},
                       "the fields describe the actor; the critic and the reference model have their own sections", {});
    }
}

void set_weights(ImportContext& context, const Facts& facts) {
    const std::string_view from =
        context.has(facts.param_key) || !facts.reads_dtype ? facts.param_key : facts.dtype_key;
    const std::string_view autocast_from = facts.reads_dtype ? facts.dtype_key : facts.param_key;
    set_storage(context, facts.param == 'F' ? storage::fp32 : storage::fsdp, facts.param, from);
    context.set("compute", letter(facts.compute()), facts.autocast == 'F' ? from : autocast_from);
    context.infer("oplist", word_field(facts.autocast == 'F' ? "none" : "torch-cuda"),
                  "verl wraps the forward pass of FSDP in autocast");
    for (const std::string_view field : {"store", "grad", "accum", "opt_state"})
        context.set(field, letter(facts.model), facts.model_key);
    context.set("reduce", letter(facts.reduce), facts.reduce_key);
    if (facts.version == 1)
        context.set("buffers", letter(facts.buffer), facts.buffer_key);
    else
        context.infer("buffers", letter('F'), "FSDP 2 does not cast buffers");
    context.infer("predivide", fsdp_average(context.resolved(), facts.version), fmt::format("FSDP {}", facts.version));
    context.set("scaler",
                facts.has_scaler ? torch_scaler_field({.growth_interval = 400, .sharded = true}) : no_scaler_field(),
                autocast_from);
}

void set_update(ImportContext& context, const Facts& facts) {
    context.set("clip",
                clip_field(facts.version == 1 ? "fsdp1" : "torch", context.number(facts.place.clip).value_or(1)),
                facts.place.clip);
    context.infer("opt_kernel", word_field("single"), "torch.optim.AdamW without `fused`");
    set_class_moments(context, context.text(facts.place.optimizer), facts.place.optimizer);
    context.set("ckpt", {.value = context.flag(facts.place.checkpointing), .parts = {}}, facts.place.checkpointing);
    const bool has_adapter = context.number(facts.place.lora_rank).value_or(0) > 0;
    context.set("adapter", has_adapter ? letter(facts.model) : word_field("none"), facts.place.lora_rank);
    context.infer("fp8", word_field("none"), "the FSDP engine has no fp8");
}

void resolve(ImportContext& context) {
    const Facts found = facts_of(context);
    if (context.defaults_are_open() && !context.has(found.place.strategy)) return;  // the engine is not known
    if (!found.is_fsdp()) {
        context.report(
            error, "engine-unread", {found.place.strategy},
            fmt::format("the engine `{}` is not imported: macheps reads only verl's FSDP engine", found.strategy),
            "fsdp or fsdp2");
        return;
    }
    report_names(context, found);
    report_param_ignored(context, found);
    report_dtype_unread(context, found);
    report_storage(context, found);
    report_rollout(context, found);
    report_unread(context);
    report_notes(context, found);
    set_weights(context, found);
    set_update(context, found);
}

bool names_verl(const files::ConfigValue* target) {
    return target != nullptr && target->is_text() && target->written.starts_with("verl.");
}

int recognises(const files::ConfigValue& root) {
    if (root.entry("actor_rollout_ref") != nullptr || root.entry("+actor_rollout_ref") != nullptr) return 97;
    return names_verl(root.find("_target_")) || names_verl(root.find("engine._target_")) ? 97 : 0;
}

}  // namespace

extern const Framework framework{
    .name = "verl",
    .title = "verl",
    .newest = "0.9.1",
    .oldest = "0.5.0",
    .keys = rows,
    .model_keys = "actor_rollout_ref.model.path model.path",
    .dtype_keys = "actor_rollout_ref.actor.fsdp_config.model_dtype engine.model_dtype model_dtype",
    .marks = "actor_rollout_ref @verl.* _target_=verl.* engine._target_=verl.*",
    .recognises = recognises,
    // Hydra refuses keys of a command that the config does not have. verl makes a data class from the section of the
    // actor, and its constructor refuses unknown arguments.
    .refuses_unknown =
        [](const ImportContext& context, std::string_view path) {
            return hydra::refuses_key(context, path) || (context.since("0.6") && path.starts_with(actor.section));
        },
    .prepare =
        [](ImportContext& context) {
            hydra::take_options(context, default_configs);
            hydra::interpolate(context);
        },
    .resolve = resolve};

}  // namespace macheps::configs::verl
