// SPDX-License-Identifier: Apache-2.0
// Findings about a DeepSpeed JSON. There is a row for each assertion of the engine, for each setting that the engine
// decides silently, and for each setting that is likely to be misunderstood.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/deepspeed/deepspeed.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::configs::deepspeed {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

std::string title(const Context& context) {
    return fmt::format("DeepSpeed {}", to_string(context.version("deepspeed")));
}

// Findings about the switches of fp16, bf16 and autocast.

/// Reports lower_precision_safe_modules that match no module of the model. The modules are known only if macheps trains
/// one of its own models, so other imports get no such finding.
Found safe_modules(const Context& c, const Facts& f) {
    const files::ConfigValue* modules = c.value("torch_autocast.lower_precision_safe_modules");
    if (!c.options().for_training || !f.autocast || modules == nullptr || modules->items.empty()) return {};
    for (const files::ConfigValue& module : modules->items) {
        for (const char* ours : {"torch.nn.Linear", "torch.nn.Embedding", "torch.nn.LayerNorm"}) {
            if (module.written == ours) return {};
        }
    }
    return FindingText{
        "none of these is a module of the trained model, which has torch.nn.Linear, torch.nn.Embedding and "
        "torch.nn.LayerNorm",
        "torch.nn.Linear"};
}
Found both_on(const Context& c, const Facts& f) {
    if (!f.fp16 || !f.bf16 || is_auto(c, "fp16.enabled") || is_auto(c, "bf16.enabled")) return {};
    return FindingText{"fp16 and bf16 are both on: DeepSpeed asserts that only one is",
                       "switch one of `fp16.enabled` and `bf16.enabled` off"};
}

Found auto_switch(const Context& c, std::string_view section, std::string_view arguments) {
    if (!is_auto(c, fmt::format("{}.enabled", section))) return {};
    return FindingText{
        fmt::format("\"auto\" is filled in from `{}` when Transformers, Accelerate or Axolotl reads this file; "
                    "{} itself treats it as {}",
                    arguments, title(c), has_models(c) ? "off" : "on"),
        "true or false, for a program that calls deepspeed.initialize itself"};
}
Found auto_fp16(const Context& c, const Facts&) { return auto_switch(c, "fp16", "fp16 or fp16_full_eval"); }
Found auto_bf16(const Context& c, const Facts&) { return auto_switch(c, "bf16", "bf16 or bf16_full_eval"); }

Found auto_true(const Context& c, std::string_view section) {
    if (has_models(c) || !is_auto(c, fmt::format("{}.enabled", section))) return {};
    return FindingText{fmt::format("{} does not know \"auto\" here: a non-empty string counts as true, so {} is on",
                                   title(c), section),
                       "true or false"};
}
Found auto_true_fp16(const Context& c, const Facts&) { return auto_true(c, "fp16"); }
Found auto_true_bf16(const Context& c, const Facts&) { return auto_true(c, "bf16"); }

Found auto_clipping(const Context& c, const Facts&) {
    if (!is_auto(c, "gradient_clipping")) return {};
    return FindingText{
        "\"auto\" is filled in from `max_grad_norm` (1.0) when Transformers reads this file; DeepSpeed itself has no "
        "number to clip at",
        "a number (0 turns clipping off)"};
}

Found fp16_device(const Context& c, const Facts& f) {
    if (!f.fp16 || c.device().fp16) return {};
    return FindingText{fmt::format("{} has no fp16: DeepSpeed refuses the config, except on CPUs whose oneDNN "
                                   "multiplies fp16",
                                   c.device().name),
                       c.device().bf16 ? "bf16" : "neither fp16 nor bf16"};
}
Found bf16_device(const Context& c, const Facts& f) {
    if (!f.bf16 || c.device().torch_says_bf16) return {};
    return FindingText{fmt::format("{} has no bf16: DeepSpeed refuses the config", c.device().name),
                       training_format(c) == 'H' ? "fp16" : "neither fp16 nor bf16"};
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if (!f.bf16 || !c.device().torch_says_bf16 || c.device().bf16) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, so the "
                    "run uses bf16, slowly",
                    c.device().name),
        training_format(c) == 'H' ? "fp16, with its loss scaler" : "neither fp16 nor bf16"};
}

