// SPDX-License-Identifier: Apache-2.0
// Importer of DeepSpeed's JSON. It determines which optimiser wrapper the engine creates, and the formats, scaler and
// clipping of this wrapper. Sources: deepspeed/runtime/engine.py (get_data_types, _do_optimizer_sanity_check,
// _configure_*_optimizer), config.py, precision_config.py.
#include "experiments/configs/deepspeed/deepspeed.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/apex/apex.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::configs::deepspeed {

namespace {

/// Returns whether a section is enabled. From DeepSpeed 0.17.1 on (typed sections), "auto" counts as off. Before that,
/// "auto" is a non-empty text and therefore true.
bool is_on(const ImportContext& context, std::string_view path) {
    return is_auto(context, path) ? !has_models(context) : context.flag(path);
}

char accumulation(const ImportContext& context, const Facts& facts) {
    if (context.has("data_types.grad_accum_dtype")) return context.dtype("data_types.grad_accum_dtype");
    const bool is_wide = facts.low == 'B' && facts.stage == 0 && !context.since("deepspeed", "0.17.6");
    return is_wide ? 'F' : facts.low;
}

bool uses_fused_adam(const Facts& facts, bool torch_adam) {
    if (facts.optimizer == "onebitadam" || facts.optimizer == "zerooneadam") return true;
    if (facts.optimizer.empty()) return true;  // fused Adam is assumed, and a finding reports this
    return (facts.optimizer == "adam" || facts.optimizer == "adamw") && !torch_adam && !facts.offload;
}

}  // namespace

bool confuses_wrappers(const ImportContext& context, const Facts& facts) {
    const bool wants_bf16_optimizer = facts.stage == 0 || (facts.stage == 1 && !facts.offload);
    return facts.low == 'B' && !facts.amp && wants_bf16_optimizer && context.since("deepspeed", "0.17.6") &&
           !context.since("deepspeed", "0.18.5");
}

bool has_models(const ImportContext& context) { return context.since("deepspeed", "0.17.1"); }

bool is_auto(const ImportContext& context, std::string_view path) {
    const files::ConfigValue* value = context.value(path);
    return value && value->is_text() && value->written == "auto";
}

Facts facts(const ImportContext& context) {
    Facts facts;
    facts.fp16 = is_on(context, "fp16.enabled");
    facts.bf16 = is_on(context, "bf16.enabled");
    facts.amp = !context.since("deepspeed", "0.19.8") && is_on(context, "amp.enabled");
    facts.autocast = context.since("deepspeed", "0.17.2") && is_on(context, "torch_autocast.enabled");
    facts.low = facts.fp16 ? 'H' : facts.bf16 ? 'B' : 'F';
    facts.stage = to_int(context.number("zero_optimization.stage").value_or(0));
    facts.offload = context.flag("zero_optimization.cpu_offload") ||
                    lowered(context.text("zero_optimization.offload_optimizer.device")) != "none";
    facts.accum = accumulation(context, facts);
    const files::ConfigValue* scale = context.value("fp16.loss_scale");
    const bool is_boolean = scale != nullptr && scale->is_boolean();
    facts.loss_scale = is_boolean ? (scale->boolean ? 1 : 0) : context.number("fp16.loss_scale").value_or(0);
    facts.dynamic = facts.fp16 && facts.loss_scale == 0;
    for (std::string_view key : {"fp16.initial_scale_power", "fp16.loss_scale_window", "fp16.hysteresis",
                                 "fp16.consecutive_hysteresis", "fp16.min_loss_scale"}) {
        if (context.value(key)) facts.has_scaler_keys = true;
    }
    facts.optimizer = lowered(context.text("optimizer.type"));
    facts.fused = uses_fused_adam(facts, context.flag("optimizer.params.torch_adam"));
    facts.wrong_wrapper = facts.accum == 'F' && confuses_wrappers(context, facts);
    if (facts.wrong_wrapper) facts.accum = 'B';
    facts.bf16_optimizer =
        facts.low == 'B' && facts.accum == 'F' &&
        (facts.stage == 0 ? !context.since("deepspeed", "0.17.6") : facts.stage == 1 && !facts.offload);
    return facts;
}

