// SPDX-License-Identifier: Apache-2.0
// Findings about the config file of `accelerate launch`. There is a row for each error that the launcher or the
// Accelerator raises, for each setting that Accelerate decides silently, and for each setting that is likely to be
// misunderstood.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/accelerate/accelerate.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::configs::accelerate {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

bool is_fp8(const Facts& f) { return f.backend != Backend::none; }
bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}
bool has_any(const Context& c, std::initializer_list<std::string_view> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return c.has(key); });
}
/// Returns the value that enables a dtype in DeepSpeed's config, or null if the config does not enable it.
const files::ConfigValue* enabled_by_deepspeed(const Context& c, std::string_view dtype) {
    const files::ConfigValue* value = c.value(fmt::format("{}.{}.enabled", file_key, dtype));
    return value != nullptr && lowered(value->written) == "true" ? value : nullptr;
}

// Findings about the mixed precision.

bool is_bare_boolean(const Context& c) {
    const files::ConfigValue* value = c.value("mixed_precision");
    return value != nullptr && value->is_boolean();
}
Found unknown_precision(const Context& c, const Facts& f) {
    if (is_one_of(f.asked, {"no", "fp16", "bf16", "fp8"})) return {};
    return FindingText{fmt::format("`{}` is not a mixed precision of Accelerate", c.text("mixed_precision")),
                       "\"no\", fp16, bf16 or fp8"};
}
Found bare_no_raises(const Context& c, const Facts& f) {
    if (!is_bare_boolean(c) || f.asked != "no" || !c.since("accelerate", "0.34")) return {};
    return FindingText{
        "YAML reads an unquoted no as the boolean false, and the launcher raises: 'bool' object has no attribute "
        "'lower'",
        "mixed_precision: \"no\""};
}
Found bare_no(const Context& c, const Facts& f) {
    if (!is_bare_boolean(c) || f.asked != "no" || c.since("accelerate", "0.34")) return {};
    return FindingText{
        "YAML reads an unquoted no as the boolean false; this version treats it as \"no\", but 0.34.0 and newer raise "
        "an error",
        "mixed_precision: \"no\""};
}
Found old_fp16(const Context& c, const Facts&) {
    if (!c.has("fp16")) return {};
    if (!c.has("mixed_precision"))
        return FindingText{fmt::format("`fp16` is a key of old files; it is read as mixed_precision: {}",
                                       c.flag("fp16") ? "fp16" : "\"no\""),
                           "mixed_precision"};
    return FindingText{"`fp16` is a key of old files; it is ignored because mixed_precision is set", "remove it"};
}
Found fp16_on_cpu(const Context&, const Facts& f) {
    if (f.asked != "fp16" || !f.on_cpu || f.deepspeed || f.megatron) return {};
    return FindingText{fmt::format("fp16 on a CPU does nothing: no autocast, no loss scaler, the run computes in fp32"),
                       "mixed_precision: bf16"};
}
/// Returns the setting that trains in the format with a letter.
std::string mixed_precision(char format) {
    return fmt::format("mixed_precision: {}", format == 'F' ? "\"no\"" : format_word(format));
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if ((f.asked != "bf16" && !is_fp8(f)) || f.on_cpu || c.device().bf16 || !c.device().torch_says_bf16) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, so the "
                    "run uses bf16, slowly",
                    c.device().name),
        mixed_precision(training_format(c))};
}
Found fp8_capability(const Context& c, const Facts& f) {
    if (!f.lacks_fp8 || f.precision == "fp8") return {};
    return FindingText{
        fmt::format(
            "fp8 requires compute capability 8.9; {} has {}.{}, so Accelerate uses fp16 instead, with {} scaler",
            c.device().name, c.device().major, c.device().minor, f.deepspeed ? "DeepSpeed's" : "its"),
        mixed_precision(training_format(c))};
}
Found fp16_unsupported(const Context& c, const Facts& f) {
    if (f.precision != "fp16" || f.on_cpu || c.device().fp16) return {};
    return FindingText{
        fmt::format("{} does not support fp16 mixed precision: the Accelerator raises an error", c.device().name),
        "mixed_precision: bf16"};
}
Found downcast(const Context& c, const Facts&) {
    if (!c.has("downcast_bf16") || c.device().kind == DeviceProfile::Kind::tpu) return {};
    return FindingText{"downcast_bf16 is for TPUs; on other devices it is ignored", {}};
}
Found tpu_bf16(const Context& c, const Facts& f) {
    if (f.asked != "bf16" || c.device().kind != DeviceProfile::Kind::tpu) return {};
    return FindingText{
        c.flag("downcast_bf16")
            ? "XLA_DOWNCAST_BF16: on the TPU fp32 tensors become bf16 and doubles become fp32"
            : "XLA_USE_BF16: on the TPU fp32 tensors are bf16, including weights and the optimiser's state",
        {}};
}