/// Returns the index of the key that is on, for rows whose keys are fp16.enabled (0) and bf16.enabled (1).
std::size_t switch_key(const Facts& f) { return f.low == 'B' ? 1 : 0; }

Found whole_model(const Context& c, const Facts& f) {
    if (f.low == 'F' || f.amp) return {};
    return FindingText{fmt::format("the engine casts every parameter of the model to {}, including norms and adapters: "
                                   "anything that was kept in fp32 before is rounded here",
                                   format_word(f.low)),
                       c.since("deepspeed", "0.17.2") ? "torch_autocast, which keeps the model in fp32" : "",
                       switch_key(f)};
}
Found buffers_cast(const Context& c, const Facts& f) {
    if (f.low == 'F' || f.amp || c.since("deepspeed", "0.19.2")) return {};
    return FindingText{
        fmt::format("before 0.19.2 buffers are cast to {} with the model: the frequencies of rotary embeddings "
                    "are rounded, and the angles of distant positions are wrong",
                    format_word(f.low)),
        "deepspeed 0.19.2 or newer, or compute the frequencies in the forward pass", switch_key(f)};
}

// Findings about the loss scale.

Found scale_trap(const Context& c, const Facts& f) {
    if (!f.dynamic || f.amp || has_models(c) || f.has_scaler_keys || (f.stage == 0 && f.fused)) return {};
    if (f.stage > 0) {
        return FindingText{
            fmt::format("without any of initial_scale_power, loss_scale_window, hysteresis, consecutive_hysteresis and "
                        "min_loss_scale, {} starts ZeRO at scale 2^32 with hysteresis 1, not at 2^16 with 2: a run "
                        "whose gradients overflow at scales above 2^16 skips its first 16 steps or more",
                        title(c)),
            "\"initial_scale_power\": 16 (any of the five keys restores the documented defaults of all)"};
    }
    return FindingText{fmt::format("without any of the five keys of the dynamic scale, the lowest scale of the unfused "
                                   "wrapper of {} is 0.25, not 1",
                                   title(c)),
                       "\"min_loss_scale\": 1"};
}

/// Every wrapper of fp16 reads the key. A scale above 2^20 is far above that of a usual run.
Found large_initial_scale(const Context& c, const Facts& f) {
    const double power = c.number("fp16.initial_scale_power").value_or(16);
    if (!f.dynamic || f.amp || !(power > large_scale_power)) return {};
    return FindingText{large_scale_text(power), "\"initial_scale_power\": 16"};
}

Found no_hysteresis(const Context& c, const Facts& f) {
    if (!f.dynamic || f.stage == 0 || !c.has("fp16.hysteresis") || c.number("fp16.hysteresis").value_or(2) != 0)
        return {};
    return FindingText{
        "hysteresis 0 is accepted, but then the scale never backs off: the counter is compared with 1 and goes 0, -1, "
        "-2, so every step that overflows is skipped for ever",
        "\"hysteresis\": 1 to back off at once"};
}
Found hysteresis_unread(const Context& c, const Facts& f) {
    if (!f.dynamic || f.stage > 0 || f.amp || !(c.has("fp16.hysteresis") || c.has("fp16.consecutive_hysteresis")))
        return {};
    return FindingText{"without ZeRO the fp16 wrapper has no hysteresis: every overflow halves the scale",
                       "ZeRO stage 1, or remove the key"};
}

/// Returns whether DeepSpeed refuses a loss scale that is a boolean, negative or not finite. Older versions take it as
/// it is written.
bool checks_scale(const Context& c) { return c.since("deepspeed", "0.18.8"); }

