// SPDX-License-Identifier: Apache-2.0
// Sources: transformers/training_args.py (OptimizerNames) and trainer.py or trainer_optimizer.py of 30 releases from
// 4.38.0 to 5.24.0; axolotl/core/builders/base.py and utils/schemas/enums.py of 0.8.0 to 0.19.0;
// llamafactory/train/trainer_utils.py of 0.9.3 to 0.9.5; bitsandbytes/optim/optimizer.py of 0.50.2 (32-bit optimisers
// keep fp32 moments whatever the format of the weights is); torchao/optim/adam.py of 0.18.0 (the step is in fp32).
#include "experiments/configs/optimisers/optimisers.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace macheps::configs {

namespace {

/// fp16's smallest positive number is 2^-24. Half of it and less is rounded to 0.
constexpr double largest_zero_in_fp16 = 0x1p-25;

constexpr OptimiserKind optimiser_kinds[] = {
    {"adamw", "AdamW"},
    {"adam", "Adam"},
    {"sgd", "SGD", 1},
    {"adafactor", "Adafactor", 0},
    {"adagrad", "Adagrad", 1},
    {"adalomo", "AdaLomo", 0},
    {"adam-mini", "Adam-mini", 1},
    {"adamc", "AdamC"},
    {"ademamix", "AdEMAMix", 3},
    {"adopt", "ADOPT"},
    {"anyprecision-adamw", "AnyPrecisionAdamW"},
    {"apollo", "APOLLO"},
    {"badam", "BAdam"},
    {"came", "CAME"},
    {"dion", "Dion"},
    {"flash-adam", "FlashAdam"},
    {"flash-adamw", "FlashAdamW"},
    {"flash-lion", "FlashLion", 1},
    {"flash-sgd", "FlashSGD", 1},
    {"flash-sgdw", "FlashSGDW", 1},
    {"galore", "GaLore"},
    {"galore-adafactor", "GaLore with Adafactor", 0},
    {"grokadamw", "GrokAdamW", 3},
    {"hf-adamw", "AdamW of Transformers"},
    {"lion", "Lion", 1},
    {"lomo", "LOMO", 0},
    {"loraplus", "LoRA+"},
    {"muon", "Muon", 1},
    {"optimi-adamw", "AdamW of optimi"},
    {"polora", "PoLoRA"},
    {"q-galore", "Q-GaLore"},
    {"rmsprop", "RMSprop", 1},
    {"schedule-free-adamw", "schedule-free AdamW"},
    {"schedule-free-radam", "schedule-free RAdam"},
    {"schedule-free-sgd", "schedule-free SGD", 1},
    {"sinkgd", "SinkGD", 0},
    {"stable-adamw", "StableAdamW"},
};

// clang-format off
constexpr OptimiserRow optimiser_rows[] = {
    // framework     name                           kind                    moments               once   since   until   raises
    {"transformers", "adamw_torch",                 "adamw"},
    {"transformers", "adamw_torch_fused",           "adamw",                Moments::of_weights,  true},
    {"transformers", "adamw_torch_xla",             "adamw"},
    {"transformers", "adamw_torch_npu_fused",       "adamw",                Moments::of_weights,  true},
    {"transformers", "adamw_apex_fused",            "adamw",                Moments::of_weights,  true,  "",     "5.8"},
    {"transformers", "adamw_hf",                    "hf-adamw",             Moments::of_weights,  false, "",     "4.50"},
    {"transformers", "adafactor",                   "adafactor"},
    {"transformers", "adamw_anyprecision",          "anyprecision-adamw",   Moments::fp32},
    {"transformers", "adamw_torch_4bit",            "adamw",                Moments::int4,        true,  "4.45"},
    {"transformers", "adamw_torch_8bit",            "adamw",                Moments::int8,        true,  "4.49"},
    {"transformers", "ademamix",                    "ademamix",             Moments::fp32,        true,  "4.45"},
    {"transformers", "sgd",                         "sgd"},
    {"transformers", "adagrad",                     "adagrad"},
    {"transformers", "adamw_bnb_8bit",              "adamw",                Moments::int8,        true},
    {"transformers", "adamw_8bit",                  "adamw",                Moments::int8,        true},
    {"transformers", "ademamix_8bit",               "ademamix",             Moments::int8,        true,  "4.45"},
    {"transformers", "lion_8bit",                   "lion",                 Moments::int8,        true},
    {"transformers", "lion_32bit",                  "lion",                 Moments::fp32,        true},
    {"transformers", "paged_adamw_32bit",           "adamw",                Moments::fp32,        true},
    {"transformers", "paged_adamw_8bit",            "adamw",                Moments::int8,        true},
    {"transformers", "paged_ademamix_32bit",        "ademamix",             Moments::fp32,        true,  "4.45"},
    {"transformers", "paged_ademamix_8bit",         "ademamix",             Moments::int8,        true,  "4.45"},
    {"transformers", "paged_lion_32bit",            "lion",                 Moments::fp32,        true},
    {"transformers", "paged_lion_8bit",             "lion",                 Moments::int8,        true},
    {"transformers", "rmsprop",                     "rmsprop"},
    {"transformers", "rmsprop_bnb",                 "rmsprop",              Moments::fp32,        true},
    {"transformers", "rmsprop_bnb_8bit",            "rmsprop",              Moments::int8,        true},
    {"transformers", "rmsprop_bnb_32bit",           "rmsprop",              Moments::fp32,        true},
    {"transformers", "galore_adamw",                "galore",               Moments::of_weights,  false, "4.39"},
    {"transformers", "galore_adamw_8bit",           "galore",               Moments::int8,        true,  "4.39"},
    {"transformers", "galore_adafactor",            "galore-adafactor",     Moments::of_weights,  false, "4.39"},
    {"transformers", "galore_adamw_layerwise",      "galore",               Moments::of_weights,  false, "4.39"},
    {"transformers", "galore_adamw_8bit_layerwise", "galore",               Moments::int8,        true,  "4.39"},
    {"transformers", "galore_adafactor_layerwise",  "galore-adafactor",     Moments::of_weights,  false, "4.39"},
    {"transformers", "lomo",                        "lomo",                 Moments::of_weights,  false, "4.42"},
    {"transformers", "adalomo",                     "adalomo",              Moments::of_weights,  false, "4.42"},
    {"transformers", "grokadamw",                   "grokadamw",            Moments::of_weights,  false, "4.45"},
    {"transformers", "schedule_free_radam",         "schedule-free-radam",  Moments::of_weights,  false, "4.49"},
    {"transformers", "schedule_free_adamw",         "schedule-free-adamw",  Moments::of_weights,  false, "4.45"},
    {"transformers", "schedule_free_sgd",           "schedule-free-sgd",    Moments::of_weights,  false, "4.45"},
    {"transformers", "apollo_adamw",                "apollo",               Moments::of_weights,  false, "4.49"},
    {"transformers", "apollo_adamw_layerwise",      "apollo",               Moments::of_weights,  false, "4.49"},
    {"transformers", "stable_adamw",                "stable-adamw",         Moments::of_weights,  false, "4.54"},
    {"axolotl",     "optimi_adamw",                "optimi-adamw"},
    {"axolotl",     "ao_adamw_4bit",               "adamw",                Moments::int4,        true,  "",     "",     "0.12"},
    {"axolotl",     "ao_adamw_8bit",               "adamw",                Moments::int8,        true,  "",     "",     "0.12"},
    {"axolotl",     "ao_adamw_fp8",                "adamw",                Moments::fp8,         true},
    {"axolotl",     "adopt_adamw",                 "adopt"},
    {"axolotl",     "adamc",                       "adamc",                Moments::of_weights,  false, "0.19"},
    {"axolotl",     "came_pytorch",                "came",                 Moments::of_weights,  false, "0.9"},
    {"axolotl",     "muon",                        "muon"},
    {"axolotl",     "dion",                        "dion",                 Moments::of_weights,  false, "0.12"},
    {"axolotl",     "sinkgd",                      "sinkgd",               Moments::of_weights,  false, "0.18"},
    {"axolotl",     "polora",                      "polora",               Moments::of_weights,  false, "0.19"},
    {"axolotl",     "flash_adamw",                 "flash-adamw",          Moments::of_weights,  true,  "0.16"},
    {"axolotl",     "flash_adam",                  "flash-adam",           Moments::of_weights,  true,  "0.16"},
    {"axolotl",     "flash_sgd",                   "flash-sgd",            Moments::of_weights,  true,  "0.16"},
    {"axolotl",     "flash_sgdw",                  "flash-sgdw",           Moments::of_weights,  true,  "0.16"},
    {"axolotl",     "flash_lion",                  "flash-lion",           Moments::of_weights,  true,  "0.16"},
    {"axolotl",     "q_galore_adamw8bit",          "q-galore",             Moments::int8,        true,  "0.17"},
    // Keys of LLaMA-Factory, in the order in which create_custom_optimizer reads them.
    {"llamafactory", "use_galore",                  "galore"},
    {"llamafactory", "use_apollo",                  "apollo"},
    {"llamafactory", "loraplus_lr_ratio",           "loraplus"},
    {"llamafactory", "use_badam",                   "badam"},
    {"llamafactory", "use_adam_mini",               "adam-mini"},
    {"llamafactory", "use_muon",                    "muon"},
    // DeepSpeed and Megatron apply the weight decay of Adam as AdamW does, unless a key says otherwise.
    {"deepspeed",   "adam",                        "adamw"},
    {"deepspeed",   "adamw",                       "adamw"},
    {"deepspeed",   "sgd",                         "sgd"},
    {"megatron",    "adam",                        "adamw"},
    {"megatron",    "sgd",                         "sgd"},
    // Classes, in lower case and without their modules. The fused Adam of Apex and DeepSpeed is AdamW by default.
    {"lightning",   "adamw",                       "adamw"},
    {"lightning",   "adam",                        "adam"},
    {"lightning",   "sgd",                         "sgd"},
    {"lightning",   "fusedadam",                   "adamw",                Moments::of_weights,  true},
    {"lightning",   "deepspeedcpuadam",            "adamw",                Moments::of_weights,  true},
    {"composer",    "adamw",                       "adamw"},
    {"composer",    "adam",                        "adam"},
    {"torchtitan",  "adamw",                       "adamw"},
    {"torchtitan",  "adam",                        "adam"},
};
// clang-format on

/// Returns whether configs of `framework` may have a name of the row.
bool has_names_of(std::string_view framework, const OptimiserRow& row) {
    if (row.framework == framework) return true;
    return row.framework == "transformers" && (framework == "axolotl" || framework == "llamafactory");
}

bool is_of_release(const ImportContext& context, const OptimiserRow& row) {
    const FrameworkVersion version = context.version(row.framework);
    return (row.since.empty() || version >= parse_version(row.since)) &&
           (row.until.empty() || version < parse_version(row.until));
}

std::string_view state_word(Moments moments) {
    switch (moments) {
        case Moments::fp32:
            return "F";
        case Moments::int8:
            return "int8";
        case Moments::int4:
            return "int4";
        case Moments::fp8:
            return "fp8";
        case Moments::of_weights:
            break;
    }
    return {};
}

void set_moments(ImportContext& context, Moments moments, std::string_view key) {
    if (const std::string_view word = state_word(moments); !word.empty())
        context.set("opt_state", word_field(std::string(word)), key);
}

}  // namespace