// Findings about fp8.

Found fp8_format(const Context& c, const Facts& f) {
    std::string format = c.text("fp8_config.fp8_format");
    std::transform(format.begin(), format.end(), format.begin(),
                   [](char x) { return x >= 'a' && x <= 'z' ? char(x - 32) : x; });
    if (f.backend != Backend::transformer_engine || is_one_of(format, {"HYBRID", "E4M3"})) return {};
    if (format == "E5M2" && !f.deepspeed) {
        return FindingText{
            "Accelerate accepts E5M2, but Transformer Engine does not: \"Pure E5M2 training is not supported\"",
            "HYBRID or E4M3"};
    }
    if (format == "E5M2") return {};
    return FindingText{fmt::format("`{}` is not a format of the recipe", c.text("fp8_config.fp8_format")),
                       "HYBRID, E4M3 or E5M2"};
}
Found fp8_algorithm(const Context& c, const Facts& f) {
    if (f.backend != Backend::transformer_engine ||
        is_one_of(lowered(c.text("fp8_config.amax_compute_algo")), {"max", "most_recent"}))
        return {};
    return FindingText{fmt::format("`{}` is not a way to compute the amax", c.text("fp8_config.amax_compute_algo")),
                       "max or most_recent"};
}
Found fp8_level(const Context& c, const Facts& f) {
    if (f.backend != Backend::msamp || is_one_of(c.text("fp8_config.opt_level"), {"O1", "O2"})) return {};
    return FindingText{fmt::format("`{}` is not an optimisation level of MS-AMP", c.text("fp8_config.opt_level")),
                       "O1 or O2"};
}
Found fp8_backend(const Context& c, const Facts& f) {
    const std::string name = lowered(c.text("fp8_config.backend"));
    const bool has_torchao = c.since("accelerate", "1.4");
    if (f.asked != "fp8" || name.empty() || is_one_of(name, {"te", "msamp"})) return {};
    if (has_torchao && is_one_of(name, {"ao", "no"})) return {};
    return FindingText{fmt::format("`{}` is not an fp8 backend of Accelerate {}", c.text("fp8_config.backend"),
                                   to_string(c.version("accelerate"))),
                       has_torchao ? "AO, TE or MSAMP" : "TE or MSAMP"};
}
Found override_precision(const Context& c, const Facts& f) {
    const files::ConfigValue* value = c.value("fp8_config.override_linear_precision");
    if (f.asked != "fp8" || value == nullptr || value->is_null()) return {};
    if (value->is_list()) {
        // Only the weight gradient may stay in high precision. Source: transformer_engine/common/recipe.
        const auto flags = linear_overrides(c);
        if (f.backend != Backend::transformer_engine || f.deepspeed || (flags && !(*flags)[0] && !(*flags)[1]))
            return {};
        return FindingText{
            "Transformer Engine supports high precision only for the weight gradient, the third of the three flags: an "
            "assertion stops the program",
            "[false, false, false] or [false, false, true]"};
    }
    return FindingText{
        fmt::format("YAML reads `{}` as text: the launcher passes its first three characters on as flags, and "
                    "the Accelerator raises \"invalid truth value\"",
                    value->written),
        "[false, false, false]"};
}
Found low_memory_loading(const Context& c, const Facts& f) {
    if (f.backend != Backend::torchao || !f.fsdp || !f.low_memory_loading) return {};
    return FindingText{
        fmt::format("torchao's fp8 with FSDP cannot be combined with cpu_ram_efficient_loading{}: the "
                    "Accelerator raises an error",
                    c.has("fsdp_config.fsdp_cpu_ram_efficient_loading") ? "" : ", which is on by default"),
        "fsdp_config: {fsdp_cpu_ram_efficient_loading: false}"};
}
Found msamp_fsdp(const Context&, const Facts& f) {
    if (f.backend != Backend::msamp || !f.fsdp) return {};
    return FindingText{"MS-AMP with FSDP is not supported: the Accelerator raises an error",
                       "fp8_config: {backend: TE}"};
}
Found msamp(const Context&, const Facts& f) {
    if (f.backend != Backend::msamp) return {};
    return FindingText{
        "MS-AMP keeps gradients and the optimiser's state in fp8; macheps recognises it but does not emulate it",
        "fp8_config: {backend: TE}"};
}
Found handler_without_fp8(const Context& c, const Facts& f) {
    if (f.asked == "fp8" || f.fsdp || f.deepspeed) return {};
    if (!has_any(c, {"kwargs_handlers.AORecipeKwargs", "kwargs_handlers.TERecipeKwargs",
                     "kwargs_handlers.MSAMPRecipeKwargs", "kwargs_handlers.FP8RecipeKwargs"}))
        return {};
    return FindingText{"an fp8 recipe is passed, but mixed_precision is not fp8: the Accelerator raises an error",
                       "mixed_precision: fp8"};
}
Found deprecated_recipe(const Context& c, const Facts&) {
    if (!c.has("kwargs_handlers.FP8RecipeKwargs")) return {};
    return FindingText{"FP8RecipeKwargs is deprecated", "TERecipeKwargs or MSAMPRecipeKwargs"};
}
Found questionnaire(const Context& c, std::string_view key, std::string_view instead) {
    if (!c.has(fmt::format("fp8_config.{}", key))) return {};
    return FindingText{
        fmt::format("the questionnaire of `accelerate config` writes `{}`, but no recipe reads it: the default is used",
                    key),
        std::string(instead)};
}
Found history_length(const Context& c, const Facts&) {
    return questionnaire(c, "amax_history_length", "amax_history_len");
}
Found algorithm(const Context& c, const Facts&) {
    return questionnaire(c, "amax_compute_algorithm", "amax_compute_algo");
}
Found optimization_level(const Context& c, const Facts&) { return questionnaire(c, "optimization_level", "opt_level"); }
Found most_recent(const Context& c, const Facts& f) {
    if (f.backend != Backend::transformer_engine || lowered(c.text("fp8_config.amax_compute_algo")) != "most_recent")
        return {};
    return FindingText{
        "most_recent is Accelerate's default, and values equal to its defaults are not passed on: Transformer Engine "
        "uses its own default, max",
        {}};
}
Found short_history(const Context& c, const Facts& f) {
    const double length = c.number("fp8_config.amax_history_len").value_or(1024);
    if (f.backend != Backend::transformer_engine || f.deepspeed || (length >= 1 && length <= 65536)) return {};
    return FindingText{
        fmt::format(
            "the amax history has length {}: it must be at least 1 (Transformer Engine) and at most 65536 (macheps)",
            length),
        "1024"};
}
Found te_deepspeed(const Context& c, const Facts& f) {
    if (f.backend != Backend::transformer_engine || !f.deepspeed || !c.has("fp8_config")) return {};
    return FindingText{
        "with DeepSpeed, Accelerate reads only the deprecated FP8RecipeKwargs; this section has no effect", {}};
}
Found fp8_unread(const Context& c, const Facts& f) {
    if (!c.has("fp8_config") || f.asked == "fp8") return {};
    return FindingText{"fp8_config is passed on only if mixed_precision is fp8", {}};
}
Found backend_assumed(const Context&, const Facts& f) {
    if (!is_fp8(f) || !f.backend_assumed) return {};
    if (f.backend == Backend::transformer_engine)
        return FindingText{
            "no fp8 backend is named: Accelerate uses MS-AMP if it is installed, and otherwise Transformer Engine; "
            "macheps assumes Transformer Engine",
            "fp8_config: {backend: TE}"};
    return FindingText{
        "no fp8 backend is named: Accelerate uses the first installed one of torchao, Transformer Engine and MS-AMP, "
        "and raises an error if there is none; macheps assumes torchao",
        "fp8_config: {backend: AO}"};
}
/// Returns the first release that reads fp8 from the launcher's file.
std::string_view reads_fp8_since(const Facts& f) { return f.deepspeed ? "1.11.0" : "1.9.0"; }