/// Returns whether DeepSpeed refuses a window or a floor of the dynamic scale that is not positive.
bool checks_window(const Context& c) { return c.since("deepspeed", "0.19.3"); }

Found loss_scale_value(const Context& c, const Facts&) {
    const files::ConfigValue* value = c.value("fp16.loss_scale");
    if (value == nullptr || value->is_null() || is_auto(c, "fp16.loss_scale")) return {};
    const double scale = value->is_boolean() ? value->boolean : files::written_number(*value).value_or(std::nan(""));
    const bool is_wrong = value->is_boolean() || !std::isfinite(scale) || scale < 0;
    if (!is_wrong || (!checks_scale(c) && !std::isnan(scale))) return {};
    return FindingText{
        fmt::format("`{}` is not a valid scale: {} requires a finite number of at least 0", value->written, title(c)),
        "0 for a dynamic scale, or a power of two for a fixed one"};
}
Found loss_scale_boolean(const Context& c, const Facts&) {
    const files::ConfigValue* value = c.value("fp16.loss_scale");
    if (value == nullptr || !value->is_boolean() || checks_scale(c)) return {};
    return FindingText{
        fmt::format("Python treats booleans as numbers: {} reads `{}` as {}", title(c), value->written,
                    value->boolean ? "the static scale 1, so small gradients are lost" : "0, a dynamic scale"),
        "0 for a dynamic scale, or a positive number for a fixed one"};
}
Found window_not_positive(const Context& c, const Facts& f) {
    const double window = c.number("fp16.loss_scale_window").value_or(1000);
    if (!f.dynamic || window > 0 || (!checks_window(c) && window != 0)) return {};
    const bool has_bad_floor = c.number("fp16.min_loss_scale").value_or(1) <= 0;
    return FindingText{
        checks_window(c) ? "a dynamic scale requires a window of at least 1"
                         : "a window of 0 leads to a division by zero in the first clean step",
        has_bad_floor ? "\"loss_scale_window\": 1000 with \"min_loss_scale\": 1" : "\"loss_scale_window\": 1000"};
}
Found floor_not_positive(const Context& c, const Facts& f) {
    if (!f.dynamic || !checks_window(c) || c.number("fp16.min_loss_scale").value_or(1) > 0) return {};
    return FindingText{"a dynamic scale requires a minimum scale above 0", "\"min_loss_scale\": 1"};
}
Found static_scale(const Context&, const Facts& f) {
    if (!f.fp16 || f.dynamic || f.amp) return {};
    return FindingText{fmt::format("the loss scale stays at {}: a step that overflows is skipped but the scale is not "
                                   "lowered, so a run that always overflows never trains",
                                   f.loss_scale),
                       "\"loss_scale\": 0 for a dynamic scale"};
}
Found floor_raises(const Context& c, const Facts& f) {
    if (!f.dynamic || f.stage == 0 || f.amp || !c.has("fp16.min_loss_scale")) return {};
    return FindingText{
        fmt::format("min_loss_scale does not keep the run alive: an overflow at scale {} ends it with an exception",
                    c.number("fp16.min_loss_scale").value_or(1)),
        ""};
}
Found half_gradients(const Context& c, const Facts& f) {
    if (!f.dynamic || f.amp) return {};
    return FindingText{
        fmt::format("the scale grows after {} clean steps, and the gradients of the last of these steps are divided "
                    "by the new scale: they have half their value unless they are clipped",
                    c.number("fp16.loss_scale_window").value_or(1000)),
        ""};
}
Found wrapper_assumed(const Context&, const Facts& f) {
    if (!f.fp16 || f.stage > 0 || f.amp || !f.optimizer.empty()) return {};
    return FindingText{
        "the program provides the optimiser; macheps assumes the fused wrapper of Adam, which scales the loss like the "
        "unfused wrapper",
        ""};
}
Found scaler_keys_unread(const Context& c, const Facts& f) {
    if (f.fp16 || is_auto(c, "fp16.enabled") || !(f.has_scaler_keys || c.has("fp16.loss_scale"))) return {};
    return FindingText{"fp16 is off, so the other keys of its section have no effect", ""};
}

