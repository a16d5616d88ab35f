// SPDX-License-Identifier: Apache-2.0
// Importer of plain PyTorch, where arguments in a program set the precision: FSDP's policies, autocast, GradScaler and
// the flags of matmuls. A config is a map from the names of these arguments to their values. Sources:
// torch/distributed/fsdp/{api,_fully_shard/_fsdp_api}.py, torch/amp/*.py and torch/backends of 2.7 and 2.15.0;
// aten/src/ATen/Context.h of 2.7.
#include "core/text/nearest_name.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/reduce_text.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::torch {

namespace {

using enum KeyType;
using Kind = DeviceProfile::Kind;

const KeyRow rows[] = {
    {.path = "fsdp", .type = map, .summary = "MixedPrecision of FSDP 1, or MixedPrecisionPolicy with version: 2"},
    {.path = "fsdp.version", .type = number, .defaults = {{"", "1"}}, .sets = "scaler predivide"},
    {.path = "fsdp.param_dtype", .type = dtype, .sets = "compute"},
    {.path = "fsdp.reduce_dtype", .type = dtype, .sets = "reduce"},
    {.path = "fsdp.buffer_dtype", .type = dtype, .sets = "buffers"},
    {.path = "fsdp.output_dtype", .type = dtype, .sets = "logits"},
    {.path = "fsdp.keep_low_precision_grads", .type = flag, .defaults = {{"", "false"}}, .sets = "grad"},
    {.path = "fsdp.cast_forward_inputs", .type = flag},
    {.path = "fsdp.cast_root_forward_inputs", .type = flag, .defaults = {{"", "true"}}},
    {.path = "fsdp._module_classes_to_ignore", .type = any},
    {.path = "autocast", .type = map},
    {.path = "autocast.enabled", .type = flag, .defaults = {{"", "true"}}, .sets = "oplist"},
    {.path = "autocast.device_type", .type = text},
    {.path = "autocast.dtype", .type = dtype, .sets = "compute"},
    {.path = "autocast.cache_enabled", .type = flag, .defaults = {{"", "true"}}},
    {.path = "grad_scaler", .type = map},
    {.path = "grad_scaler.device", .type = text},
    {.path = "grad_scaler.init_scale", .type = number, .defaults = {{"", "65536.0"}}, .sets = "scaler"},
    {.path = "grad_scaler.growth_factor", .type = number, .defaults = {{"", "2.0"}}, .sets = "scaler"},
    {.path = "grad_scaler.backoff_factor", .type = number, .defaults = {{"", "0.5"}}, .sets = "scaler"},
    {.path = "grad_scaler.growth_interval", .type = number, .defaults = {{"", "2000"}}, .sets = "scaler"},
    {.path = "grad_scaler.enabled", .type = flag, .defaults = {{"", "true"}}, .sets = "scaler"},
    {.path = "model_dtype",
     .type = dtype,
     .defaults = {{"", "float32"}},
     .sets = "store",
     .summary = "model.half(), model.bfloat16()"},
    {.path = "max_norm", .type = number, .sets = "clip", .summary = "of clip_grad_norm_"},
    {.path = "allow_tf32",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "compute",
     .summary = "torch.backends.cuda.matmul.allow_tf32"},
    {.path = "cudnn_allow_tf32",
     .type = flag,
     .defaults = {{"", "true"}},
     .summary = "torch.backends.cudnn.allow_tf32: convolutions"},
    {.path = "float32_matmul_precision",
     .type = choice,
     .defaults = {{"", "highest"}},
     .choices = "highest high medium",
     .sets = "compute"},
    {.path = "fp32_precision",
     .type = choice,
     .defaults = {{"", "none"}},
     .choices = "none ieee tf32",
     .since = "2.9",
     .sets = "compute",
     .summary = "torch.backends.fp32_precision, which replaces allow_tf32"},
    {.path = "comm_hook",
     .type = choice,
     .defaults = {{"", "none"}},
     .choices = "none fp16 bf16",
     .sets = "reduce",
     .summary = "DDP's fp16_compress_hook or bf16_compress_hook"},
    {.path = "fused", .type = flag, .defaults = {{"", "false"}}, .sets = "opt_kernel", .summary = "of torch.optim"},
    {.path = "foreach",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "opt_kernel",
     .summary = "argument of torch.optim; the effect of None depends on the device"},
    {.path = "gradient_checkpointing", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "compile", .type = flag, .defaults = {{"", "false"}}},
    {.path = "apex", .type = any, .summary = "arguments of apex.amp.initialize; ignored"},
};

struct Facts {
    bool fsdp = false, has_autocast = false, has_scaler = false;
    int version = 1;      ///< version of FSDP
    char param = 0;       ///< param_dtype of FSDP; 0 if it is not set
    char autocast = 'F';  ///< format of autocast: H, B, or F if autocast is off
    char model = 'F';     ///< format that the model was cast to
    bool on_cpu = false, tf32 = false;
};

/// Returns the key that turns tf32 on for matrix products, or an empty text if none does.
std::string_view tf32_key(const ImportContext& context) {
    if (context.flag("allow_tf32")) return "allow_tf32";
    if (context.text("float32_matmul_precision") != "highest") return "float32_matmul_precision";
    return context.text("fp32_precision") == "tf32" ? "fp32_precision" : "";
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.fsdp = context.has("fsdp");
    facts.version = context.number("fsdp.version").value_or(1) == 2 ? 2 : 1;
    facts.param = context.dtype("fsdp.param_dtype");
    facts.model = context.dtype("model_dtype");
    if (facts.model == 0) facts.model = 'F';
    const std::string type = context.text("autocast.device_type");
    facts.on_cpu = type.empty() ? context.device().kind == Kind::cpu : type == "cpu";
    if (context.has("autocast") && context.flag("autocast.enabled")) {
        const char low = context.dtype("autocast.dtype");
        facts.autocast = low != 0 ? low : facts.on_cpu ? 'B' : 'H';
        facts.has_autocast = facts.autocast != 'F';
    }
    facts.has_scaler = context.has("grad_scaler") && context.flag("grad_scaler.enabled");
    facts.tf32 = !tf32_key(context).empty() && context.device().tf32 && !facts.on_cpu;
    return facts;
}

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

/// Returns the format in which FSDP gathers the weights. The shards, the gradients and the optimiser's state keep the
/// format that the model has when FSDP wraps it.
char gathered(const Facts& f) { return f.param != 0 ? f.param : f.model; }
/// Returns whether the scaler is the ShardedGradScaler of FSDP 1, which accepts fp16 gradients.
bool has_sharded_scaler(const Facts& f) { return f.fsdp && f.version == 1; }

Found growth_factor(const Context& c, const Facts& f) {
    const double factor = c.number("grad_scaler.growth_factor").value_or(2);
    if (!f.has_scaler || factor > 1) return {};
    return FindingText{fmt::format("GradScaler asserts a growth factor above 1, but gets {}", factor),
                       "growth_factor: 2.0"};
}
Found backoff_factor(const Context& c, const Facts& f) {
    const double factor = c.number("grad_scaler.backoff_factor").value_or(0.5);
    if (!f.has_scaler || factor < 1) return {};
    return FindingText{fmt::format("GradScaler asserts a backoff factor below 1, but gets {}", factor),
                       "backoff_factor: 0.5"};
}
Found fp16_gradients(const Context&, const Facts& f) {
    if (!f.has_scaler || f.model != 'H' || has_sharded_scaler(f)) return {};
    return FindingText{
        "parameters in fp16 give fp16 gradients, which GradScaler refuses: \"Attempting to unscale FP16 gradients\"",
        "keep the model in fp32 and use autocast"};
}
Found bf16_gradients(const Context&, const Facts& f) {
    if (!f.has_scaler || f.model != 'B' || f.on_cpu) return {};
    return FindingText{
        "parameters in bf16 give bf16 gradients, which GradScaler cannot unscale on CUDA: \"not implemented for "
        "'BFloat16'\"",
        "remove grad_scaler: bf16 does not need it"};
}
Found buffer_of_fsdp2(const Context& c, const Facts& f) {
    if (!f.fsdp || f.version == 1 ||
        !(c.has("fsdp.buffer_dtype") || c.has("fsdp.keep_low_precision_grads") ||
          c.has("fsdp.cast_root_forward_inputs") || c.has("fsdp._module_classes_to_ignore")))
        return {};
    return FindingText{"MixedPrecisionPolicy of FSDP 2 has no such argument: Python raises TypeError",
                       "param_dtype, reduce_dtype, output_dtype and cast_forward_inputs"};
}
Found output_of_fsdp1(const Context& c, const Facts& f) {
    if (!f.fsdp || f.version == 2 || !c.has("fsdp.output_dtype")) return {};
    return FindingText{"MixedPrecision of FSDP 1 has no output_dtype: Python raises TypeError", "version: 2"};
}
Found no_scaler(const Context&, const Facts& f) {
    const bool is_half_model = f.model == 'H' && has_sharded_scaler(f);
    if (f.has_scaler || (f.autocast != 'H' && f.param != 'H' && !is_half_model)) return {};
    return FindingText{"fp16 without a loss scaler: gradients below 2^-25 become 0, and nothing guards against Inf",
                       f.fsdp && f.version == 1 ? "ShardedGradScaler" : "grad_scaler: {}"};
}
Found scaler_without_fp16(const Context&, const Facts& f) {
    if (!f.has_scaler || f.autocast == 'H' || f.param == 'H' || f.model == 'H') return {};
    return FindingText{
        "nothing here computes in fp16: a power-of-two loss scale changes only results that overflow, and then the "
        "step is skipped",
        "remove grad_scaler"};
}
Found low_model(const Context&, const Facts& f) {
    if (f.model == 'F') return {};
    return FindingText{
        fmt::format("the model is {0}: {1}weights, gradients and the optimiser's state are {0}; without fp32 master "
                    "weights small updates are lost",
                    format_word(f.model),
                    f.fsdp ? "FSDP keeps the format that the model has when it is wrapped, so " : ""),
        f.fsdp ? "model_dtype: float32" : "model_dtype: float32 with autocast"};
}
Found two_kernels(const Context& c, const Facts&) {
    if (!c.flag("fused") || !c.flag("foreach")) return {};
    return FindingText{"`fused` and `foreach` cannot both be true", "only one of them"};
}
/// Returns the format in which FSDP sums gradients between ranks. Since torch 2.15, FSDP 2 uses the format of the
/// shards if reduce_dtype is not set, and not param_dtype.
char reduction(const Context& c, const Facts& f) {
    if (const char said = c.dtype("fsdp.reduce_dtype")) return said;
    if (f.version == 2 && c.since("torch", "2.15")) return f.model;
    return gathered(f);
}
Found low_reduce(const Context& c, const Facts& f) {
    if (!f.fsdp || reduction(c, f) == 'F') return {};
    return FindingText{
        fmt::format("{}gradients are summed between ranks in {}",
                    c.has("fsdp.reduce_dtype") ? "" : "reduce_dtype is not set, so ", format_word(reduction(c, f))),
        "reduce_dtype: float32"};
}
Found low_hook(const Context& c, const Facts& f) {
    const char wire = dtype_letter(c.text("comm_hook"));
    if (f.fsdp || wire == 0) return {};
    return FindingText{
        fmt::format("the hook casts gradients to {}, and ranks sum them in this format", format_word(wire)),
        "comm_hook: none"};
}
Found low_buffers(const Context& c, const Facts& f) {
    const char buffer = c.dtype("fsdp.buffer_dtype");
    if (!f.fsdp || buffer == 0 || buffer == 'F') return {};
    return FindingText{fmt::format("buffers are cast to {}: the frequencies of rotary embeddings are rounded, and the "
                                   "angles of distant positions are wrong",
                                   format_word(buffer)),
                       "buffer_dtype: float32"};
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if ((f.autocast != 'B' && f.param != 'B' && f.model != 'B') || c.device().bf16 || f.on_cpu) return {};
    return FindingText{fmt::format("{} has no bf16 units; torch emulates bf16, which is slow", c.device().name),
                       "float16, with grad_scaler"};
}
Found tf32_absent(const Context& c, const Facts& f) {
    if (f.tf32 || tf32_key(c).empty()) return {};
    return FindingText{fmt::format("{} has no tf32: the flag has no effect", f.on_cpu ? "a CPU" : c.device().name), {}};
}
Found two_ways(const Context& c, const Facts& f) {
    if (!c.has("apex")) return {};
    return FindingText{fmt::format("`apex` describes a different way to train than {}; `apex` is ignored",
                                   f.fsdp ? "`fsdp`" : "the other keys"),
                       "a separate file"};
}
Found output_format(const Context& c, const Facts& f) {
    const char output = c.dtype("fsdp.output_dtype");
    if (!f.fsdp || f.version == 1 || output == 0 || output == 'F' || output == gathered(f)) return {};
    return not_emulated(fmt::format("fsdp.output_dtype {} is not emulated: the policy keeps the logits in {}",
                                    format_word(output), format_word(gathered(f))));
}
Found ignored_classes(const Context& c, const Facts& f) {
    if (!f.fsdp || f.version == 2 || !c.has("fsdp._module_classes_to_ignore")) return {};
    return not_emulated("fsdp._module_classes_to_ignore is not emulated: the policy casts the weights of all modules");
}
Found hook_of_ddp(const Context& c, const Facts& f) {
    if (!f.fsdp || !c.has("comm_hook") || c.text("comm_hook") == "none") return {};
    return FindingText{"`comm_hook` is a hook of DDP: FSDP does not call it, and sends gradients in reduce_dtype", {}};
}
Found compiled(const Context& c, const Facts&) {
    if (!c.flag("compile")) return {};
    return compilation_not_emulated();
}

/// A config does not show the order of the calls.
Found clip_order(const Context& c, const Facts& f) {
    if (!f.has_scaler || !c.has("max_norm")) return {};
    return FindingText{
        "the import assumes that scaler.unscale_(optimizer) is called before clip_grad_norm_: otherwise "
        "the scaled gradients are clipped, and their norm after unscaling is at most max_norm / scale",
        {}};
}

const FindingRow<Facts> findings[] = {
    {"growth-factor", error, {"grad_scaler.growth_factor"}, growth_factor},
    {"backoff-factor", error, {"grad_scaler.backoff_factor"}, backoff_factor},
    {"fused-and-foreach", error, {"foreach", "fused"}, two_kernels},
    {"fp16-gradients", error, {"model_dtype", "grad_scaler"}, fp16_gradients},
    {"bf16-gradients", error, {"grad_scaler", "model_dtype"}, bf16_gradients},
    {"fsdp2-argument",
     error,
     {"fsdp.version", "fsdp.buffer_dtype", "fsdp.keep_low_precision_grads", "fsdp.cast_root_forward_inputs",
      "fsdp._module_classes_to_ignore"},
     buffer_of_fsdp2},
    {"fsdp1-argument", error, {"fsdp.output_dtype", "fsdp.version"}, output_of_fsdp1},
    {"fp16-without-scaler", warning, {"grad_scaler", "autocast.dtype", "fsdp.param_dtype"}, no_scaler},
    {"scaler-without-fp16", warning, {"grad_scaler", "autocast.dtype"}, scaler_without_fp16},
    {"no-master", warning, {"model_dtype"}, low_model},
    {"fsdp-low-reduce", warning, {"fsdp.reduce_dtype", "fsdp.param_dtype"}, low_reduce},
    {"low-hook", warning, {"comm_hook"}, low_hook},
    {"buffers-cast", warning, {"fsdp.buffer_dtype"}, low_buffers},
    {"bf16-emulated", warning, {"autocast.dtype", "fsdp.param_dtype", "model_dtype"}, bf16_emulated},
    {"torch-compile", warning, {"compile"}, compiled},
    {"two-ways", contradiction, {"apex", "fsdp"}, two_ways},
    {"clip-order", note, {"max_norm", "grad_scaler"}, clip_order},
    {"output-format", note, {"fsdp.output_dtype", "fsdp.param_dtype"}, output_format},
    {"ignored-classes", note, {"fsdp._module_classes_to_ignore"}, ignored_classes},
    {"hook-of-ddp", inert, {"comm_hook", "fsdp"}, hook_of_ddp},
    {"tf32-absent", inert, {"allow_tf32", "float32_matmul_precision", "fp32_precision"}, tf32_absent},
};

void set_fsdp(ImportContext& context, const Facts& facts) {
    const char low = gathered(facts);
    set_storage(context, low == 'F' ? storage::fp32 : storage::fsdp, low, "fsdp.param_dtype");
    if (facts.model != 'F') {
        for (const std::string_view field : {"store", "grad", "accum", "opt_state"})
            context.set(field, letter(facts.model), "model_dtype");
    }
    if (facts.has_autocast) {
        context.infer("oplist", word_field(facts.on_cpu ? "torch-cpu" : "torch-cuda"), "from autocast");
        context.set("compute", letter(facts.autocast), "autocast.dtype");
    }
    if (const char wire = context.dtype("fsdp.reduce_dtype"))
        context.set("reduce", letter(wire), "fsdp.reduce_dtype");
    else if (const char format = reduction(context, facts); format == low)
        context.infer("reduce", letter(low), "from fsdp.param_dtype: reduce_dtype is not set");
    else
        context.infer("reduce", letter(format), "the format of the shards: reduce_dtype is not set");
    if (const char buffer = context.dtype("fsdp.buffer_dtype"))
        context.set("buffers", letter(buffer), "fsdp.buffer_dtype");
    else
        context.set("buffers", letter(facts.model), "model_dtype");
    if (const char output = context.dtype("fsdp.output_dtype"); output == 'F')
        context.set("logits", letter('F'), "fsdp.output_dtype");
    if (context.flag("fsdp.keep_low_precision_grads"))
        context.set("grad", letter(low), "fsdp.keep_low_precision_grads");
    context.infer("predivide", fsdp_average(context.resolved(), facts.version), fmt::format("FSDP {}", facts.version));
}

void resolve(ImportContext& context) {
    const Facts found = facts_of(context);
    report_rows<Facts>(context, found, findings);
    if (found.fsdp) {
        set_fsdp(context, found);
    } else if (found.has_autocast) {
        set_storage(context, found.model == 'F' ? storage::amp : storage::low_amp, found.autocast, "autocast.dtype");
        context.infer("oplist", word_field(found.on_cpu ? "torch-cpu" : "torch-cuda"), "from autocast");
        if (found.model != 'F') {
            for (std::string_view field :
                 {"store", "grad", "accum", "reduce", "opt_state", "norm", "embed", "lm_head", "buffers", "eval"})
                context.set(field, letter(found.model), "model_dtype");
        }
    } else {
        set_storage(context, found.model == 'F' ? storage::fp32 : storage::pure, found.model, "model_dtype");
    }
    if (const char wire = dtype_letter(context.text("comm_hook")); wire != 0 && !found.fsdp)
        context.set("reduce", letter(wire), "comm_hook");
    if (found.tf32 && context.resolved().word("compute") == "F") context.set("compute", letter('T'), tf32_key(context));

    FieldValue scaler = no_scaler_field();
    if (found.has_scaler) {
        const auto number = [&](std::string_view key) {
            return context.number(fmt::format("grad_scaler.{}", key)).value_or(0);
        };
        scaler = torch_scaler_field({.init_scale = number("init_scale"),
                                     .growth_factor = number("growth_factor"),
                                     .backoff_factor = number("backoff_factor"),
                                     .growth_interval = number("growth_interval"),
                                     .sharded = found.fsdp && found.version == 1,
                                     .is_fused = context.flag("fused")});
    }
    context.set("scaler", std::move(scaler), "grad_scaler");
    context.set(
        "clip",
        clip_field(found.fsdp && found.version == 1 ? "fsdp1" : "torch", context.number("max_norm").value_or(0)),
        "max_norm");
    if (!context.flag("fused") && context.has("foreach"))
        context.set("opt_kernel", word_field(context.flag("foreach") ? "foreach" : "single"), "foreach");
    else
        context.set("opt_kernel", word_field(context.flag("fused") ? "fused" : "single"), "fused");
    context.set("ckpt", {.value = context.flag("gradient_checkpointing"), .parts = {}}, "gradient_checkpointing");
    context.infer("fp8", word_field("none"), "no fp8 recipe");
    if (context.text("autocast.device_type") == "cpu") context.set("device", word_field("cpu"), "autocast.device_type");
}

int recognises(const files::ConfigValue& root) {
    int score = 0;
    for (std::string_view key :
         {"fsdp.param_dtype", "fsdp.reduce_dtype", "fsdp.buffer_dtype", "fsdp.output_dtype", "autocast.dtype",
          "autocast.device_type", "grad_scaler.init_scale", "grad_scaler.growth_interval"}) {
        if (root.find(key)) score += 45;
    }
    for (std::string_view key : {"autocast", "grad_scaler", "float32_matmul_precision", "allow_tf32"}) {
        if (root.entry(key)) score += 40;
    }
    return score > 90 ? 90 : score;
}

/// Renames the section `fsdp2` to `fsdp` and sets its `version` to 2. Renames the key `clip_grad_norm` to `max_norm`.
void prepare(ImportContext& context) {
    for (files::ConfigValue::Entry& entry : context.root().entries) {
        if (entry.key == "clip_grad_norm") entry.key = "max_norm";
        if (entry.key != "fsdp2" || !entry.value.is_map() || context.value("fsdp")) continue;
        entry.key = "fsdp";
        entry.value.set("version", files::yaml_scalar("2", entry.place));
    }
}

}  // namespace

extern const Framework framework{
    .name = "torch",
    .title = "PyTorch",
    .newest = "2.15.0",
    .oldest = "2.0",
    .keys = rows,
    .dtype_keys = "model_dtype",
    .marks =
        "autocast.dtype autocast.device_type grad_scaler.init_scale grad_scaler.enabled fsdp.param_dtype "
        "fsdp2.param_dtype "
        "fsdp.reduce_dtype fsdp2.reduce_dtype float32_matmul_precision",
    .recognises = recognises,
    // Keys in a section are arguments of a Python call, which raises TypeError for an unknown argument. Keys at the top
    // level are not arguments of a call.
    .refuses_unknown = [](const ImportContext&,
                          std::string_view path) { return path.find('.') != std::string_view::npos; },
    .prepare = prepare,
    .resolve = resolve};

}  // namespace macheps::configs::torch
