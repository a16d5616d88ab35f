// SPDX-License-Identifier: Apache-2.0
// Importer of nanoGPT. It reads the global variables of train.py from overrides (`--dtype=float16`) or from a file.
// Source: karpathy/nanoGPT train.py (dtype, TF32 flags, autocast context, GradScaler, clipping) and configurator.py, at
// commit 3adf61e1.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::nanogpt {

namespace {

using enum KeyType;

constexpr auto unread = KeyEffect::inert;

const KeyRow rows[] = {
    {.path = "dtype",
     .type = choice,
     .choices = "float32 bfloat16 float16",
     .sets = "compute oplist scaler",
     .summary = "bfloat16 if torch reports it as supported, otherwise float16"},
    {.path = "device", .type = text, .defaults = {{"", "cuda"}}, .sets = "compute", .summary = "cpu, mps: no autocast"},
    {.path = "grad_clip", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip", .summary = "0 is off"},
    {.path = "gradient_accumulation_steps", .type = count, .defaults = {{"", "40"}}},
    {.path = "compile", .type = flag, .defaults = {{"", "true"}}, .summary = "torch.compile"},
    {.path = "eval_only", .type = flag, .effect = unread},
    {.path = "out_dir", .type = text, .effect = unread},
    {.path = "eval_interval", .type = count, .effect = unread},
    {.path = "log_interval", .type = count, .effect = unread},
    {.path = "eval_iters", .type = count, .effect = unread},
    {.path = "always_save_checkpoint", .type = flag, .effect = unread},
    {.path = "init_from", .type = text, .effect = unread},
    {.path = "wandb_log", .type = flag, .effect = unread},
    {.path = "wandb_project", .type = text, .effect = unread},
    {.path = "wandb_run_name", .type = text, .effect = unread},
    {.path = "dataset", .type = text, .effect = unread},
    {.path = "batch_size", .type = count, .effect = unread},
    {.path = "block_size", .type = count, .effect = unread},
    {.path = "n_layer", .type = count, .effect = unread},
    {.path = "n_head", .type = count, .effect = unread},
    {.path = "n_embd", .type = count, .effect = unread},
    {.path = "dropout", .type = number, .effect = unread},
    {.path = "bias", .type = flag, .effect = unread},
    {.path = "learning_rate", .type = number, .effect = unread},
    {.path = "max_iters", .type = count, .effect = unread},
    {.path = "weight_decay", .type = number, .effect = unread},
    {.path = "beta1", .type = number, .effect = unread},
    {.path = "beta2", .type = number, .effect = unread},
    {.path = "decay_lr", .type = flag, .effect = unread},
    {.path = "warmup_iters", .type = count, .effect = unread},
    {.path = "lr_decay_iters", .type = count, .effect = unread},
    {.path = "min_lr", .type = number, .effect = unread},
    {.path = "backend", .type = text, .effect = unread},
};

struct Facts {
    bool on_gpu = true;  ///< device_type is 'cuda'; only then is there an autocast context
    char format = 'B';   ///< F, H or B: from dtype, or else the default of train.py
    bool fused = true;   ///< AdamW is fused: on CUDA, if torch has the argument `fused`, which 2.0.0 added
};

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.on_gpu = context.text("device").find("cuda") != std::string::npos;
    const std::optional<FrameworkVersion> torch = context.given_version("torch");
    facts.fused = facts.on_gpu && (!torch || *torch >= parse_version("2.0.0"));
    const char said = context.dtype("dtype");
    facts.format = said != 0 ? said : context.device().torch_says_gpu_bf16() ? 'B' : 'H';
    return facts;
}

using Found = std::optional<FindingText>;
using enum FindingCode;

Found no_gpu(const ImportContext& context, const Facts& facts) {
    if (!facts.on_gpu || context.device().is_cuda_like()) return {};
    return FindingText{
        fmt::format("train.py requests `{}`, but the device {} has no CUDA: torch raises an error before step 1",
                    context.text("device"), context.device().name),
        "device: cpu"};
}

Found no_autocast(const ImportContext& context, const Facts& facts) {
    if (facts.on_gpu || !context.has("dtype") || facts.format == 'F') return {};
    return FindingText{
        fmt::format(
            "without CUDA the autocast context is empty: `dtype` {} has no effect, and everything is computed in fp32",
            context.text("dtype")),
        "dtype: float32"};
}

Found useless_scaler(const ImportContext&, const Facts& facts) {
    if (facts.on_gpu || facts.format != 'H') return {};
    return FindingText{"GradScaler is created for float16 on any device, but without CUDA torch warns and disables it",
                       "dtype: float32"};
}

Found emulated_bf16(const ImportContext& context, const Facts& facts) {
    if (!facts.on_gpu || facts.format != 'B' || context.device().bf16 || !context.device().is_cuda_like()) return {};
    return FindingText{
        fmt::format("{} has no bf16 units; torch reports bf16 as supported because it counts emulation, which is slow",
                    context.device().name),
        training_format(context) == 'H' ? "dtype: float16" : "dtype: float32"};
}

Found compiled(const ImportContext& context, const Facts&) {
    if (!context.flag("compile")) return {};
    return compilation_not_emulated("compile: false, so that training rounds as emulated");
}

Found tf32(const ImportContext& context, const Facts& facts) {
    if (!facts.on_gpu || facts.format != 'F' || !context.device().tf32) return {};
    return FindingText{"train.py turns TF32 on for matmuls and cuDNN, so float32 matmuls run in tf32", {}};
}

Found skipped_steps(const ImportContext&, const Facts& facts) {
    if (!facts.on_gpu || facts.format != 'H') return {};
    return FindingText{
        "the learning rate is a function of the iteration, so it also advances in steps that the scaler skips", {}};
}

const FindingRow<Facts> finding_rows[] = {
    {"no-gpu", error, {"device"}, no_gpu},
    {"dtype-without-autocast", warning, {"dtype", "device"}, no_autocast},
    {"scaler-off-cuda", warning, {"dtype", "device"}, useless_scaler},
    {"emulated-bf16", warning, {"dtype"}, emulated_bf16},
    {"compiled", warning, {"compile"}, compiled},
    {"tf32-flags", note, {"dtype"}, tf32},
    {"rate-advances-in-skips", note, {"dtype"}, skipped_steps},
};

void resolve(ImportContext& context) {
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, finding_rows);
    const bool has_autocast = facts.on_gpu && facts.format != 'F';
    set_storage(context, has_autocast ? storage::amp : storage::fp32, facts.format, has_autocast ? "dtype" : "device");
    if (has_autocast && !context.has("dtype")) context.by_device("compute", letter(facts.format));
    if (facts.on_gpu && facts.format == 'F') {
        context.set("compute", letter(context.device().tf32 ? 'T' : 'F'), "dtype");
    }
    const double max_norm = context.number("grad_clip").value_or(0);
    const bool scales = has_autocast && facts.format == 'H';
    // The fused AdamW itself divides by the scale, unless clipping has already unscaled the gradients.
    context.set("scaler", scales ? torch_scaler_field({.is_fused = facts.fused && max_norm == 0}) : no_scaler_field(),
                "dtype");
    context.set("clip", clip_field("torch", max_norm), "grad_clip");
    context.infer("opt_kernel", word_field(facts.fused ? "fused" : "single"),
                  facts.on_gpu && !facts.fused ? "AdamW has the argument `fused` from torch 2.0.0 on"
                                               : "from device: AdamW is fused on cuda");
    context.infer("predivide", word_field("prescale"), "DDP divides each gradient when it copies it into its bucket");
    context.infer("ckpt", {.value = false, .parts = {}}, "nanoGPT does not have this");
    context.infer("fp8", word_field("none"), "nanoGPT does not have this");
    context.infer("adapter", word_field("none"), "nanoGPT does not have this");
}