// Findings about master weights, accumulation and reduction of gradients.

/// Reports fp16 master weights if the ZeRO stage does not support them. From 0.17.1 on, DeepSpeed checks this even if
/// fp16 is off.
Found fp16_masters(const Context& c, const Facts& f) {
    if (!c.flag("fp16.fp16_master_weights_and_grads") || (!f.fp16 && !has_models(c))) return {};
    if (c.since("deepspeed", "0.18.3")) {
        if (f.stage >= 1 && f.stage <= 3) return {};
        return FindingText{"fp16 masters require ZeRO 1, 2 or 3: DeepSpeed asserts this even if fp16 is off",
                           "a ZeRO stage, or remove the key"};
    }
    if (f.stage == 2 && (f.offload || !f.fp16)) return {};
    return FindingText{"fp16 masters require ZeRO 2 with its optimiser (DeepSpeedCPUAdam) on the CPU",
                       "\"stage\": 2 with \"offload_optimizer\": {\"device\": \"cpu\"}, or remove the key"};
}
Found bf16_masters(const Context& c, const Facts& f) {
    if (!c.since("deepspeed", "0.18.3")) return {};  // from 0.18.3 on, asserted even if bf16 is off
    const bool masters = c.flag("bf16.bf16_master_weights_and_grads"), states = c.flag("bf16.bf16_optimizer_states");
    if (states && !masters)
        return FindingText{"bf16_optimizer_states requires bf16_master_weights_and_grads", "both, or neither"};
    if ((masters || states) && (f.stage < 1 || f.stage > 3))
        return FindingText{"bf16 masters require ZeRO 1, 2 or 3", "a ZeRO stage, or remove the key"};
    return {};
}
Found low_masters(const Context& c, const Facts& f) {
    const bool fp16 = f.fp16 && c.flag("fp16.fp16_master_weights_and_grads"),
               bf16 = f.bf16 && c.flag("bf16.bf16_master_weights_and_grads");
    if (!fp16 && !bf16) return {};
    return FindingText{
        fmt::format("the masters are also {}: an update below half an ulp of its weight is lost (for a weight "
                    "of 0.02, about {})",
                    fp16 ? "fp16" : "bf16", fp16 ? "8e-6" : "6e-5"),
        "remove the key to get fp32 masters", fp16 ? 0u : 1u};
}

// Settings with their sections, because the config may not have these sections.
constexpr std::string_view zero_1 = "\"zero_optimization\": {\"stage\": 1}";
std::string sums_in(std::string_view format) {
    return fmt::format("\"data_types\": {{\"grad_accum_dtype\": \"{}\"}}", format);
}