std::span<const OptimiserRow> optimisers() { return optimiser_rows; }

const OptimiserKind* find_optimiser_kind(std::string_view word) {
    const auto found = std::find_if(std::begin(optimiser_kinds), std::end(optimiser_kinds),
                                    [&](const OptimiserKind& kind) { return kind.word == word; });
    return found == std::end(optimiser_kinds) ? nullptr : found;
}

std::string algorithm_of(std::string_view class_name) {
    std::string name = lowered(class_name.substr(class_name.rfind('.') + 1));
    if (name.starts_with("paged")) name.erase(0, std::string_view("paged").size());
    for (const std::string_view width : {"32bit", "8bit", "4bit", "fp8"}) {
        if (name.ends_with(width)) name.resize(name.size() - width.size());
    }
    return name;
}

Moments moments_of_class(std::string_view class_name) {
    constexpr std::pair<std::string_view, Moments> widths[] = {
        {"32bit", Moments::fp32}, {"8bit", Moments::int8}, {"4bit", Moments::int4}, {"fp8", Moments::fp8}};
    const std::string name = lowered(class_name);
    for (const auto& [width, moments] : widths) {
        if (name.ends_with(width)) return moments;
    }
    const bool is_bitsandbytes =
        name.starts_with("bitsandbytes.") || name.substr(name.rfind('.') + 1).starts_with("paged");
    return is_bitsandbytes ? Moments::fp32 : Moments::of_weights;
}

