// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/memory/advise.hpp"
#include "core/format_table.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/resolved.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace macheps::configs {

namespace {

constexpr GoalRow goal_rows[] = {
    {"pretrain", Goal::pretrain}, {"finetune", Goal::finetune}, {"lora", Goal::lora}, {"inference", Goal::inference}};

// Names of the sources that the statements below cite. docs/guides.md quotes the guides among them.
constexpr std::string_view guide_formats = "general guide, 3.2", guide_memory = "general guide, 2.2, corrected",
                           guide_scaling = "general guide, 4, corrected",
                           guide_pitfalls = "general guide, 5.2, corrected",
                           guide_tf32 = "general guide, 6.1, corrected", guide_fp8 = "general guide, 6.2, corrected",
                           guide_matrix = "general guide, 9", axolotl = "Axolotl's guide, choosing a format",
                           axolotl_fp8 = "Axolotl's guide, fp8", axolotl_checks = "Axolotl's guide, validation",
                           tips = "LLaMA-Factory tips";

bool trains(const AdviceAsked& asked) { return asked.goal != Goal::inference; }
bool is_small(const AdviceAsked& asked) { return asked.params.has_value() && *asked.params < 1e8; }
bool is_large(const AdviceAsked& asked) { return asked.params.has_value() && *asked.params > 1e9; }
/// Returns the letter of the format in which matmuls should compute (training_format.hpp).
char format_for(const AdviceAsked& asked) { return training_format(*asked.device, asked.trained_in_bf16); }
/// Returns whether the weights need bf16, which the device does not multiply.
bool lacks_format(const AdviceAsked& asked) {
    return asked.trained_in_bf16 && format_for(asked) == 'F' && asked.device->fp16;
}
bool has_tf32(const AdviceAsked& asked) { return asked.device->tf32; }
bool is_lora(const AdviceAsked& asked) { return asked.goal == Goal::lora; }
bool starts_from_weights(const AdviceAsked& asked) { return asked.goal == Goal::finetune || asked.goal == Goal::lora; }
bool is_cpu(const AdviceAsked& asked) { return asked.device->kind == DeviceProfile::Kind::cpu; }
bool emulates_bf16(const AdviceAsked& asked) { return asked.device->torch_says_bf16 && !asked.device->bf16; }
bool has_fnuz(const AdviceAsked& asked) { return asked.device->fp8_formats.find("fnuz") != std::string_view::npos; }

const DimensionRule& fp8_sides() { return dimension_rules().back(); }
/// Returns whether fp8 matmuls accept at least one of the dimensions in the request. Returns true if the request
/// contains no dimensions.
bool fp8_fits(const AdviceAsked& asked) {
    return asked.sides.empty() || unfit_sides(fp8_sides(), asked.sides).size() < asked.sides.size();
}
bool fp8_leaves_some_out(const AdviceAsked& asked) { return !unfit_sides(fp8_sides(), asked.sides).empty(); }

constexpr Statement small_reasons[] = {{"below 100 million parameters, low precision gains little", guide_matrix}};
constexpr Statement small_watch[] = {
    {"tf32 is off by default: set torch.backends.cuda.matmul.allow_tf32 to True", guide_tf32, has_tf32}};

constexpr Statement bf16_reasons[] = {
    {"bf16 has the range of fp32, so the loss needs no scaling", guide_formats},
    {"this device multiplies bf16 natively", axolotl},
    {"autocast keeps weights, gradients and moments in fp32: no update is lost", "PyTorch 2.7, torch.autocast"},
    {"adapters stay fp32 while the base is frozen in 16 bits or less: only parameters of adapters take 16 bytes each",
     "peft, tuners_utils.py:2657", is_lora}};
constexpr Statement bf16_watch[] = {
    {"bf16 has 8 bits of significand: weights that are themselves bf16 lose every update below half an ulp, so make "
     "sure that the weights are fp32",
     "general guide, 3.2, corrected"},
    {"transformers 5 loads a bf16 checkpoint as bf16, so there are no fp32 weights; request dtype float32",
     "transformers 5, modeling_utils.py:3989", [](const AdviceAsked& asked) { return asked.goal == Goal::finetune; }},
    {"weights, gradients and moments take 16 bytes per parameter, as in fp32: only activations shrink", guide_memory,
     [](const AdviceAsked& asked) { return asked.goal != Goal::lora; }},
    {"with a quantised base, set upcast_layernorm", tips, is_lora},
    {"CPU autocast lists neither softmax nor layer norm: they run in the format of their input",
     "PyTorch 2.7, autocast_mode.cpp:327", is_cpu}};

constexpr Statement fp16_reasons[] = {
    {"this device multiplies fp16, but not bf16", guide_matrix},
    {"gradients below 2^-25 become 0 in fp16, so the loss is scaled and gradients are unscaled in fp32",
     guide_scaling}};
constexpr Statement fp16_watch[] = {
    {"an overflow halves the scale and skips the step; lower the scale if steps overflow, and raise it if gradients "
     "vanish",
     guide_pitfalls},
    {"unscale before clipping: otherwise the scaled gradients are clipped to almost nothing", "pytorch/examples #1196"},
    {"keep trained weights in fp32: GradScaler refuses fp16 gradients", "PyTorch 2.7, grad_scaler.py:264"},
    {"a checkpoint trained in bf16 can have activations beyond 65504, which fp16 cannot represent",
     "transformers #4586", starts_from_weights},
    {"above a billion parameters fp16 training is harder to keep stable: watch skipped steps and the largest "
     "activation of each layer",
     guide_formats, is_large},
    {"torch reports that bf16 is supported here, because it counts emulation: `auto` may choose bf16, which is slow",
     "PyTorch 2.9, is_bf16_supported", emulates_bf16}};

constexpr Statement fp8_reasons[] = {
    {"this device multiplies fp8: with torch.compile the hidden linears run faster than in bf16", axolotl_fp8},
    {"everything except the operands of hidden linears runs as under bf16 autocast", "torchao, float8 tensorwise"}};
constexpr Statement fp8_watch[] = {
    {"sums of fp8 products keep 14 bits unless they are promoted; use_fast_accum skips the promotion (h100-fp8-fast)",
     "preset h100-fp8-fast", [](const AdviceAsked& asked) { return asked.device->name == "h100"; }},
    {"compare with bf16 first, and set torch_compile: without it fp8 may be slower", axolotl_fp8},
    {"fp8 is enabled by a recipe; no layer accepts an fp8 dtype for its parameters", guide_fp8},
    {"linears whose sides are not multiples of 16 silently stay bf16", "accelerate, utils/ao.py:49",
     fp8_leaves_some_out},
    {"torchao's fp8 refuses FSDP with cpu_ram_efficient_loading, which is on by default",
     "accelerate, accelerator.py:519"},
    {"fp8 cannot be combined with a quantised base", "LLaMA-Factory, parser.py:521",
     [](const AdviceAsked& asked) { return asked.goal == Goal::finetune; }},
    {"this device's fp8 formats are e4m3fnuz and e5m2fnuz; the policy uses the OCP formats", "device profile mi300x",
     has_fnuz}};

constexpr Statement pure_reasons[] = {
    {"weights, gradients and moments take half the bytes of fp32: useful for GaLore and APOLLO, whose savings autocast "
     "would undo",
     tips}};
constexpr Statement pure_watch[] = {
    {"without fp32 weights, updates below half an ulp are lost; policy pure-bf16-sr rounds stochastically instead",
     "general guide, 3.2, corrected"},
    {"at beta2 0.999 a bf16 second moment never decays", "PyTorch 2.7, adam.py:96"},
    {"LLaMA-Factory refuses pure_bf16 with ZeRO 3", "LLaMA-Factory, parser.py:498"}};

constexpr Statement tf32_reasons[] = {
    {"everything is fp32 except the operands of matmuls, which are rounded to 10 fraction bits", "general guide, 6.1"}};
constexpr Statement tf32_watch[] = {
    {"set torch.backends.cuda.matmul.allow_tf32: it is off by default, unlike cuDNN's flag", guide_tf32}};

constexpr Statement infer_fp16_reasons[] = {
    {"a forward pass has no gradients that could vanish: no scaling is needed", guide_matrix},
    {"weights take half the bytes of fp32", guide_matrix}};
constexpr Statement infer_fp16_watch[] = {
    {"a model trained in bf16 can have activations beyond 65504: use pure-bf16 for it", "transformers #4586"},
    {"compare evaluation metrics with those of fp32", axolotl_checks}};
constexpr Statement infer_bf16_reasons[] = {{"bf16 takes half the bytes of fp32 and has its range", guide_formats}};
constexpr Statement infer_bf16_watch[] = {
    {"bf16 has 8 bits of significand: compare evaluation metrics with those of fp32", axolotl_checks}};

constexpr Statement fp32_reasons[] = {
    {"the weights were trained in bf16, which this device does not multiply: their activations can exceed 65504, the "
     "largest number of fp16, and the loss then becomes NaN, with and without a loss scaler",
     "transformers #4586", lacks_format},
    {"fp32 has the most headroom: it is the baseline for comparisons and the fallback if training is unstable",
     guide_matrix}};
constexpr Statement fp32_watch[] = {{"tf32 alone makes matmuls several times as fast if the device has it",
                                     "general guide, 6.1",
                                     [](const AdviceAsked& asked) { return trains(asked) && has_tf32(asked); }}};

constexpr AdviceRow rows[] = {
    {"fp16-inference", "forward pass only, on a device that multiplies fp16", "pure-fp16",
     [](const AdviceAsked& a) { return !trains(a) && a.device->fp16 && !a.trained_in_bf16; }, infer_fp16_reasons,
     infer_fp16_watch},
    {"bf16-inference", "forward pass only, on a device that multiplies bf16", "pure-bf16",
     [](const AdviceAsked& a) { return !trains(a) && a.device->bf16; }, infer_bf16_reasons, infer_bf16_watch},
    {"small-model", "fewer than 100 million parameters", "fp32",
     [](const AdviceAsked& a) { return trains(a) && is_small(a); }, small_reasons, small_watch},
    {"bf16-autocast", "training on a device that multiplies bf16", "amp-bf16",
     [](const AdviceAsked& a) { return trains(a) && format_for(a) == 'B'; }, bf16_reasons, bf16_watch},
    {"fp16-autocast", "training on a device that multiplies fp16 but not bf16", "amp-fp16",
     [](const AdviceAsked& a) { return trains(a) && format_for(a) == 'H'; }, fp16_reasons, fp16_watch},
    {"fp8", "full training on a device that multiplies fp8, if linears have sides that are multiples of 16",
     "fp8-tensorwise",
     [](const AdviceAsked& a) { return trains(a) && !is_lora(a) && a.device->fp8 && !is_small(a) && fp8_fits(a); },
     fp8_reasons, fp8_watch},
    {"pure-bf16", "full fine-tuning if memory is short", "pure-bf16",
     [](const AdviceAsked& a) { return a.goal == Goal::finetune && a.device->bf16; }, pure_reasons, pure_watch},
    {"tf32", "training on a device that has tf32", "tf32",
     [](const AdviceAsked& a) { return trains(a) && a.device->tf32; }, tf32_reasons, tf32_watch},
    {"fp32", "always", "fp32", [](const AdviceAsked& a) { return !(trains(a) && is_small(a)); }, fp32_reasons,
     fp32_watch},
};

constexpr DimensionRule sides[] = {
    {"fp16, bf16", 8, "tensor cores need rows of 16 bytes: 8 numbers of fp16 or bf16", "general guide, 9",
     [](const DeviceProfile& device) { return device.is_cuda_like() && (device.fp16 || device.bf16); }},
    {"fp8", 16, "fp8 kernels need rows of 16 bytes: 16 numbers; frameworks leave other linears in 16 bits",
     "LLaMA-Factory FP8 environment, dimension alignment", [](const DeviceProfile& device) { return device.fp8; }},
};

std::string format_at(const policy::ResolvedPolicy& policy, std::string_view place) {
    return std::string(format_name(policy.cast(place).format));
}

/// Returns the format in a field of the config, spelled as in policies, or an empty text if the field has no format.
std::string format_in(const ResolvedConfig& config, std::string_view field) {
    const std::string_view word = config.word(field);
    if (word == "none") return {};
    return std::string(word == "F" ? "fp32" : word == "H" ? "fp16" : word == "B" ? "bf16" : word);
}

/// Returns the format that the optimiser updates: that of the adapters if there are any, otherwise that of the master
/// weights or, without master weights, that of the weights.
std::string trained_format(const ResolvedConfig& config) {
    for (const char* field : {"adapter", "master", "store"}) {
        if (std::string format = format_in(config, field); !format.empty()) return format;
    }
    return {};
}

/// Returns "yes" if the loss is scaled, otherwise "no". A static scale of 1 counts as "no".
std::string is_scaled(const policy::ResolvedPolicy& policy) {
    const policy::LossScalerConfig& scaler = policy.loss_scaler;
    const bool is_one = scaler.kind->name == "static" && scaler.find("init_scale") == 1.0;
    return scaler.kind->name == "none" || is_one ? "no" : "yes";
}

/// A question about a policy, and the reason why the answer matters. `answer` finds the answer in the policy. If the
/// policy was imported from a config and `config_answer` is not null, `config_answer` finds it in the config instead,
/// because a config can contain more than its policy, for example adapters and 8-bit moments.
struct Question {
    std::string_view what;
    std::string (*answer)(const policy::ResolvedPolicy& policy);
    std::string_view why, source;
    std::string (*config_answer)(const ResolvedConfig& config) = nullptr;
};

constexpr Question questions[] = {
    {"matmuls read", [](const policy::ResolvedPolicy& p) { return format_at(p, "block.0.mlp.up:forward.a"); },
     "a device multiplies only some formats natively, and formats differ in range", guide_formats},
    {"the optimiser updates",
     [](const policy::ResolvedPolicy& p) {
         const std::string weight = "block.0.mlp.up.weight";
         return format_at(p, p.has_master(weight) ? weight + ":master" : weight + ":value");
     },
     "updates below half an ulp of the weight are lost", "general guide, 5.1", trained_format},
    {"moments", [](const policy::ResolvedPolicy& p) { return format_at(p, "block.0.mlp.up.weight:moment2"); },
     "a low-precision format loses the slow decay of a second moment", "general guide, 5.1",
     [](const ResolvedConfig& config) { return format_in(config, "opt_state"); }},
    {"gradients", [](const policy::ResolvedPolicy& p) { return format_at(p, "block.0.mlp.up.weight:grad"); },
     "gradients of micro-batches are added up in this format", "PyTorch 2.7, Tensor.grad",
     [](const ResolvedConfig& config) { return format_in(config, "accum"); }},
    {"softmax gives", [](const policy::ResolvedPolicy& p) { return format_at(p, "block.0.attn.softmax:forward.out"); },
     "a low-precision format rounds the probabilities twice", "general guide, 5.1"},
    {"norms give", [](const policy::ResolvedPolicy& p) { return format_at(p, "block.0.norm1:forward.out"); },
     "a low-precision format rounds the input of every layer", "LLaMA-Factory tips, action 2"},
    {"the loss is", [](const policy::ResolvedPolicy& p) { return format_at(p, "loss:forward.mean"); },
     "a low-precision format rounds the mean of the losses", "LLaMA-Factory tips, action 3"},
    {"the loss is scaled", is_scaled, "fp16 gradients vanish below 2^-25; formats with the range of fp32 need no scale",
     guide_scaling},
    {"the optimiser's arithmetic",
     [](const policy::ResolvedPolicy& p) { return std::string(format_name(p.optimizer_arithmetic)); },
     "every operation of an optimiser step is rounded to this format", "PyTorch 2.7, adam.py:96"},
};

/// A preset `own` that replaces `preset` on one device. Needed only if the name of `own` is not DEVICE-PRESET.
struct DevicePreset {
    std::string_view device, preset, own;
};
constexpr DevicePreset device_presets[] = {
    {"h100", "fp8-tensorwise", "h100-fp8-promoted"},
    {"b200", "fp8-tensorwise", "b200-fp8"},
};

std::string on_device(const DeviceProfile& device, std::string_view preset) {
    for (const DevicePreset& row : device_presets) {
        if (row.device == device.name && row.preset == preset) return std::string(row.own);
    }
    const std::string own = fmt::format("{}-{}", device.name, preset);
    const std::vector<std::string_view> names = policy::preset_names();
    return std::find(names.begin(), names.end(), own) != names.end() ? own : std::string(preset);
}

std::vector<Statement> those_that_apply(std::span<const Statement> all, const AdviceAsked& asked) {
    std::vector<Statement> some;
    for (const Statement& each : all) {
        if (each.applies == nullptr || each.applies(asked)) some.push_back(each);
    }
    return some;
}

}  // namespace