Found accum_name(const Context& c, const Facts& f) {
    if (!c.has("data_types.grad_accum_dtype") || f.accum != 0) return {};
    return FindingText{fmt::format("`{}` is not a dtype that DeepSpeed knows", c.text("data_types.grad_accum_dtype")),
                       "fp32, fp16 or bf16"};
}
Found accum_mix(const Context& c, const Facts& f) {
    if (f.stage > 0 || f.accum == 0 || f.amp || is_auto(c, "fp16.enabled") || is_auto(c, "bf16.enabled")) return {};
    const std::string now =
        fmt::format("{} gradients summed in {} without ZeRO", format_word(f.low), format_word(f.accum));
    if (f.low == 'B' && f.accum == 'B' && !c.since("deepspeed", "0.17.6"))
        return FindingText{fmt::format("{}: {} has no wrapper for this", now, title(c)),
                           fmt::format("{}, or a ZeRO stage", sums_in("fp32"))};
    if (f.low == 'B' && f.accum == 'F' && c.since("deepspeed", "0.18.5"))
        return FindingText{
            fmt::format("{}: {} refuses it (versions before 0.17.6 did this by default); ZeRO 1 sums in fp32", now,
                        title(c)),
            std::string(zero_1), 3};
    if (f.low == f.accum || (f.low == 'B' && f.accum == 'F')) return {};
    return FindingText{fmt::format("{}: DeepSpeed refuses the mix", now),
                       fmt::format("{}, or remove it", sums_in(format_word(f.low)))};
}
Found accum_unread(const Context& c, const Facts& f) {
    if (!f.wrong_wrapper) return {};
    return FindingText{
        fmt::format("{} takes FP16_UnfusedOptimizer for this config: the setting is accepted, but gradients are summed "
                    "in bf16{}",
                    title(c), f.stage == 1 ? ", and the optimiser's state is not sharded" : ""),
        f.stage == 1 ? "deepspeed 0.18.5 or newer" : "deepspeed 0.18.5 or newer, with ZeRO stage 1"};
}
Found accum_low(const Context& c, const Facts& f) {
    const double steps = c.number("gradient_accumulation_steps").value_or(1);
    if (f.low != 'B' || f.accum != 'B' || f.amp || f.wrong_wrapper || !(steps > 1)) return {};
    return FindingText{
        fmt::format("gradients of {} micro-batches are summed in bf16: with 8 bits of significand, terms more "
                    "than 256 times smaller than the sum are lost",
                    steps),
        advise_fp32_sums(c, f)};
}

Found parameter_dtype(const Context& c, const Facts& f) {
    if (!c.has("data_types.param_dtype") || c.dtype("data_types.param_dtype") == f.low) return {};
    return FindingText{fmt::format("param_dtype is `{}`, but the model is {}: DeepSpeed asserts that they agree",
                                   c.text("data_types.param_dtype"), format_word(f.low)),
                       fmt::format("\"param_dtype\": \"{}\"", format_word(f.low))};
}
Found wire_name(const Context& c, std::string_view key) {
    if (!c.has(key) || is_auto(c, key)) return {};
    const std::string name = lowered(c.text(key));
    if (name == "fp32" || name == "fp16" || name == "bf16") return {};
    return FindingText{fmt::format("`{}` is refused: this key accepts only three names", c.text(key)),
                       "fp32, fp16 or bf16"};
}
Found communication_name(const Context& c, const Facts&) { return wire_name(c, "communication_data_type"); }
Found sequence_name(const Context& c, const Facts&) { return wire_name(c, "seq_parallel_communication_data_type"); }

Found predivide_scatter(const Context& c, const Facts& f) {
    const bool divides = c.number("gradient_predivide_factor").value_or(1) != 1,
               prescales = c.flag("prescale_gradients");
    if (f.stage < 2 || !c.flag("zero_optimization.reduce_scatter") || !(divides || prescales)) return {};
    return FindingText{fmt::format("ZeRO {} with reduce_scatter (its default) does not accept {}", f.stage,
                                   divides ? "gradient_predivide_factor" : "prescale_gradients"),
                       "remove it, or set \"reduce_scatter\": false", divides ? 0u : 1u};
}
Found bf16_unchecked(const Context& c, const Facts& f) {
    if (!f.bf16 || f.amp || skips_invalid_steps(c, f)) return {};
    const bool is_ignored = f.fused && (f.wrong_wrapper || (f.stage == 0 && c.since("deepspeed", "0.17.6")));
    std::string_view reason = has_models(c) ? "" : " before 0.17.1";
    std::string instead = has_models(c) ? "\"bf16\": {\"check_grad_overflow\": true}" : "watch the gradient norm";
    if (is_ignored) {
        reason = ", because the wrapper of fused Adam ignores check_grad_overflow before 0.19.8";
        instead = fmt::format("ZeRO 1{} with \"check_grad_overflow\": true",
                              f.wrong_wrapper ? " without grad_accum_dtype, and" : "");
    }
    return FindingText{
        fmt::format(
            "bf16 gradients are not checked for Inf or NaN{}: a step with NaN is taken, and NaN reaches the weights",
            reason),
        std::move(instead)};
}
Found check_unread(const Context& c, const Facts& f) {
    if (!f.bf16 || f.amp || !has_models(c) || !c.has("bf16.check_grad_overflow")) return {};
    if (c.flag("bf16.check_grad_overflow") || !skips_invalid_steps(c, f)) return {};
    return FindingText{"the wrapper of this config always checks gradients, so the key has no effect", ""};
}
Found bf16_skips(const Context& c, const Facts& f) {
    if (!f.bf16 || f.amp || !skips_invalid_steps(c, f)) return {};
    return FindingText{
        c.since("deepspeed", "0.19.8")
            ? "a step with Inf or NaN in bf16 gradients is skipped: the log has a WARNING, and `skipped_steps` counts "
              "it"
            : "a step with Inf or NaN in bf16 gradients is skipped silently; only `skipped_steps` counts it",
        ""};
}