Found fp8_not_reached(const Context& c, const Facts& f) {
    if (f.precision != "fp8" || f.fp8_source != Fp8Source::none) return {};
    const bool has_bf16 = !f.deepspeed || enabled_by_deepspeed(c, "bf16") != nullptr;
    return FindingText{
        fmt::format("Accelerate {} does not use the fp8 of the launcher's file{}: the run computes in {}",
                    to_string(c.version("accelerate")), f.deepspeed ? " with DeepSpeed" : "",
                    has_bf16 ? "bf16" : "fp32"),
        f.lacks_fp8 ? "mixed_precision: bf16" : fmt::format("accelerate {} or newer", reads_fp8_since(f))};
}
Found fp8_device_untested(const Context& c, const Facts& f) {
    if (!f.lacks_fp8 || !is_fp8(f)) return {};
    return FindingText{
        fmt::format("{} has no fp8, but Accelerate {} does not test the device with DeepSpeed: the fp8 library raises "
                    "an error",
                    c.device().name, to_string(c.version("accelerate"))),
        "mixed_precision: bf16"};
}
Found fp8_without_recipe(const Context& c, const Facts& f) {
    if (f.precision != "fp8" || f.fp8_source != Fp8Source::raises) return {};
    return FindingText{
        fmt::format(
            "Accelerate {} makes no fp8 recipe from the launcher's file, and then raises \"'NoneType' object has "
            "no attribute 'backend'\"",
            to_string(c.version("accelerate"))),
        fmt::format("accelerate {} or newer, or FP8RecipeKwargs in the program", reads_fp8_since(f))};
}
Found fp8_backend_unread(const Context& c, const Facts& f) {
    if (!is_fp8(f) || f.fp8_source != Fp8Source::installed || f.backend_assumed) return {};
    return FindingText{
        fmt::format("Accelerate {} does not read the backend: it uses the first installed one of torchao, Transformer "
                    "Engine and MS-AMP; macheps assumes that only the named one is installed",
                    to_string(c.version("accelerate"))),
        fmt::format("accelerate {} or newer", reads_fp8_since(f))};
}
Found torchao_without_fsdp(const Context& c, const Facts& f) {
    if (f.fp8_source != Fp8Source::installed || f.backend != Backend::torchao || f.fsdp || f.deepspeed) return {};
    return FindingText{
        fmt::format("torchao's fp8 without FSDP raises an error in Accelerate {}, which asks the FSDP plugin for a "
                    "setting although there is none",
                    to_string(c.version("accelerate"))),
        "accelerate 1.9.0 or newer"};
}
Found fp8_layers(const Context&, const Facts& f) {
    if (!is_fp8(f)) return {};
    return FindingText{
        f.backend == Backend::torchao
            ? "fp8 is used for the inner Linear layers: the first and the last one, and those with a dimension that is "
              "not a multiple of 16, stay under bf16 autocast"
            : "fp8 is used for Linear layers whose dimensions are multiples of 16; the rest runs under bf16 autocast",
        {}};
}

