// SPDX-License-Identifier: Apache-2.0
// Importer of the config file of `accelerate launch`. It covers autocast, fp8 recipes, FSDP, Megatron-LM, and the
// settings that Accelerate passes on to DeepSpeed. Sources: accelerate/accelerator.py, state.py, commands/launch.py,
// utils/{dataclasses,launch,ao,transformer_engine}.py of 0.30.1 to 1.15.0.
#include "experiments/configs/accelerate/accelerate.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/accelerate/deepspeed_section.hpp"
#include "experiments/configs/accelerate/fsdp.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace macheps::configs::accelerate {

namespace {

std::string asked_precision(const ImportContext& context) {
    const files::ConfigValue* value = context.value("mixed_precision");
    if (value == nullptr || value->is_null()) return context.flag("fp16") ? "fp16" : "no";
    if (value->is_boolean()) return value->boolean ? "true" : "no";
    return lowered(value->written);
}

Backend backend_of(const ImportContext& context, bool& is_assumed) {
    const std::string name = lowered(context.text("fp8_config.backend"));
    if (name == "te") return Backend::transformer_engine;
    if (name == "msamp" || name == "ms-amp") return Backend::msamp;
    is_assumed = name != "ao";
    // torchao is a backend since 1.4. Older releases use MS-AMP if it is installed, and otherwise Transformer Engine.
    return is_assumed && !context.since("accelerate", "1.4") ? Backend::transformer_engine : Backend::torchao;
}

/// How the releases from `since` on select the backend of fp8. Sources: accelerator.py and state.py of every release
/// from 0.30.1 to 1.15.0.
struct Fp8Release {
    std::string_view since;
    Fp8Source plain, deepspeed;  ///< without and with DeepSpeed
};
constexpr Fp8Release fp8_releases[] = {
    {"", Fp8Source::raises, Fp8Source::none},        // no recipe is made; DeepSpeed's config says bf16
    {"0.34", Fp8Source::file, Fp8Source::none},      // FP8RecipeKwargs reads the environment
    {"1.4", Fp8Source::none, Fp8Source::installed},  // only the argument of the constructor counts
    {"1.8", Fp8Source::installed, Fp8Source::none},  // the state counts, which says bf16 with DeepSpeed
    {"1.9", Fp8Source::file, Fp8Source::none},       // ACCELERATE_FP8_BACKEND is read
    {"1.11", Fp8Source::file, Fp8Source::file},      // the state says fp8 with DeepSpeed, too
};

Fp8Source fp8_source(const ImportContext& context, const Facts& facts) {
    for (const std::string_view handler :
         {"FP8RecipeKwargs", "AORecipeKwargs", "TERecipeKwargs", "MSAMPRecipeKwargs"}) {
        if (context.has(fmt::format("kwargs_handlers.{}", handler))) return Fp8Source::file;
    }
    const Fp8Release* release = fp8_releases;
    for (const Fp8Release& row : fp8_releases) {
        if (row.since.empty() || context.since("accelerate", row.since)) release = &row;
    }
    return facts.deepspeed ? release->deepspeed : release->plain;
}

}  // namespace

std::optional<std::array<bool, 3>> linear_overrides(const ImportContext& context) {
    const files::ConfigValue* value = context.value("fp8_config.override_linear_precision");
    if (value == nullptr || !value->is_list() || value->items.size() != 3) return {};
    std::array<bool, 3> flags{};
    for (std::size_t i = 0; i < flags.size(); ++i) flags[i] = value->items[i].is_boolean() && value->items[i].boolean;
    return flags;
}