// Findings about torch_autocast, Apex, optimisers and compression.

Found autocast_over_model(const Context&, const Facts& f) {
    if (!f.autocast || f.low == 'F') return {};
    return FindingText{
        fmt::format("torch_autocast is used with {}: the whole model is still cast, and autocast only widens "
                    "the operations on its fp32 list",
                    format_word(f.low)),
        "only one of the two"};
}
Found autocast_scaler(const Context& c, const Facts& f) {
    if (!f.autocast || f.low != 'F' || c.dtype("torch_autocast.dtype") != 'H') return {};
    return FindingText{
        f.stage == 0 ? "torch_autocast with fp16 makes a plain torch.amp.GradScaler; the keys of `fp16` are not read"
                     : "torch_autocast with fp16 and ZeRO: ZeRO's own wrapper scales the loss",
        ""};
}
Found outer_autocast(const Context& c, const Facts& f) {
    if (f.autocast || !c.since("deepspeed", "0.17.2") || !c.has("torch_autocast")) return {};
    return FindingText{
        "an autocast region around the engine has no effect: DeepSpeed switches it off unless the torch_autocast "
        "section is on",
        ""};
}
Found inner_autocast(const Context&, const Facts& f) {
    if (!f.autocast) return {};
    return FindingText{
        "inside the engine this section applies, even if the program has opened another autocast region around it", {}};
}
Found amp_zero(const Context&, const Facts& f) {
    if (!f.amp || f.stage == 0) return {};
    return FindingText{"Apex amp cannot be combined with ZeRO: DeepSpeed asserts this", "\"fp16\" instead of \"amp\""};
}
Found amp_half(const Context&, const Facts& f) {
    if (!f.amp || f.low == 'F') return {};
    return FindingText{fmt::format("Apex amp and {} are both on: DeepSpeed refuses the config", format_word(f.low)),
                       "only one of the two"};
}
Found max_grad_norm(const Context& c, const Facts&) {
    if (!c.value("optimizer.params.max_grad_norm")) return {};
    return FindingText{"the optimiser has no max_grad_norm: the parser only warns, but then the engine raises an error",
                       "\"gradient_clipping\" at the top level"};
}
Found vocabulary(const Context& c, const Facts&) {
    const double size = c.number("vocabulary_size").value_or(0);
    if (size <= 0 || std::fmod(size, 8) == 0) return {};
    return FindingText{fmt::format("the vocabulary size {} is not a multiple of 8, which tensor cores need", size),
                       fmt::format("{}", 8 * std::ceil(size / 8))};
}
Found lamb_static(const Context&, const Facts& f) {
    if ((f.optimizer != "lamb" && f.optimizer != "onebitlamb") || f.dynamic) return {};
    return FindingText{"LAMB requires a dynamic loss scale: DeepSpeed asserts this",
                       "\"fp16\": {\"enabled\": true, \"loss_scale\": 0}"};
}
bool compresses_momentum(const Facts& f) {
    return f.optimizer == "onebitadam" || f.optimizer == "onebitlamb" || f.optimizer == "zerooneadam";
}
Found optimizer_removed(const Context& c, const Facts& f) {
    if (!compresses_momentum(f) || !c.since("deepspeed", "0.19.7")) return {};
    return FindingText{
        fmt::format("{} does not have {}, which was removed in 0.19.7", title(c), c.text("optimizer.type")),
        f.optimizer == "onebitlamb" ? "\"type\": \"Lamb\"" : "\"type\": \"Adam\""};
}
Found lossy_wire(const Context& c, const Facts& f) {
    if (!compresses_momentum(f) || c.since("deepspeed", "0.19.7")) return {};
    return not_emulated(fmt::format(
        "the compression of {} is not emulated: after its warm-up, it sends momentum between ranks as signs",
        c.text("optimizer.type")));
}
Found quantized_wire(const Context& c, const Facts&) {
    for (std::string_view key :
         {"zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"}) {
        if (c.flag(key))
            return not_emulated(
                "the compression of ZeRO++ is not emulated: it sends weights as int8 or gradients as int4 between "
                "ranks");
    }
    return {};
}
Found compressed(const Context& c, const Facts&) {
    if (!c.has("compression_training") && !c.has("weight_quantization")) return {};
    return not_emulated("compression_training is not emulated: it quantises weights or activations in training");
}