bool skips_invalid_steps(const ImportContext& context, const Facts& facts) {
    const bool checks_norms = context.since("deepspeed", "0.19.8");  // fp32 with ZeRO, and all wrappers of bf16
    if (facts.low != 'B') return facts.stage > 0 && checks_norms;
    // The wrappers of fp16, which bf16 without ZeRO also uses, ignore check_grad_overflow.
    if ((facts.stage == 0 && context.since("deepspeed", "0.17.6")) || facts.wrong_wrapper)
        return checks_norms || !facts.fused;
    if (facts.bf16_optimizer && checks_norms) return true;
    return has_models(context) && context.flag("bf16.check_grad_overflow");
}

namespace {

FieldValue scaler_of(const ImportContext& context, const Facts& facts) {
    const std::string version = to_string(context.version("deepspeed"));
    // bf16 and fp32 have the constant scale 1.
    if (facts.low != 'H') return skips_invalid_steps(context, facts) ? static_scaler_field(1, true) : no_scaler_field();
    if (!facts.dynamic) return static_scaler_field(facts.loss_scale, true);
    double initial = std::exp2(context.number("fp16.initial_scale_power").value_or(16));
    double hysteresis = context.number("fp16.hysteresis").value_or(2);
    double floor = context.number("fp16.min_loss_scale").value_or(1);
    // Before 0.17.1, the values in the file reach the scaler only if the file sets at least one of the five keys of the
    // dynamic scale. Otherwise each wrapper uses its own defaults.
    const bool is_trap = !has_models(context) && !facts.has_scaler_keys;
    if (facts.stage > 0) {
        if (is_trap) initial = 0x1p32, hysteresis = 1;
        return {.value = std::string("ds-zero"),
                .parts = {{"init_scale", initial},
                          {"growth_interval", context.number("fp16.loss_scale_window").value_or(1000)},
                          {"hysteresis", hysteresis},
                          {"consecutive_hysteresis", context.flag("fp16.consecutive_hysteresis")},
                          {"min_scale", floor},
                          {"version", version},
                          {"growth_step_half_grad", true}}};
    }
    if (is_trap && !facts.fused) floor = 0.25;
    return {.value = std::string("ds-fused"),
            .parts = {{"init_scale", initial},
                      {"growth_interval", context.number("fp16.loss_scale_window").value_or(1000)},
                      {"min_scale", floor},
                      {"version", version},
                      {"growth_step_half_grad", true}}};
}

void set_apex(ImportContext& context) {
    const std::string level = context.text("amp.opt_level");
    set_storage(context, apex::recipe(level), 'H', "amp.opt_level");
    const bool is_scaled = level != "O0" && level != "O3";
    context.set("scaler", is_scaled ? apex::dynamic_scaler(0, 0x1p24) : no_scaler_field(), "amp.opt_level");
}

void set_autocast(ImportContext& context, const Facts& facts) {
    char low = context.dtype("torch_autocast.dtype");
    if (low != 'H') low = 'B';
    set_storage(context, storage::amp, low, "torch_autocast.dtype");
    context.infer("oplist", word_field("ds-safe-modules"), "from torch_autocast.lower_precision_safe_modules");
    context.infer("reduce", letter(low), "from torch_autocast.dtype: gradients of the safe modules");
    // Before 0.18.0, the engine made a GradScaler only with ZeRO.
    const bool is_scaled = low == 'H' && (facts.stage > 0 || context.since("deepspeed", "0.18.0"));
    const bool skips = low == 'B' && skips_invalid_steps(context, facts);
    context.set("scaler",
                is_scaled ? torch_scaler_field({})
                : skips   ? static_scaler_field(1, true)
                          : no_scaler_field(),
                "torch_autocast.dtype");
}

void set_model(ImportContext& context, const Facts& facts) {
    const std::string_view from = facts.bf16 ? "bf16.enabled" : "fp16.enabled";
    set_storage(context, facts.low == 'F' ? storage::fp32 : storage::deepspeed, facts.low, from);
    if (facts.low != 'F') {
        if (context.flag("fp16.fp16_master_weights_and_grads") && facts.fp16) {
            context.set("master", letter('H'), "fp16.fp16_master_weights_and_grads");
            context.set("opt_state", letter('H'), "fp16.fp16_master_weights_and_grads");
        }
        if (context.flag("bf16.bf16_master_weights_and_grads") && facts.bf16)
            context.set("master", letter('B'), "bf16.bf16_master_weights_and_grads");
        if (context.flag("bf16.bf16_optimizer_states") && facts.bf16)
            context.set("opt_state", letter('B'), "bf16.bf16_optimizer_states");
        // Before 0.19.2, buffers were cast together with the module.
        if (const char buffer = context.dtype("data_types.buffer_dtype"))
            context.set("buffers", letter(buffer), "data_types.buffer_dtype");
        else if (context.since("deepspeed", "0.19.2"))
            context.infer("buffers", letter('F'), "since deepspeed 0.19.2, buffers stay as they were loaded");
    }
    if (facts.wrong_wrapper)
        context.infer("accum", letter(facts.accum), "FP16_UnfusedOptimizer does not read data_types.grad_accum_dtype");
    else if (facts.accum != 0)
        context.set("accum", letter(facts.accum), "data_types.grad_accum_dtype");
    context.set("scaler", scaler_of(context, facts), facts.fp16 ? "fp16.loss_scale" : from);
}

void set_reduction(ImportContext& context, const Facts& facts) {
    const std::string wire = lowered(context.text("communication_data_type"));
    if (wire == "fp32" || wire == "fp16" || wire == "bf16")
        context.set("reduce", letter(dtype_letter(wire)), "communication_data_type");
    else if (facts.bf16_optimizer)
        context.infer("reduce", letter('F'), "from accum: BF16_Optimizer reduces the fp32 sums");
    else if (!facts.autocast)
        context.infer("reduce", letter(facts.low), "from store: communication_data_type is not set");
    if (!context.has("prescale_gradients") && !context.has("gradient_predivide_factor")) {
        context.infer("predivide", {.value = std::string("postscale"), .parts = {{"factor", 1.0}}},
                      "the sum over ranks is divided by their number");
        return;
    }
    const bool is_prescaled = context.flag("prescale_gradients");
    context.set("predivide",
                {.value = std::string(is_prescaled ? "prescale" : "postscale"),
                 .parts = {{"factor", context.number("gradient_predivide_factor").value_or(1)}}},
                is_prescaled ? "prescale_gradients" : "gradient_predivide_factor");
}

void set_update(ImportContext& context, const Facts& facts) {
    const double max_norm = is_auto(context, "gradient_clipping") ? 0 : context.number("gradient_clipping").value_or(0);
    const bool is_plain = facts.low == 'F' && facts.stage == 0;
    const std::string_view formula = facts.bf16_optimizer ? "deepspeed-bf16" : is_plain ? "torch" : "deepspeed";
    context.set("clip", clip_field(std::string(formula), max_norm), "gradient_clipping");
    if (facts.optimizer.empty())
        context.infer("opt_kernel", word_field("fused"), "no optimizer section: DeepSpeed's fused Adam is assumed");
    else if (context.flag("optimizer.params.torch_adam"))
        context.set("opt_kernel", word_field("single"), "optimizer.params.torch_adam");
    else
        context.set("opt_kernel", word_field("fused"), "optimizer.type");
    context.infer("fp8", word_field("none"), "DeepSpeed has no fp8");
}

void resolve(ImportContext& context) {
    const Facts found = facts(context);
    report_findings(context, found);
    if (found.amp)
        set_apex(context);
    else if (found.autocast && found.low == 'F')
        set_autocast(context, found);
    else
        set_model(context, found);
    set_reduction(context, found);
    set_update(context, found);
}

/// Renames the section `bfloat16` to `bf16` if there is no section `bf16`.
void prepare(ImportContext& context) {
    if (context.value("bf16")) return;
    for (files::ConfigValue::Entry& entry : context.root().entries) {
        if (entry.key != "bfloat16") continue;
        entry.key = "bf16";
        context.report(FindingCode::note, "old-section", {"bf16"},
                       "`bfloat16` is the old name of `bf16` and is read as `bf16`", "\"bf16\"");
        return;
    }
}

}  // namespace

extern const Framework framework{
    .name = "deepspeed",
    .title = "DeepSpeed",
    .newest = "0.19.8",
    .oldest = "0.14.4",
    .keys = deepspeed::keys(),
    .marks =
        "zero_optimization train_micro_batch_size_per_gpu steps_per_print fp16.enabled bf16.enabled bfloat16.enabled "
        "data_types.grad_accum_dtype torch_autocast.enabled",
    .recognises = deepspeed::recognises,
    .refuses_unknown = deepspeed::refuses_unknown,
    .reads_quoted_booleans = [](const ImportContext& context) { return deepspeed::has_models(context); },
    .judges_type = deepspeed::judges_type,
    .prepare = deepspeed::prepare,
    .resolve = deepspeed::resolve};

}  // namespace macheps::configs::deepspeed