std::span<const GoalRow> goals() { return goal_rows; }
std::span<const AdviceRow> advice_rows() { return rows; }
std::span<const DimensionRule> dimension_rules() { return sides; }

std::vector<std::int64_t> unfit_sides(const DimensionRule& rule, std::span<const std::int64_t> all) {
    std::vector<std::int64_t> unfit;
    std::copy_if(all.begin(), all.end(), std::back_inserter(unfit),
                 [&](std::int64_t side) { return side % rule.multiple_of != 0; });
    return unfit;
}

std::vector<Advice> advise(const AdviceAsked& asked) {
    std::vector<Advice> all;
    for (const AdviceRow& row : rows) {
        if (!row.applies(asked)) continue;
        all.push_back({.row = &row,
                       .policy = on_device(*asked.device, row.preset),
                       .reasons = those_that_apply(row.reasons, asked),
                       .watch = those_that_apply(row.watch, asked)});
    }
    return all;
}

std::string advice_toml(const AdviceAsked& asked, const Advice& advice) {
    const auto goal = std::find_if(std::begin(goal_rows), std::end(goal_rows),
                                   [&](const GoalRow& row) { return row.goal == asked.goal; });
    std::string text = fmt::format("# Advised for {} on {}: {}.\n", goal->name, asked.device->name, advice.row->when);
    for (const Statement& each : advice.reasons) text += fmt::format("# Because {} ({}).\n", each.text, each.source);
    for (const Statement& each : advice.watch) text += fmt::format("# Watch: {} ({}).\n", each.text, each.source);
    return text +
           fmt::format(
               "name        = \"{0}-{1}\"\ndescription = \"advised for {1} on {0}: {2}\"\nextends     = \"{3}\"\n",
               asked.device->name, goal->name, advice.row->when, advice.policy);
}

std::vector<std::string_view> compared_questions() {
    std::vector<std::string_view> all;
    for (const Question& each : questions) all.push_back(each.what);
    return all;
}

std::vector<Disagreement> disagreements(const policy::ResolvedPolicy& have, const policy::ResolvedPolicy& advised,
                                        const ResolvedConfig* config) {
    std::vector<Disagreement> all;
    for (const Question& each : questions) {
        std::string one, other = each.answer(advised);
        if (config != nullptr && each.config_answer != nullptr) one = each.config_answer(*config);
        if (one.empty()) one = each.answer(have);
        if (one == other) continue;
        all.push_back({each.what, std::move(one), std::move(other), each.why, each.source});
    }
    return all;
}

}  // namespace macheps::configs