const FindingRow<Facts> finding_rows[] = {
    {"fp16-and-bf16", error, {"fp16.enabled", "bf16.enabled"}, both_on},
    {"fp16-unsupported", error, {"fp16.enabled"}, fp16_device},
    {"bf16-unsupported", error, {"bf16.enabled"}, bf16_device},
    {"loss-scale", error, {"fp16.loss_scale"}, loss_scale_value},
    {"loss-scale-window", error, {"fp16.loss_scale_window"}, window_not_positive},
    {"min-loss-scale", error, {"fp16.min_loss_scale"}, floor_not_positive},
    {"fp16-masters", error, {"fp16.fp16_master_weights_and_grads", "zero_optimization.stage"}, fp16_masters},
    {"bf16-masters",
     error,
     {"bf16.bf16_master_weights_and_grads", "bf16.bf16_optimizer_states", "zero_optimization.stage"},
     bf16_masters},
    {"accumulation-dtype", error, {"data_types.grad_accum_dtype"}, accum_name},
    {"accumulation-mix",
     error,
     {"data_types.grad_accum_dtype", "bf16.enabled", "fp16.enabled", "zero_optimization.stage"},
     accum_mix},
    {"parameter-dtype", error, {"data_types.param_dtype", "fp16.enabled", "bf16.enabled"}, parameter_dtype},
    {"optimizer-removed", error, {"optimizer.type"}, optimizer_removed},
    {"communication-dtype", error, {"communication_data_type"}, communication_name},
    {"sequence-communication-dtype", error, {"seq_parallel_communication_data_type"}, sequence_name},
    {"predivide-with-reduce-scatter",
     error,
     {"gradient_predivide_factor", "prescale_gradients", "zero_optimization.stage", "zero_optimization.reduce_scatter"},
     predivide_scatter},
    {"amp-with-zero", error, {"amp.enabled", "zero_optimization.stage"}, amp_zero},
    {"amp-with-half", error, {"amp.enabled", "fp16.enabled", "bf16.enabled"}, amp_half},
    {"max-grad-norm", error, {"optimizer.params.max_grad_norm"}, max_grad_norm},
    {"safe-modules-match-nothing", error, {"torch_autocast.lower_precision_safe_modules"}, safe_modules},
    {"lamb-static-scale", error, {"optimizer.type", "fp16.loss_scale"}, lamb_static},
    {"auto-is-true", warning, {"fp16.enabled"}, auto_true_fp16},
    {"auto-is-true", warning, {"bf16.enabled"}, auto_true_bf16},
    {"bf16-emulated", warning, {"bf16.enabled"}, bf16_emulated},
    {"initial-scale-trap",
     warning,
     {"fp16.initial_scale_power", "fp16.enabled", "zero_optimization.stage"},
     scale_trap},
    {"large-initial-scale", warning, {"fp16.initial_scale_power"}, large_initial_scale},
    {"hysteresis-zero", warning, {"fp16.hysteresis"}, no_hysteresis},
    {"loss-scale-boolean", warning, {"fp16.loss_scale"}, loss_scale_boolean},
    {"static-scale", warning, {"fp16.loss_scale"}, static_scale},
    {"low-masters", warning, {"fp16.fp16_master_weights_and_grads", "bf16.bf16_master_weights_and_grads"}, low_masters},
    {"accumulation-unread", warning, {"data_types.grad_accum_dtype", "zero_optimization.stage"}, accum_unread},
    {"low-accumulation",
     warning,
     {"data_types.grad_accum_dtype", "zero_optimization.stage", "gradient_accumulation_steps"},
     accum_low},
    {"buffers-cast", warning, {"fp16.enabled", "bf16.enabled"}, buffers_cast},
    {"nan-reaches-weights", warning, {"bf16.check_grad_overflow", "bf16.enabled"}, bf16_unchecked},
    {"vocabulary", warning, {"vocabulary_size"}, vocabulary},
    {"autocast-over-model",
     contradiction,
     {"torch_autocast.enabled", "fp16.enabled", "bf16.enabled"},
     autocast_over_model},
    {"hysteresis-unread", inert, {"fp16.hysteresis", "zero_optimization.stage"}, hysteresis_unread},
    {"overflow-check-unread", inert, {"bf16.check_grad_overflow", "zero_optimization.stage"}, check_unread},
    {"scaler-keys-unread", inert, {"fp16.enabled", "fp16.loss_scale"}, scaler_keys_unread},
    {"auto", note, {"fp16.enabled"}, auto_fp16},
    {"auto", note, {"bf16.enabled"}, auto_bf16},
    {"auto", note, {"gradient_clipping"}, auto_clipping},
    {"whole-model-cast", note, {"fp16.enabled", "bf16.enabled"}, whole_model},
    {"floor-raises", note, {"fp16.min_loss_scale"}, floor_raises},
    {"growth-step-half-gradient", note, {"fp16.enabled", "fp16.loss_scale_window"}, half_gradients},
    {"wrapper-assumed", note, {"fp16.enabled", "optimizer.type"}, wrapper_assumed},
    {"silent-skip", note, {"bf16.check_grad_overflow", "bf16.enabled"}, bf16_skips},
    {"autocast-scaler", note, {"torch_autocast.dtype"}, autocast_scaler},
    {"outer-autocast", warning, {"torch_autocast.enabled"}, outer_autocast},
    {"outer-autocast", contradiction, {"torch_autocast.enabled"}, inner_autocast},
    {"compressed-momentum", note, {"optimizer.type"}, lossy_wire},
    {"quantized-communication",
     note,
     {"zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"},
     quantized_wire},
    {"compression", note, {"compression_training", "weight_quantization"}, compressed},
};

}  // namespace

std::string advise_fp32_sums(const ImportContext& context, const Facts& facts) {
    // Without ZeRO, no release that sums in bf16 accepts and reads the setting.
    std::string advice = sums_in("fp32");
    if (facts.stage == 0) advice += fmt::format(" with {}", zero_1);
    return confuses_wrappers(context, facts) ? fmt::format("deepspeed 0.18.5 or newer, and {}", advice) : advice;
}

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::deepspeed
