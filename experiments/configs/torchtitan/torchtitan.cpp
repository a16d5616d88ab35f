// SPDX-License-Identifier: Apache-2.0
// Importer of torchtitan's TOML files, which torchtitan reads up to 0.2.2. Sources: torchtitan/config_manager.py of
// 0.1.0, config/job_config.py, distributed/utils.py (maybe_enable_amp), components/{loss,optimizer}.py,
// components/quantization/{float8,mx}.py and models/llama3/infra/parallelize.py of 0.2.0 to 0.2.2.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::configs::torchtitan {

namespace {

using enum KeyType;

const KeyRow rows[] = {
    {.path = "model.converters", .type = any, .sets = "fp8", .summary = "converters that change the model's modules"},
    {.path = "training.dtype",
     .type = choice,
     .defaults = {{"", "float32"}},
     .choices = "bfloat16 float32",
     .since = "0.2.0",
     .sets = "store grad opt_state",
     .summary = "format of parameters, gradients and moments"},
    {.path = "training.mixed_precision_param",
     .type = choice,
     .defaults = {{"", "bfloat16"}},
     .choices = "bfloat16 float32",
     .sets = "compute",
     .summary = "param_dtype of FSDP 2, or the format of autocast"},
    {.path = "training.mixed_precision_reduce",
     .type = choice,
     .defaults = {{"", "float32"}},
     .choices = "float32",
     .sets = "reduce"},
    {.path = "training.max_norm", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "training.compile", .type = flag, .defaults = {{"", "false"}}, .until = "0.2.0"},
    {.path = "compile.enable", .type = flag, .defaults = {{"", "false"}}, .since = "0.2.0"},
    {.path = "compile.components", .type = list, .since = "0.2.0"},
    {.path = "parallelism.data_parallel_shard_degree",
     .type = count,
     .defaults = {{"", "-1"}},
     .sets = "compute reduce",
     .summary = "-1 is the number of ranks that are left; 1 is off"},
    {.path = "parallelism.context_parallel_degree", .type = count, .defaults = {{"", "1"}}},
    {.path = "parallelism.tensor_parallel_degree", .type = count, .defaults = {{"", "1"}}},
    {.path = "parallelism.pipeline_parallel_degree", .type = count, .defaults = {{"", "1"}}},
    {.path = "optimizer.implementation",
     .type = choice,
     .defaults = {{"", "fused"}},
     .choices = "for-loop foreach fused",
     .sets = "opt_kernel"},
    {.path = "activation_checkpoint.mode", .type = text, .defaults = {{"", "selective"}}, .sets = "ckpt"},
    {.path = "quantize.linear.float8.recipe_name",
     .type = choice,
     .defaults = {{"", "unset"}},
     .choices = "tensorwise rowwise rowwise_with_gw_hp",
     .since = "0.2.0",
     .sets = "fp8"},
    {.path = "quantize.linear.float8.enable_fsdp_float8_all_gather",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.2.0",
     .sets = "fp8"},
    {.path = "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
     .type = flag,
     .defaults = {{"", "false"}},
     .since = "0.2.0"},
    {.path = "quantize.linear.float8.emulate", .type = flag, .defaults = {{"", "false"}}, .since = "0.2.0"},
    {.path = "quantize.linear.float8.filter_fqns", .type = list, .since = "0.2.0", .sets = "fp8"},
    {.path = "quantize.linear.mx.recipe_name",
     .type = text,
     .defaults = {{"", "mxfp8_cublas"}},
     .since = "0.2.0",
     .sets = "fp8"},
    {.path = "quantize.linear.mx.filter_fqns", .type = list, .since = "0.2.0"},
    {.path = "quantize.grouped_mm.float8.fqns", .type = any, .since = "0.2.0"},
    {.path = "quantize.grouped_mm.mx.fqns", .type = any, .since = "0.2.0"},
    {.path = "quantize.grouped_mm.mx.recipe_name", .type = text, .since = "0.2.0"},
    {.path = "float8.recipe_name",
     .type = choice,
     .defaults = {{"", "unset"}},
     .choices = "tensorwise rowwise rowwise_with_gw_hp",
     .until = "0.2.0",
     .sets = "fp8"},
    {.path = "float8.enable_fsdp_float8_all_gather",
     .type = flag,
     .defaults = {{"", "false"}},
     .until = "0.2.0",
     .sets = "fp8"},
    {.path = "float8.precompute_float8_dynamic_scale_for_fsdp",
     .type = flag,
     .defaults = {{"", "false"}},
     .until = "0.2.0"},
    {.path = "float8.force_recompute_fp8_weight_in_bwd", .type = flag, .defaults = {{"", "false"}}, .until = "0.2.0"},
    {.path = "float8.emulate", .type = flag, .defaults = {{"", "false"}}, .until = "0.2.0"},
    {.path = "float8.filter_fqns", .type = list, .until = "0.2.0", .sets = "fp8"},
    {.path = "mx.recipe_name", .type = text, .defaults = {{"", "mxfp8"}}, .until = "0.2.0", .sets = "fp8"},
    {.path = "mx.filter_fqns", .type = list, .until = "0.2.0"},
};

constexpr std::string_view inert_keys =
    "job.* profiling.* metrics.* lr_scheduler.* checkpoint.* comm.* memory_estimation.* fault_tolerance.* "
    "experimental.* validation.* validation.dataloader.* debug.* "
    "model.name model.flavor model.hf_assets_path model.tokenizer_path model.print_after_conversion "
    "optimizer.name optimizer.lr optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.weight_decay "
    "optimizer.early_step_in_backward "
    "training.dataset training.dataset_path training.local_batch_size training.global_batch_size training.seq_len "
    "training.steps training.enable_cpu_offload training.gc_freq training.gc_debug training.seed "
    "training.deterministic training.debug_moe_force_load_balance training.dataloader.* "
    "parallelism.data_parallel_replicate_degree parallelism.enable_compiled_autograd "
    "parallelism.fsdp_reshard_after_forward parallelism.disable_loss_parallel "
    "parallelism.enable_async_tensor_parallel parallelism.module_fqns_per_model_part "
    "parallelism.pipeline_parallel_split_points parallelism.pipeline_parallel_first_stage_less_layers "
    "parallelism.pipeline_parallel_last_stage_less_layers parallelism.pipeline_parallel_layers_per_stage "
    "parallelism.pipeline_parallel_schedule parallelism.pipeline_parallel_schedule_csv "
    "parallelism.pipeline_parallel_microbatch_size parallelism.pipeline_parallel_expert_parallel_overlap "
    "parallelism.context_parallel_load_balancer parallelism.context_parallel_rotate_method "
    "parallelism.expert_parallel_degree parallelism.expert_tensor_parallel_degree "
    "parallelism.expert_parallel_comm_backend "
    "activation_checkpoint.selective_ac_option activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns "
    "activation_checkpoint.early_stop activation_checkpoint.memory_budget "
    "activation_checkpoint.visualize_memory_budget_pareto activation_checkpoint.preserve_rng_state "
    "activation_checkpoint.determinism_check activation_checkpoint.debug "
    "compile.backend quantize.linear.mx.mxfp8_dim1_cast_kernel_choice mx.use_fp8_dim1_cast_triton_kernel";

/// A converter that puts matmuls of linear layers into 8 bits, by its names in the two generations of torchtitan.
struct Converter {
    std::string_view old_name;  ///< name before 0.2.0, which is also its section
    std::string_view name;      ///< name from 0.2.0 on, which is also its section
};
constexpr Converter float8{"float8", "quantize.linear.float8"}, mx{"mx", "quantize.linear.mx"};

/// Names of the other converters of 0.2.0 to 0.2.2. They change the experts of mixtures of experts.
constexpr std::string_view expert_converters[] = {"quantize.grouped_mm.float8", "quantize.grouped_mm.mx"};

/// How the config selects the low-precision format of matmuls.
enum class Mixing : std::uint8_t { fsdp, autocast, none };

struct Facts {
    char store = 'F', param = 'B';
    Mixing mixing = Mixing::fsdp;
    bool ranks_assumed = false;  ///< data_parallel_shard_degree is -1, so more than one rank is assumed
    bool compiles_model = false;
    std::vector<std::string> converters;
    bool float8 = false, mx = false;  ///< whether a converter is named that puts linears into float8 or MXFP8
    std::string recipe;               ///< recipe_name of float8; empty if it is not set
};

/// Returns whether float8 and mx are in the section `quantize`. The release that moved them there also renamed the
/// converters.
bool has_quantize(const ImportContext& context) { return context.since("0.2.0"); }

/// Returns the path of a key of a converter: "quantize.linear.float8.recipe_name", or "float8.recipe_name" before
/// 0.2.0.
std::string path_of(const ImportContext& context, const Converter& converter, std::string_view key) {
    return fmt::format("{}.{}", has_quantize(context) ? converter.name : converter.old_name, key);
}

/// Returns the texts of a list, or the words of a text that are separated by commas.
std::vector<std::string> names_at(const ImportContext& context, std::string_view path) {
    std::vector<std::string> names;
    const files::ConfigValue* value = context.value(path);
    if (value == nullptr) return names;
    for (const files::ConfigValue& item : value->items) names.push_back(item.written);
    std::string_view rest = value->written;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        if (comma > 0) names.emplace_back(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return names;
}

bool names(const Facts& facts, std::string_view converter) {
    return std::find(facts.converters.begin(), facts.converters.end(), converter) != facts.converters.end();
}

bool compiles_model(const ImportContext& context) {
    if (!has_quantize(context)) return context.flag("training.compile");
    const std::vector<std::string> parts = names_at(context, "compile.components");
    const bool has_model =
        !context.has("compile.components") || std::find(parts.begin(), parts.end(), "model") != parts.end();
    return context.flag("compile.enable") && has_model;
}

Mixing mixing_of(const ImportContext& context) {
    const auto degree = [&](std::string_view key) {
        return context.number(fmt::format("parallelism.{}_parallel_degree", key)).value_or(1);
    };
    if (context.number("parallelism.data_parallel_shard_degree").value_or(-1) != 1 || degree("context") > 1)
        return Mixing::fsdp;
    return degree("tensor") > 1 || degree("pipeline") > 1 ? Mixing::none : Mixing::autocast;
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.store = context.dtype("training.dtype") == 'B' ? 'B' : 'F';
    facts.param = context.dtype("training.mixed_precision_param") == 'F' ? 'F' : 'B';
    facts.mixing = mixing_of(context);
    facts.ranks_assumed = context.number("parallelism.data_parallel_shard_degree").value_or(-1) < 0 &&
                          context.number("parallelism.context_parallel_degree").value_or(1) <= 1;
    facts.compiles_model = compiles_model(context);
    facts.converters = names_at(context, "model.converters");
    // From 0.2.0 on, the old names are unknown converters. The section shows which converter is meant, so the fields
    // describe the converter, and a finding reports its name.
    facts.float8 = names(facts, float8.old_name) || names(facts, float8.name);
    facts.mx = names(facts, mx.old_name) || names(facts, mx.name);
    if (facts.float8) facts.recipe = context.text(path_of(context, float8, "recipe_name"));
    return facts;
}

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

std::string release(const Context& c) { return fmt::format("torchtitan {}", to_string(c.version())); }

Found unknown_converter(const Context& c, const Facts& f) {
    for (const std::string& name : f.converters) {
        const bool is_old = name == float8.old_name || name == mx.old_name;
        const bool is_new =
            name == float8.name || name == mx.name ||
            std::find(std::begin(expert_converters), std::end(expert_converters), name) != std::end(expert_converters);
        if (is_old || (is_new && has_quantize(c))) continue;
        return FindingText{fmt::format("{} has no converter `{}`: it raises KeyError", release(c), name),
                           has_quantize(c) ? "quantize.linear.float8, quantize.linear.mx or a converter that the "
                                             "program registers itself"
                                           : "float8 or mx"};
    }
    return {};
}
Found old_converter(const Context& c, const Facts& f) {
    if (!has_quantize(c)) return {};
    for (const Converter& one : {float8, mx}) {
        if (!names(f, one.old_name)) continue;
        return FindingText{
            fmt::format("releases 0.2.0 to 0.2.2 register this converter as `{}`, and raise KeyError for "
                        "`{}`; it is read here as the new name",
                        one.name, one.old_name),
            fmt::format("converters = [\"{}\"]", one.name)};
    }
    return {};
}
Found recipe_and_gather(const Context& c, const Facts& f) {
    if (f.recipe.empty() || !c.flag(path_of(c, float8, "enable_fsdp_float8_all_gather"))) return {};
    return FindingText{
        fmt::format("float8.py asserts that all-gather in float8 is off if `recipe_name` is set, here to {}", f.recipe),
        "remove recipe_name: without it, the recipe is tensorwise"};
}
Found recipe_and_recompute(const Context& c, const Facts& f) {
    if (f.recipe.empty() || has_quantize(c) || !c.flag("float8.force_recompute_fp8_weight_in_bwd")) return {};
    return FindingText{"float8.py asserts that force_recompute_fp8_weight_in_bwd is off if `recipe_name` is set",
                       "force_recompute_fp8_weight_in_bwd = false"};
}
Found float8_unsupported(const Context& c, const Facts& f) {
    const bool emulates = c.flag(path_of(c, float8, "emulate")) && !f.compiles_model;
    if (!f.float8 || c.device().capability() >= 89 || emulates) return {};
    return FindingText{fmt::format("float8 needs compute capability 8.9, which {} does not have: torchtitan raises "
                                   "ValueError",
                                   c.device().name),
                       "emulate = true, without compiling the model"};
}
Found mx_unsupported(const Context& c, const Facts& f) {
    if (!f.mx || c.device().capability() >= 100) return {};
    return FindingText{fmt::format("MXFP8 needs compute capability 10.0, which {} does not have: torchtitan raises "
                                   "AssertionError",
                                   c.device().name),
                       "--gpu b200, or remove the converter"};
}
Found no_master(const Context&, const Facts& f) {
    if (f.store == 'F') return {};
    return FindingText{
        "all parameters, gradients and moments are bf16: without fp32 master weights, small updates are lost; only "
        "RoPE "
        "and the loss are computed in fp32",
        "dtype = \"float32\""};
}
Found no_mixing(const Context&, const Facts& f) {
    if (f.mixing != Mixing::none) return {};
    return FindingText{
        "with tensor or pipeline parallelism but without FSDP, mixed precision is off: matmuls have the "
        "format of the parameters",
        "data_parallel_shard_degree = -1"};
}
/// Returns whether a key of the section asks for something: a recipe, or a flag that is on.
bool asks(const Context& c, const Converter& converter) {
    for (const std::string_view key : {"enable_fsdp_float8_all_gather", "precompute_float8_dynamic_scale_for_fsdp"}) {
        if (c.flag(path_of(c, converter, key))) return true;
    }
    return c.has(path_of(c, converter, "recipe_name"));
}
Found inert_section(const Context& c, const Converter& converter, bool is_on, bool wants_request) {
    const std::string_view section = has_quantize(c) ? converter.name : converter.old_name;
    if (is_on || !c.has(section) || asks(c, converter) != wants_request) return {};
    return FindingText{fmt::format("`{}` has no effect: no converter of `model.converters` names it, so nothing is "
                                   "quantised",
                                   section),
                       wants_request ? fmt::format("converters = [\"{}\"] in [model]", section) : std::string{},
                       has_quantize(c) ? std::size_t{0} : std::size_t{1}};
}
Found float8_off(const Context& c, const Facts& f) { return inert_section(c, float8, f.float8, true); }
Found mx_off(const Context& c, const Facts& f) { return inert_section(c, mx, f.mx, true); }
Found float8_unused(const Context& c, const Facts& f) { return inert_section(c, float8, f.float8, false); }
Found mx_unused(const Context& c, const Facts& f) { return inert_section(c, mx, f.mx, false); }
Found experts(const Context&, const Facts& f) {
    for (const std::string_view name : expert_converters) {
        if (names(f, name))
            return FindingText{fmt::format("`{}` changes only experts; macheps trains models without experts", name),
                               {}};
    }
    return {};
}
Found one_rank(const Context&, const Facts& f) {
    if (!f.ranks_assumed || f.mixing != Mixing::fsdp) return {};
    return FindingText{
        "more than one rank is assumed, so FSDP converts parameters; on a single GPU, autocast is used "
        "instead",
        {}};
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if ((f.param != 'B' && f.store != 'B') || c.device().bf16) return {};
    return FindingText{fmt::format("{} has no bf16 units; torch emulates bf16, which is slow", c.device().name),
                       "mixed_precision_param = \"float32\""};
}
Found compiled(const Context&, const Facts& f) {
    if (!f.compiles_model) return {};
    return compilation_not_emulated();
}

const FindingRow<Facts> findings[] = {
    {"unknown-converter", error, {"model.converters"}, unknown_converter},
    {"recipe-and-all-gather",
     error,
     {"quantize.linear.float8.enable_fsdp_float8_all_gather", "quantize.linear.float8.recipe_name",
      "float8.enable_fsdp_float8_all_gather", "float8.recipe_name"},
     recipe_and_gather},
    {"recipe-and-recompute",
     error,
     {"float8.force_recompute_fp8_weight_in_bwd", "float8.recipe_name"},
     recipe_and_recompute},
    {"float8-unsupported", error, {"model.converters"}, float8_unsupported},
    {"mx-unsupported", error, {"model.converters"}, mx_unsupported},
    {"converter-name", warning, {"model.converters"}, old_converter},
    {"no-master", warning, {"training.dtype"}, no_master},
    {"no-mixed-precision",
     warning,
     {"parallelism.data_parallel_shard_degree", "parallelism.tensor_parallel_degree",
      "parallelism.pipeline_parallel_degree"},
     no_mixing},
    {"float8-off", warning, {"quantize.linear.float8", "float8", "model.converters"}, float8_off},
    {"mx-off", warning, {"quantize.linear.mx", "mx", "model.converters"}, mx_off},
    {"bf16-emulated", warning, {"training.mixed_precision_param", "training.dtype"}, bf16_emulated},
    {"torch-compile", warning, {"compile.enable", "training.compile"}, compiled},
    {"float8-unused", inert, {"quantize.linear.float8", "float8", "model.converters"}, float8_unused},
    {"mx-unused", inert, {"quantize.linear.mx", "mx", "model.converters"}, mx_unused},
    {"experts", note, {"model.converters"}, experts},
    {"single-gpu", note, {"parallelism.data_parallel_shard_degree"}, one_rank},
};

void set_low_store(ImportContext& context) {
    for (const std::string_view field : {"store", "grad", "accum", "opt_state"})
        context.set(field, letter('B'), "training.dtype");
}

void set_fsdp(ImportContext& context, const Facts& facts) {
    set_storage(context, facts.param == 'F' ? storage::fp32 : storage::fsdp, facts.param,
                "training.mixed_precision_param");
    context.set("reduce", letter('F'), "training.mixed_precision_reduce");
    context.infer("predivide", word_field("average"), "FSDP 2");
}

void set_formats(ImportContext& context, const Facts& facts) {
    if (facts.mixing == Mixing::fsdp) {
        set_fsdp(context, facts);
    } else if (facts.mixing == Mixing::autocast && facts.param != 'F') {
        set_storage(context, facts.store == 'F' ? storage::amp : storage::low_amp, facts.param,
                    "training.mixed_precision_param");
    } else {
        set_storage(context, facts.store == 'F' ? storage::fp32 : storage::pure, facts.store, "training.dtype");
    }
    if (facts.store != 'F') set_low_store(context);
    context.infer("buffers", letter('F'), "the rotary frequencies are complex numbers of fp32 parts");
    context.infer("logits", letter('F'), "loss.py widens the logits");
}

/// Returns the layer filter of macheps that leaves out these layers, or an empty text if there is none.
std::string filter_of(const std::vector<std::string>& names, std::string_view recipe) {
    if (std::find(names.begin(), names.end(), "auto_filter_small_kn") != names.end())
        return recipe == "rowwise" ? "torchao-auto-rowwise" : "torchao-auto-tensorwise";
    return names == std::vector<std::string>{"output"} ? "blocks" : "";
}

/// Adds the layers that stay in high precision to a recipe. Reports names that no layer filter of macheps leaves out.
void add_filter(ImportContext& context, FieldValue& recipe, const std::string& path, std::vector<std::string> names,
                std::string_view recipe_name) {
    std::erase(names, "router.gate");  // a dense model has no router
    if (names.empty()) return;
    if (std::string filter = filter_of(names, recipe_name); !filter.empty()) {
        recipe.parts.emplace_back("filter", std::move(filter));
        return;
    }
    Finding& finding =
        context.report(FindingCode::note, "layer-names", {path},
                       fmt::format("not emulated yet: layers whose names contain {} stay in high precision; the policy "
                                   "puts every linear layer into 8 bits",
                                   fmt::join(names, ", ")));
    finding.not_emulated = "the layer names of filter_fqns are not emulated: every linear layer is in 8 bits";
}

FieldValue float8_recipe(ImportContext& context, const Facts& facts) {
    const bool gathers = facts.mixing == Mixing::fsdp && facts.recipe.empty() &&
                         context.flag(path_of(context, float8, "enable_fsdp_float8_all_gather"));
    FieldValue recipe{.value = fmt::format("ao_{}", facts.recipe.empty() ? "tensorwise" : facts.recipe),
                      .parts = {{"all_gather", gathers}}};
    const std::string path = path_of(context, float8, "filter_fqns");
    add_filter(context, recipe, path, names_at(context, path), facts.recipe);
    return recipe;
}

FieldValue mx_recipe(ImportContext& context) {
    // mxfp8 is the name of mxfp8_cublas before 0.2.0. Both round the scale down.
    const bool rounds_up = context.text(path_of(context, mx, "recipe_name")).ends_with("_rceil");
    FieldValue recipe{.value = std::string(rounds_up ? "ao_mxfp8_rceil" : "ao_mxfp8_floor"), .parts = {}};
    const std::string path = path_of(context, mx, "filter_fqns");
    add_filter(context, recipe, path, context.has(path) ? names_at(context, path) : std::vector<std::string>{"output"},
               {});
    return recipe;
}

void set_fp8(ImportContext& context, const Facts& facts) {
    if (!facts.float8 && !facts.mx) {
        context.infer("fp8", word_field("none"), "no converter names a format of 8 bits");
        return;
    }
    FieldValue recipe = facts.float8 ? float8_recipe(context, facts) : mx_recipe(context);
    context.set("compute", {.value = recipe.value, .parts = {}}, "model.converters");
    context.set("fp8", std::move(recipe), "model.converters");
}

void resolve(ImportContext& context) {
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, findings);
    set_formats(context, facts);
    set_fp8(context, facts);
    context.infer("scaler", no_scaler_field(), "torchtitan has no loss scaler");
    context.set("clip", clip_field("torch", context.number("training.max_norm").value_or(0)), "training.max_norm");
    const std::string kernel = context.text("optimizer.implementation");
    context.set("opt_kernel", word_field(kernel == "for-loop" ? "single" : kernel), "optimizer.implementation");
    context.set("ckpt", {.value = context.text("activation_checkpoint.mode") != "none", .parts = {}},
                "activation_checkpoint.mode");
    context.infer("adapter", word_field("none"), "torchtitan trains the whole model");
}

/// See Framework::recognises.
int recognises(const files::ConfigValue& root) {
    int score = 0;
    for (const std::string_view own :
         {"model.flavor", "model.converters", "training.local_batch_size", "training.mixed_precision_param",
          "parallelism.data_parallel_shard_degree", "quantize.linear.float8", "training.mixed_precision_reduce"}) {
        if (root.find(own) != nullptr) score += 45;
    }
    return std::min(score, 95);
}

/// Returns whether the config names a module that extends torchtitan's own keys.
bool has_own_keys(const ImportContext& context) {
    return context.has("job.custom_config_module") || context.has("experimental.custom_args_module") ||
           context.has("experimental.custom_import");
}

}  // namespace

extern const Framework framework{
    .name = "torchtitan",
    .title = "torchtitan",
    .newest = "0.2.2",
    .oldest = "0.1.0",
    .keys = rows,
    .inert_keys = inert_keys,
    .model = "llama",
    .marks =
        "model.flavor model.converters training.local_batch_size training.mixed_precision_param "
        "parallelism.data_parallel_shard_degree quantize.linear @torchtitan*",
    .recognises = recognises,
    .refuses_unknown = [](const ImportContext& context, std::string_view) { return !has_own_keys(context); },
    .resolve = resolve};

}  // namespace macheps::configs::torchtitan