Facts facts(const ImportContext& context) {
    Facts facts;
    facts.distributed = context.text("distributed_type");
    std::transform(facts.distributed.begin(), facts.distributed.end(), facts.distributed.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    facts.fsdp = facts.distributed == "FSDP";
    facts.deepspeed = facts.distributed == "DEEPSPEED";
    facts.megatron = facts.distributed == "MEGATRON_LM";
    const DeviceProfile& device = context.device();
    facts.on_cpu =
        context.flag("use_cpu") || facts.distributed == "MULTI_CPU" || device.kind == DeviceProfile::Kind::cpu;
    facts.fsdp_version = context.number("fsdp_config.fsdp_version").value_or(1) == 2 ? 2 : 1;
    facts.low_memory_loading = context.flag("fsdp_config.fsdp_cpu_ram_efficient_loading");

    facts.asked = facts.precision = asked_precision(context);
    const bool is_too_old = !facts.on_cpu && device.is_cuda_like() && device.capability() < 89;
    // Before 1.8, DeepSpeed's config is filled before the device is tested, and the result of the test has no effect.
    const bool is_tested = !facts.deepspeed || context.since("accelerate", "1.8");
    facts.lacks_fp8 = facts.precision == "fp8" && is_too_old;
    if (facts.lacks_fp8 && is_tested) facts.precision = "fp16";
    if (facts.precision == "fp8") facts.fp8_source = fp8_source(context, facts);
    const bool reaches = facts.fp8_source == Fp8Source::file || facts.fp8_source == Fp8Source::installed;
    if (facts.precision == "fp8" && reaches) facts.backend = backend_of(context, facts.backend_assumed);
    if (facts.precision == "fp16" && !(facts.on_cpu && !facts.deepspeed)) facts.autocast = 'H';
    if (facts.precision == "bf16" || facts.precision == "fp8") facts.autocast = 'B';
    return facts;
}

namespace {

FieldValue scaler_of(const ImportContext& context, const Facts& facts) {
    if (facts.autocast != 'H' || !context.flag("kwargs_handlers.GradScalerKwargs.enabled")) return no_scaler_field();
    const auto number = [&](std::string_view key) {
        return context.number(fmt::format("kwargs_handlers.GradScalerKwargs.{}", key)).value_or(0);
    };
    return torch_scaler_field({.init_scale = number("init_scale"),
                               .growth_factor = number("growth_factor"),
                               .backoff_factor = number("backoff_factor"),
                               .growth_interval = number("growth_interval"),
                               .sharded = facts.fsdp && facts.fsdp_version == 1});
}

/// Returns the fp8 recipe that Accelerate passes to Transformer Engine. Under DeepSpeed, Accelerate does not read the
/// section `fp8_config`, so the defaults of Transformer Engine apply.
FieldValue transformer_engine_recipe(const ImportContext& context, const Facts& facts) {
    const auto key = [&](std::string_view name) { return fmt::format("fp8_config.{}", name); };
    const bool is_read = !facts.deepspeed;
    FieldValue recipe{.value = std::string("te_delayed"), .parts = {}};
    if (is_read && context.flag(key("use_mxfp8_block_scaling"))) {
        // Accelerate passes on only values that differ from its own defaults, so it does not pass on HYBRID.
        // Transformer Engine then uses its own default for MXFP8, which is E4M3.
        recipe.value = std::string("te_mxfp8");
        recipe.parts = {{"format", std::string("E4M3")}};
    } else {
        // Accelerate does not pass on a value that equals its own default. If amax_compute_algo is most_recent,
        // Transformer Engine therefore uses its own default, max.
        recipe.parts = {{"format", is_read ? context.text(key("fp8_format")) : std::string("HYBRID")},
                        {"margin", is_read ? context.number(key("margin")).value_or(0) : 0.0},
                        {"history", is_read ? context.number(key("amax_history_len")).value_or(1024) : 1024.0},
                        {"algorithm", std::string("max")}};
    }
    recipe.parts.emplace_back("filter", std::string("accelerate-te"));
    // Weight gradients are written in the format of autocast, because the matmul gets no fp32 buffer for them.
    if (is_read && linear_overrides(context).value_or(std::array<bool, 3>{})[2])
        recipe.parts.emplace_back("weight_grad", std::string("bf16"));
    recipe.parts.emplace_back("weight_grad_out", std::string("bf16"));
    return recipe;
}

/// Sets the matmuls of Linear layers to fp8. All other operations stay under bf16 autocast.
void set_fp8(ImportContext& context, const Facts& facts) {
    const auto flag = [&](std::string_view key) { return context.flag(fmt::format("fp8_config.{}", key)); };
    const bool gathers = facts.fsdp && facts.fsdp_version == 2;
    FieldValue recipe;
    if (facts.backend == Backend::torchao) {
        recipe = {.value = std::string("ao_tensorwise"),
                  .parts = {{"pad_inner_dim", flag("pad_inner_dim")},
                            {"all_gather", gathers && flag("enable_fsdp_float8_all_gather")},
                            {"filter", std::string("accelerate-ao")}}};
    } else if (facts.backend == Backend::transformer_engine) {
        recipe = transformer_engine_recipe(context, facts);
    } else {
        recipe = {.value = std::string("msamp"), .parts = {{"opt_level", context.text("fp8_config.opt_level")}}};
    }
    context.set("compute", {.value = recipe.value, .parts = {}}, "mixed_precision");
    context.set("fp8", std::move(recipe), context.has("fp8_config.backend") ? "fp8_config.backend" : "mixed_precision");
}

void set_megatron(ImportContext& context, const Facts& facts) {
    const char low = facts.precision == "fp16" ? 'H' : facts.precision == "bf16" ? 'B' : 'F';
    context.set("clip",
                clip_field("megatron", context.number("megatron_lm_config.megatron_lm_gradient_clipping").value_or(0)),
                "megatron_lm_config.megatron_lm_gradient_clipping");
    if (low == 'F') {
        set_storage(context, storage::fp32, 'F', "mixed_precision");
        context.infer("scaler", no_scaler_field(), "from compute");
        return;
    }
    set_storage(context, storage::megatron, low, "mixed_precision");
    FieldValue scaler = no_scaler_field();
    if (low == 'H')
        scaler = {.value = std::string("megatron"),
                  .parts = {{"init_scale", 0x1p32},
                            {"growth_factor", 2.0},
                            {"backoff_factor", 0.5},
                            {"growth_interval", 1000.0},
                            {"hysteresis", 2.0},
                            {"min_scale", 1.0}}};
    context.infer("scaler", std::move(scaler), "Megatron's defaults, with the precision that Accelerate passes on");
}

void set_model(ImportContext& context, const Facts& facts) {
    if (facts.fsdp && facts.autocast != 'F') {
        const AccelerateFsdp fsdp{.low = facts.autocast, .version = facts.fsdp_version, .loaded = 0};
        set_accelerate_fsdp(context, fsdp, "mixed_precision");
        report_accelerate_fsdp(context, fsdp, "mixed_precision");
    } else {
        set_storage(context, facts.autocast == 'F' ? storage::fp32 : storage::amp, facts.autocast, "mixed_precision");
        context.infer("oplist",
                      word_field(facts.autocast == 'F' ? "none"
                                 : facts.on_cpu        ? "torch-cpu"
                                                       : "torch-cuda"),
                      "from compute");
    }
    const std::string hook = context.text("kwargs_handlers.DistributedDataParallelKwargs.comm_hook");
    if (const char wire = dtype_letter(hook); wire != 0 && !facts.fsdp)
        context.set("reduce", letter(wire), "kwargs_handlers.DistributedDataParallelKwargs.comm_hook");
    context.set(
        "scaler", scaler_of(context, facts),
        context.has("kwargs_handlers.GradScalerKwargs") ? "kwargs_handlers.GradScalerKwargs" : "mixed_precision");
    context.infer("clip", word_field("none"),
                  "decided by the program: accelerator.clip_grad_norm_ first unscales, and then clips as torch does");
    context.infer("fp8", word_field("none"), "from compute");
    if (facts.backend != Backend::none) set_fp8(context, facts);
}

void resolve(ImportContext& context) {
    const Facts found = facts(context);
    report_findings(context, found);
    if (found.deepspeed) {
        if (const files::ConfigValue* section = context.value(file_key); section && section->is_map())
            context.delegate(deepspeed::framework, file_key);
        if (found.backend != Backend::none) set_fp8(context, found);
    } else if (found.megatron) {
        set_megatron(context, found);
    } else {
        set_model(context, found);
    }
    if (found.fsdp)
        context.set("ckpt", {.value = context.flag("fsdp_config.fsdp_activation_checkpointing"), .parts = {}},
                    "fsdp_config.fsdp_activation_checkpointing");
    if (context.flag("use_cpu"))
        context.set("device", word_field("cpu"), "use_cpu");
    else if (found.distributed == "MULTI_CPU")
        context.infer("device", word_field("cpu"), "from distributed_type MULTI_CPU");
}

/// Renames the keys of a section so that all of them have the prefix (if `keeps_prefix` is true) or none of them has
/// it. The launcher accepts keys with and without the prefix, because it adds a missing prefix.
void normalise(ImportContext& context, std::string_view section, std::string_view prefix, bool keeps_prefix) {
    files::ConfigValue* map = context.root().find(section);
    if (map == nullptr || !map->is_map()) return;
    for (files::ConfigValue::Entry& entry : map->entries) {
        if (keeps_prefix && !entry.key.starts_with(prefix)) entry.key.insert(0, prefix);
        if (!keeps_prefix && entry.key.starts_with(prefix) && entry.key != "fp8_format")
            entry.key.erase(0, prefix.size());
        if (!keeps_prefix && entry.key == "format") entry.key = "fp8_format";
    }
}

/// Returns the precision whose section Accelerate enables in DeepSpeed's config. Before 0.34, fp8 enables none.
std::string deepspeed_precision(const ImportContext& context, const Facts& facts) {
    if (facts.precision != "fp8") return facts.precision;
    return context.since("accelerate", "0.34") ? "bf16" : "no";
}

/// Fills in DeepSpeed's config in the same way as DeepSpeedPlugin of Accelerate. If no DeepSpeed file is named
/// (`is_file` is false), the values come from a few keys of deepspeed_config.
void fill_deepspeed(const ImportContext& context, const std::string& precision, files::ConfigValue& section,
                    bool is_file) {
    const auto text = [&](std::string_view key) { return context.text(fmt::format("deepspeed_config.{}", key)); };
    if (!is_file) {
        fill_section(section, "zero_optimization.stage", text("zero_stage"), true);
        fill_section(section, "zero_optimization.offload_optimizer.device", text("offload_optimizer_device"), true);
        fill_section(section, "gradient_clipping", text("gradient_clipping"), true);
    }
    add_precision_section(section, precision);
    fill_section(section, "fp16.enabled", precision == "fp16" ? "true" : "false", false);
    fill_section(section, "bf16.enabled", precision == "bf16" ? "true" : "false", false);
    fill_section(section, "gradient_clipping", "1.0", false);
    const std::string steps = text("gradient_accumulation_steps");
    fill_section(section, "gradient_accumulation_steps", steps.empty() ? "1" : steps, !is_file);
}

void prepare(ImportContext& context) {
    normalise(context, "fp8_config", "fp8_", false);
    normalise(context, "fsdp_config", "fsdp_", true);
    const Facts found = facts(context);
    if (!found.deepspeed) return;
    const files::ConfigValue* named = context.value(file_key);
    const bool is_file = named != nullptr && !named->is_null();
    files::ConfigValue section;
    section.kind = files::ConfigValue::Kind::map;
    section.place = context.root().place;
    if (is_file && named->is_map()) {
        section = *named;
    } else if (is_file) {
        const std::string path = named->written;
        const files::ConfigPlace place = named->place;
        std::optional<files::ConfigValue> read = context.read_file(file_key, place, path);
        if (!read || !read->is_map()) return;
        section = std::move(*read);
    }
    fill_deepspeed(context, deepspeed_precision(context, found), section, is_file);
    context.root().set(file_key, std::move(section));
}

}  // namespace

extern const Framework framework{
    .name = "accelerate",
    .title = "Accelerate",
    .newest = "1.15.0",
    .oldest = "0.30.1",
    .keys = accelerate::keys(),
    .file_keys = {{"deepspeed_config.deepspeed_config_file", "deepspeed"}},
    .marks =
        "distributed_type compute_environment downcast_bf16 fsdp_config.fsdp_sharding_strategy "
        "fsdp_config.fsdp_version deepspeed_config.zero_stage deepspeed_config.deepspeed_config_file "
        "fp8_config.backend "
        "dynamo_config main_training_function",
    .recognises = accelerate::recognises,
    // Accelerate's data class for this file raises an error on unknown keys at the top level. Keys in nested maps
    // become launcher options, which are not checked.
    .refuses_unknown = [](const ImportContext&,
                          std::string_view path) { return path.find('.') == std::string_view::npos; },
    .prepare = accelerate::prepare,
    .resolve = accelerate::resolve};

}  // namespace macheps::configs::accelerate