double moments_of(const ResolvedConfig& config) {
    if (config.word("opt_state") == "none") return 0;
    const OptimiserKind* kind = find_optimiser_kind(config.word("optimizer"));
    return kind == nullptr ? 2 : kind->moments;  // without a name, the optimiser is AdamW
}

const OptimiserRow* find_optimiser(const ImportContext& context, std::string_view framework, std::string_view name) {
    for (const OptimiserRow& row : optimiser_rows) {
        if (row.name == name && has_names_of(framework, row) && is_of_release(context, row)) return &row;
    }
    return nullptr;
}

const OptimiserRow* llamafactory_optimiser(const ImportContext& context) {
    for (const OptimiserRow& row : optimiser_rows) {
        if (row.framework != "llamafactory") continue;
        const bool is_set = row.name == "loraplus_lr_ratio" ? context.has(row.name) : context.flag(row.name);
        if (is_set) return &row;
    }
    return nullptr;
}

std::string fp16_eps_is_zero(double eps) {
    if (eps > largest_zero_in_fp16) return {};
    return fmt::format(
        "Adam's eps {} is 0 in fp16: if the second moment of an element is 0, its update is a division by 0, and the "
        "weight becomes infinite or NaN",
        eps);
}

std::string fp16_eps_is_small(double eps) {
    if (eps <= largest_zero_in_fp16 || eps >= fp16_safe_eps) return {};
    // In the first step the second moment is (1 - beta2) times the square of the gradient, with beta2 0.999. If it is
    // rounded to 0, the update is the learning rate times gradient / eps.
    const double largest_gradient = std::sqrt(largest_zero_in_fp16 / 0.001);
    constexpr double unit = 0x1p-24;  // fp16 numbers below 2^-13 are multiples of it
    const double rounded = std::nearbyint(eps / unit) * unit;
    return fmt::format(
        "Adam's eps {} is small for fp16: the second moment of gradients below {:.1g} is rounded to 0. Their "
        "updates are the learning rate times gradient / eps, which is up to {:.0f} times the learning rate",
        eps, largest_gradient, largest_gradient / rounded);
}