// Findings about DeepSpeed, FSDP and the launcher.

Found other_dtype(const Context& c, const Facts& f) {
    if (!f.deepspeed || f.asked == "no") return {};
    const std::string_view other = f.precision == "fp16" ? "bf16" : "fp16";
    const files::ConfigValue* value = enabled_by_deepspeed(c, other);
    if (value == nullptr) return {};
    return FindingText{
        fmt::format("mixed_precision is {}, but DeepSpeed's file enables {} ({}): Accelerate raises an error",
                    f.precision, other, to_string(value->place)),
        fmt::format("\"auto\" in the file, or mixed_precision: {}", other)};
}
Found deepspeed_decides(const Context& c, const Facts& f) {
    if (!f.deepspeed || f.asked != "no") return {};
    for (std::string_view dtype : {"fp16", "bf16"}) {
        if (const files::ConfigValue* value = enabled_by_deepspeed(c, dtype))
            return FindingText{
                fmt::format("mixed_precision is \"no\", but DeepSpeed's file enables {} ({}): the file wins", dtype,
                            to_string(value->place)),
                fmt::format("remove mixed_precision, or write \"auto\" in the file")};
    }
    return {};
}
Found fields_beside_file(const Context& c, const Facts& f) {
    const files::ConfigValue* file = c.value(file_key);
    if (!f.deepspeed || file == nullptr || file->place.file == c.root().place.file) return {};
    std::string named;
    for (std::string_view key : {"deepspeed_config.gradient_accumulation_steps", "deepspeed_config.gradient_clipping",
                                 "deepspeed_config.zero_stage", "deepspeed_config.offload_optimizer_device",
                                 "deepspeed_config.offload_param_device", "deepspeed_config.offload_param_nvme_path",
                                 "deepspeed_config.offload_optimizer_nvme_path",
                                 "deepspeed_config.zero3_save_16bit_model", "mixed_precision"}) {
        if (c.has(key)) named += fmt::format("{}{}", named.empty() ? "" : ", ", key);
    }
    if (named.empty()) return {};
    return FindingText{
        fmt::format("with deepspeed_config_file these keys are refused, because that file has to set them: {}", named),
        "remove them here, and set them in DeepSpeed's file"};
}
Found without_zero(const Context& c, const Facts& f) {
    const files::ConfigValue* section = c.value(file_key);
    if (!f.deepspeed || section == nullptr || !section->is_map() || section->entry("zero_optimization")) return {};
    return FindingText{"Accelerate refuses a DeepSpeed file without zero_optimization",
                       "\"zero_optimization\": {\"stage\": 0}"};
}
Found sync_states(const Context& c, const Facts& f) {
    if (!f.fsdp || !f.low_memory_loading || c.flag("fsdp_config.fsdp_sync_module_states")) return {};
    return FindingText{
        "cpu_ram_efficient_loading without sync_module_states leaves random weights on all ranks except one: the "
        "launcher raises an error",
        "fsdp_sync_module_states: true"};
}
Found compiled(const Context& c, const Facts&) {
    for (std::string_view key : {"dynamo_config.dynamo_backend", "dynamo_backend"}) {
        const std::string backend = lowered(c.text(key));
        if (!backend.empty() && backend != "no" && backend != "false") return compilation_not_emulated();
    }
    return {};
}
/// Reports sections that have no effect, because training uses another way to distribute the model.
Found unread_sections(const Context& c, const Facts& f) {
    std::vector<std::string> unread;
    const auto look = [&](std::string_view section, bool is_used) {
        if (c.has(section) && !is_used) unread.push_back(fmt::format("`{}`", section));
    };
    look("deepspeed_config", f.deepspeed);
    look("fsdp_config", f.fsdp);
    look("megatron_lm_config", f.megatron);
    if (unread.empty()) return {};
    return FindingText{fmt::format("{} {} no effect with this distributed_type", fmt::join(unread, ", "),
                                   unread.size() == 1 ? "has" : "have"),
                       {}};
}
Found launcher_wants(const Context& c, const Facts& f) {
    if (!c.has("distributed_type"))
        return FindingText{"the launcher refuses a file without distributed_type", "distributed_type: \"NO\""};
    if (c.has("num_processes") || f.distributed == "NO" || f.distributed == "FALSE") return {};
    return FindingText{"the launcher requires --num_processes, which this file does not set", "num_processes: N"};
}
Found handlers(const Context& c, const Facts&) {
    if (!c.has("kwargs_handlers")) return {};
    return FindingText{"a program passes kwargs_handlers to Accelerator; the launcher's file has no such key", {}};
}
Found sagemaker(const Context& c, const Facts&) {
    if (c.text("compute_environment") != "AMAZON_SAGEMAKER") return {};
    return FindingText{"this file is for Amazon SageMaker; the findings describe what the job computes there", {}};
}

