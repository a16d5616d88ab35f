// SPDX-License-Identifier: Apache-2.0
// Faults and changes of DeepSpeed's loss scaler.
#include "experiments/configs/deepspeed/deepspeed.hpp"
#include "experiments/configs/history/history.hpp"

#include <cmath>

namespace macheps::configs {

namespace faults_of_deepspeed_scaler {

namespace {

using Context = ImportContext;

bool has_dynamic_scale(const deepspeed::Facts& f) { return f.dynamic && !f.amp; }

bool is_wrong_scale(const files::ConfigValue* value) {
    if (value == nullptr || value->is_null() || value->written == "auto") return false;
    const double scale = files::written_number(*value).value_or(std::nan(""));
    return value->is_boolean() || !std::isfinite(scale) || scale < 0;
}
bool has_unchecked_scale(const Context& c) {
    const deepspeed::Facts f = deepspeed::facts(c);
    if (!f.fp16) return false;
    if (!c.since("deepspeed", "0.18.8") && is_wrong_scale(c.value("fp16.loss_scale"))) return true;
    return f.dynamic &&
           (c.number("fp16.loss_scale_window").value_or(1000) <= 0 || c.number("fp16.min_loss_scale").value_or(1) <= 0);
}

const FaultRow rows[] = {
    {.id = "ds-growth-half",
     .package = "deepspeed",
     .newest_seen = "0.19.8",
     .code = FindingCode::note,
     .trigger = "fp16 with a dynamic scale, gradients not clipped",
     .keys = {"fp16.loss_scale_window", "fp16.enabled"},
     .holds = [](const Context& c) { return has_dynamic_scale(deepspeed::facts(c)); },
     .computes =
         "in a step in which the scale grows, gradients are divided by the new scale, which is twice the old one",
     .consequence = "one step in loss_scale_window has gradients of half their size",
     .remedy = "clip the gradients",
     .sentence = "DeepSpeed {v} divides the gradients of a step by the scale that it has just doubled",
     .finding = "deepspeed/growth-step-half-gradient",
     .evidence = FaultEvidence::read,
     .seen = "the sources up to 0.19.8",
     .source = "runtime/fp16/fused_optimizer.py; runtime/zero/stage_1_and_2.py; PR #8588",
     .sample = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-window-off-by-one",
     .package = "deepspeed",
     .first_bad = "0.17.1",
     .newest_seen = "0.19.8",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "fp16 with a dynamic scale and ZeRO",
     .keys = {"fp16.loss_scale_window", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const deepspeed::Facts f = deepspeed::facts(c);
             return has_dynamic_scale(f) && f.stage >= 1;
         },
     .computes = "the scale grows in the clean step after the window; before, it grew in the last step of the window",
     .consequence = "the loss scale of two versions differs by one step",
     .remedy = "compare loss scales of the same version",
     .sentence = "with ZeRO, the loss scale grows one step later than loss_scale_window says (from 0.17.1 on)",
     .evidence = FaultEvidence::run,
     .seen = "random traces against the class of each version",
     .source = "runtime/fp16/loss_scaler.py; PR #6976",
     .sample = R"({"fp16": {"enabled": true, "loss_scale_window": 1000}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-scale-validation",
     .package = "deepspeed",
     .first_good = "0.19.3",
     .code = FindingCode::error,
     .trigger = "a boolean, negative or infinite loss_scale; a window or a minimum scale of 0",
     .keys = {"fp16.loss_scale", "fp16.loss_scale_window", "fp16.min_loss_scale"},
     .holds = has_unchecked_scale,
     .computes = "the value is used as it is: true is the static scale 1, and a minimum of 0 lets the scale fall to 0. "
                 "A wrong loss_scale is refused from 0.18.8 on, a wrong window or minimum from 0.19.3 on",
     .consequence = "a static scale of 1, or a scale that falls to 0",
     .remedy = "\"loss_scale\": 0 for a dynamic scale, \"loss_scale_window\": 1000, \"min_loss_scale\": 1",
     .cure = "fp16.loss_scale=0 fp16.loss_scale_window=1000 fp16.min_loss_scale=1",
     .sentence = "DeepSpeed {v} does not check the numbers of the loss scale and uses them as they are",
     .finding = "deepspeed/loss-scale deepspeed/loss-scale-window deepspeed/min-loss-scale",
     .evidence = FaultEvidence::run,
     .seen = "accepted in 0.17.1 and 0.18.7; loss_scale is refused from 0.18.8 on, window and minimum from 0.19.3 on",
     .source = "runtime/precision_config.py; PR #7889, PR #8050",
     .sample = R"({"fp16": {"enabled": true, "min_loss_scale": 0}, "zero_optimization": {"stage": 1}})"},
    {.id = "ds-initial-2-32",
     .package = "deepspeed",
     .first_good = "0.17.1",
     .code = FindingCode::warning,
     .trigger = "fp16 with ZeRO and without any key of the dynamic scale",
     .keys = {"fp16.initial_scale_power", "fp16.enabled", "zero_optimization.stage"},
     .holds =
         [](const Context& c) {
             const deepspeed::Facts f = deepspeed::facts(c);
             return has_dynamic_scale(f) && f.stage >= 1 && !f.has_scaler_keys;
         },
     .computes = "the loss scale starts at 2^32 with hysteresis 1",
     .consequence = "at least 16 steps are skipped",
     .remedy = "\"initial_scale_power\": 16",
     .cure = "fp16.initial_scale_power=16",
     .sentence = "without a key of the dynamic scale, DeepSpeed {v} starts at scale 2^32 with hysteresis 1",
     .signature = "16 or more skipped steps at the start",
     .finding = "deepspeed/initial-scale-trap",
     .evidence = FaultEvidence::run,
     .seen = "the scale of the engine after initialize",
     .source = "runtime/config.py:215-241; loss_scaler.py:208",
     .sample = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})"},
};

}  // namespace

}  // namespace faults_of_deepspeed_scaler

std::span<const FaultRow> deepspeed_scaler_faults() { return faults_of_deepspeed_scaler::rows; }

}  // namespace macheps::configs