/// See Framework::recognises. Adds points for each key that only nanoGPT has at the root of its configs. Subtracts
/// points for each key that nanoGPT does not have. No other framework has configs that are Python files, so a Python
/// file needs none of these keys.
int recognises(const files::ConfigValue& root) {
    int score = root.place.file.ends_with(".py") ? 60 : 0;
    for (const std::string_view own :
         {"grad_clip", "n_embd", "block_size", "lr_decay_iters", "always_save_checkpoint", "eval_iters"}) {
        if (root.entry(own) != nullptr) score += 45;
    }
    for (const files::ConfigValue::Entry& entry : root.entries) {
        const auto is_it = [&](const KeyRow& row) { return row.path == entry.key; };
        if (std::none_of(std::begin(rows), std::end(rows), is_it)) score -= 20;
    }
    return std::clamp(score, 0, 90);
}

}  // namespace

extern const Framework framework{
    .name = "nanogpt",
    .title = "nanoGPT",
    .newest = "1",
    .oldest = "1",
    .keys = rows,
    .model_keys = "init_from",
    .marks = "#python eval_iters always_save_checkpoint block_size+n_embd block_size+n_layer lr_decay_iters",
    .recognises = recognises,
    .refuses_unknown = [](const ImportContext&, std::string_view) { return true; },
    .resolve = resolve};

}  // namespace macheps::configs::nanogpt