const FindingRow<Facts> finding_rows[] = {
    {"mixed-precision", error, {"mixed_precision"}, unknown_precision},
    {"bare-no", error, {"mixed_precision"}, bare_no_raises},
    {"fp16-unsupported", error, {"mixed_precision"}, fp16_unsupported},
    {"fp8-format", error, {"fp8_config.fp8_format"}, fp8_format},
    {"fp8-algorithm", error, {"fp8_config.amax_compute_algo"}, fp8_algorithm},
    {"fp8-history", error, {"fp8_config.amax_history_len"}, short_history},
    {"fp8-level", error, {"fp8_config.opt_level"}, fp8_level},
    {"fp8-without-recipe", error, {"mixed_precision"}, fp8_without_recipe},
    {"fp8-device-untested", error, {"mixed_precision", "distributed_type"}, fp8_device_untested},
    {"fp8-torchao-without-fsdp", error, {"fp8_config.backend", "distributed_type"}, torchao_without_fsdp},
    {"fp8-backend", error, {"fp8_config.backend"}, fp8_backend},
    {"override-linear-precision", error, {"fp8_config.override_linear_precision"}, override_precision},
    {"torchao-low-memory-loading",
     error,
     {"fsdp_config.fsdp_cpu_ram_efficient_loading", "distributed_type", "fp8_config.backend", "mixed_precision"},
     low_memory_loading},
    {"msamp-fsdp", error, {"fp8_config.backend", "distributed_type"}, msamp_fsdp},
    {"msamp", error, {"fp8_config.backend"}, msamp},
    {"recipe-without-fp8", error, {"mixed_precision", "kwargs_handlers"}, handler_without_fp8},
    {"deepspeed-other-dtype", error, {"mixed_precision", "deepspeed_config.deepspeed_config_file"}, other_dtype},
    {"deepspeed-file-and-keys",
     error,
     {"deepspeed_config.deepspeed_config_file", "mixed_precision"},
     fields_beside_file},
    {"deepspeed-without-zero", error, {"deepspeed_config.deepspeed_config_file"}, without_zero},
    {"sync-module-states",
     error,
     {"fsdp_config.fsdp_sync_module_states", "fsdp_config.fsdp_cpu_ram_efficient_loading"},
     sync_states},
    {"fp16-on-cpu", warning, {"mixed_precision", "use_cpu"}, fp16_on_cpu},
    {"bf16-emulated", warning, {"mixed_precision"}, bf16_emulated},
    {"fp8-capability", warning, {"mixed_precision"}, fp8_capability},
    {"fp8-not-reached", warning, {"mixed_precision", "distributed_type"}, fp8_not_reached},
    {"fp8-backend-unread", warning, {"fp8_config.backend", "distributed_type"}, fp8_backend_unread},
    {"recipe-deprecated", warning, {"kwargs_handlers.FP8RecipeKwargs"}, deprecated_recipe},
    {"questionnaire-key", warning, {"fp8_config.amax_history_length"}, history_length},
    {"questionnaire-key", warning, {"fp8_config.amax_compute_algorithm"}, algorithm},
    {"questionnaire-key", warning, {"fp8_config.optimization_level"}, optimization_level},
    {"te-section-unread", warning, {"fp8_config", "distributed_type"}, te_deepspeed},
    {"torch-compile", warning, {"dynamo_config.dynamo_backend", "dynamo_backend"}, compiled},
    {"bare-no", contradiction, {"mixed_precision"}, bare_no},
    {"old-fp16", contradiction, {"fp16", "mixed_precision"}, old_fp16},
    {"most-recent", contradiction, {"fp8_config.amax_compute_algo"}, most_recent},
    {"deepspeed-decides",
     contradiction,
     {"mixed_precision", "deepspeed_config.deepspeed_config_file"},
     deepspeed_decides},
    {"downcast-unread", inert, {"downcast_bf16"}, downcast},
    {"section-unread",
     inert,
     {"deepspeed_config", "fsdp_config", "megatron_lm_config", "distributed_type"},
     unread_sections},
    {"fp8-unread", inert, {"fp8_config", "mixed_precision"}, fp8_unread},
    {"fp8-backend-assumed", note, {"fp8_config.backend", "mixed_precision"}, backend_assumed},
    {"fp8-layers", note, {"mixed_precision"}, fp8_layers},
    {"tpu-bf16", note, {"downcast_bf16", "mixed_precision"}, tpu_bf16},
    {"launcher", note, {"distributed_type", "num_processes"}, launcher_wants},
    {"handlers", note, {"kwargs_handlers"}, handlers},
    {"sagemaker", note, {"compute_environment"}, sagemaker},
};

}  // namespace

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::accelerate