void set_optimiser(ImportContext& context, const OptimiserRow& row, std::string_view key) {
    context.set("opt_kernel", word_field(row.rounds_once ? "fused" : "single"), key);
    set_moments(context, row.moments, key);
}

void set_class_moments(ImportContext& context, std::string_view class_name, std::string_view key) {
    const Moments moments = moments_of_class(class_name);
    if (moments == Moments::of_weights) return;
    context.set("opt_kernel", word_field("fused"), key);
    set_moments(context, moments, key);
}

void keep_under_deepspeed(ImportContext& context, const OptimiserRow* row, std::string_view key) {
    if (row == nullptr || context.value("deepspeed.optimizer") != nullptr) return;
    const std::string moments(context.resolved().word("opt_state"));
    set_optimiser(context, *row, key);
    if (row->moments == Moments::fp32) context.set("opt_state", word_field(moments), key);
}

void report_optimiser(ImportContext& context, std::string_view key) {
    const std::string name = context.text(key);
    if (!context.has(key) || name.empty()) return;
    const std::string_view framework = context.framework().name;
    const OptimiserRow* row = find_optimiser(context, framework, name);
    if (row != nullptr) {
        if (row->raises_since.empty() || !context.since(row->framework, row->raises_since)) return;
        context.report(FindingCode::error, "optimiser-raises", {key},
                       fmt::format("{} accepts the optimiser `{}`, but raises an error when it creates it",
                                   context.framework().title, name),
                       name == "ao_adamw_4bit" ? "adamw_torch_4bit" : "adamw_torch_8bit");
        return;
    }
    std::vector<std::string_view> known;
    std::string when;
    for (const OptimiserRow& one : optimiser_rows) {
        if (!has_names_of(framework, one)) continue;
        if (is_of_release(context, one)) {
            known.push_back(one.name);
        } else if (one.name == name) {
            const std::string release = fmt::format("{} {}", one.framework, to_string(context.version(one.framework)));
            const bool is_late = !one.since.empty() && context.version(one.framework) < parse_version(one.since);
            when = is_late ? fmt::format(": {} is older than {}, which added it", release, one.since)
                           : fmt::format(": {} removed it, and this is {}", one.until, release);
        }
    }
    context.report(FindingCode::error, "unknown-optimiser", {key},
                   fmt::format("'{}' is not the name of an optimiser of {}{}: training raises ValueError", name,
                               context.framework().title, when),
                   nearest_name(name, known));
}

}  // namespace macheps::configs
