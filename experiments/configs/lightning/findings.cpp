// SPDX-License-Identifier: Apache-2.0
// Findings of the importer of Lightning: one row for each setting that Lightning refuses, changes silently, or that is
// likely to be misunderstood.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/lightning/lightning.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs::lightning {

namespace {

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

/// Returns the text of a finding about `precision`. The rows of these findings begin with the keys of Trainer and of
/// LitGPT, in this order.
FindingText about_precision(const Facts& f, std::string message, std::string instead) {
    return {std::move(message), std::move(instead), f.is_litgpt ? std::size_t{1} : std::size_t{0}};
}

std::string_view strategy_title(Strategy strategy) {
    switch (strategy) {
        case Strategy::fsdp:
            return "FSDP";
        case Strategy::deepspeed:
            return "DeepSpeed";
        case Strategy::model_parallel:
            return "ModelParallelStrategy";
        case Strategy::xla:
            return "XLA";
        case Strategy::replicated:
            break;
    }
    return "DDP";
}

Found strategy_refuses(const Context&, const Facts& f) {
    const bool is_wide_or_engine = f.mode == Mode::twice || f.mode == Mode::engine;
    const bool is_refused = f.strategy == Strategy::replicated       ? false
                            : f.strategy == Strategy::model_parallel ? is_wide_or_engine || f.precision == "16-mixed"
                            : f.strategy == Strategy::xla            ? is_wide_or_engine || f.mode == Mode::mixed
                                                                     : is_wide_or_engine;
    if (!is_refused) return {};
    return about_precision(
        f, fmt::format("{} does not accept {}: Lightning raises ValueError", strategy_title(f.strategy), f.precision),
        "bf16-true or 32-true");
}
Found fsdp_on_cpu(const Context&, const Facts& f) {
    if (f.strategy != Strategy::fsdp || !f.on_cpu) return {};
    return FindingText{"Lightning's FSDP needs a GPU: it raises ValueError on a CPU", "strategy: ddp"};
}
Found fsdp_clip(const Context&, const Facts& f) {
    if (f.strategy != Strategy::fsdp || f.is_litgpt || !f.clips || f.clips_by_value) return {};
    return FindingText{"with FSDP, Trainer cannot clip by norm: it raises MisconfigurationException in the first step",
                       "remove gradient_clip_val, and call clip_grad_norm_ of the sharded model in the program"};
}
/// Fabric refuses to clip only if there is a loss scaler. The Trainer refuses to clip in each mixed precision, except
/// with the plugins of FSDP, DeepSpeed and XLA, which do not test the optimiser.
Found fused_clip(const Context& c, const Facts& f) {
    if (!f.fused || !f.clips || f.mode != Mode::mixed || f.strategy == Strategy::deepspeed) return {};
    if (f.is_litgpt) {
        if (f.low != 'H') return {};
        return FindingText{
            "LitGPT's pretrain creates a fused optimiser, which divides by the loss scale itself, so Fabric refuses to "
            "clip gradients and raises NotImplementedError; pretrain always clips",
            c.device().bf16 ? "precision: bf16-mixed" : "precision: 32-true", 3};
    }
    if (f.strategy == Strategy::fsdp || f.strategy == Strategy::xla) return {};
    return FindingText{
        fmt::format("Lightning refuses to clip the gradients of a fused optimiser in mixed precision{} and raises "
                    "RuntimeError",
                    f.low == 'B' ? ", although bf16 has no loss scale that the optimiser divides by," : ""),
        "fused: false"};
}
Found deepspeed_clip_by_value(const Context&, const Facts& f) {
    if (f.strategy != Strategy::deepspeed || !f.clips_by_value) return {};
    return FindingText{"DeepSpeed clips only by norm: Lightning raises MisconfigurationException",
                       "gradient_clip_algorithm: norm"};
}
Found quantised_and_mixed(const Context&, const Facts& f) {
    if (f.quantised.empty() || f.mode != Mode::mixed) return {};
    return FindingText{"LitGPT raises ValueError for a quantised model in mixed precision", "precision: bf16-true"};
}
Found quantised_and_sharded(const Context&, const Facts& f) {
    if (f.quantised.empty() || f.strategy == Strategy::replicated) return {};
    return FindingText{"LitGPT raises NotImplementedError for a quantised model on several devices", "devices: 1"};
}
Found int8_format(const Context&, const Facts& f) {
    if (f.quantised != "int8" || f.low == 'H' || f.mode == Mode::mixed) return {};
    return FindingText{fmt::format("bitsandbytes' int8 layers compute only in fp16, but `precision` is {}: Lightning "
                                   "raises ValueError",
                                   f.precision),
                       "precision: 16-true"};
}
Found fp8_unsupported(const Context& c, const Facts& f) {
    if (f.mode != Mode::engine || c.device().capability() >= 89) return {};
    return about_precision(f, fmt::format("{} has no fp8: Transformer Engine raises an error", c.device().name),
                           "bf16-mixed");
}
Found finetune_clip(const Context& c, const Facts& f) {
    if (!f.is_litgpt || f.pretrains || !c.has("train.max_norm")) return {};
    return FindingText{"LitGPT's finetune commands do not clip: they raise ValueError if max_norm is set",
                       "remove max_norm"};
}

Found no_master(const Context&, const Facts& f) {
    if (!f.updates_low()) return {};
    const std::string what = f.has_lora ? "the model with its adapters" : "the whole model";
    return about_precision(
        f,
        fmt::format("{} converts {} to {}: weights, gradients and the optimiser's state have no fp32 "
                    "copy, so small updates are lost",
                    f.precision, what, format_word(f.low)),
        f.low == 'H' ? "16-mixed" : "bf16-mixed");
}
Found fp16_without_scaler(const Context&, const Facts& f) {
    if (!f.is_low() || f.low != 'H' || f.strategy == Strategy::deepspeed) return {};
    return about_precision(
        f,
        fmt::format("{} has no loss scaler: gradients below 2^-25 become 0, and nothing guards against Inf",
                    f.precision),
        "16-mixed");
}
Found about_eps(const Context& c, const Facts& f, std::string (*effect)(double)) {
    const bool may_be_adam = f.optimizer.empty() || f.optimizer.find("Adam") != std::string::npos;
    const bool computes_low = f.updates_low() && f.low == 'H' && moments_of_class(f.optimizer) == Moments::of_weights;
    if (!computes_low || !may_be_adam) return {};
    std::string text = effect(c.number("optimizer.init_args.eps").value_or(0));
    if (text.empty()) return {};
    if (f.optimizer.empty()) text = "if the optimiser is Adam: " + text;
    return about_precision(f, std::move(text),
                           fmt::format("16-mixed, or, if {} must stay, an eps of {}", f.precision, fp16_safe_eps));
}
Found eps_is_zero(const Context& c, const Facts& f) { return about_eps(c, f, fp16_eps_is_zero); }
Found eps_is_small(const Context& c, const Facts& f) { return about_eps(c, f, fp16_eps_is_small); }
Found fsdp_low_reduce(const Context& c, const Facts& f) {
    if (f.strategy != Strategy::fsdp || f.low == 'F') return {};
    const bool has_wide_parameters = c.assumed_version("lightning") >= parse_version("2.0.3");
    const bool gathers_wide = f.mode == Mode::mixed && !f.gathers_low && has_wide_parameters;
    return about_precision(
        f,
        fmt::format("FSDP sums gradients between ranks in {}{}", format_word(f.low),
                    gathers_wide
                        ? ", although it gathers the weights in fp32 (param_dtype is fp32 from 2.0.3 to before 2.6.0)"
                        : ""),
        "FSDPStrategy(mixed_precision=MixedPrecision(reduce_dtype=torch.float32, ...)) in the program");
}
Found fsdp_low_buffers(const Context&, const Facts& f) {
    if (f.strategy != Strategy::fsdp || f.low == 'F') return {};
    return about_precision(
        f, fmt::format("FSDP rounds buffers, such as rotary frequencies, to {}", format_word(f.low)),
        "FSDPStrategy(mixed_precision=MixedPrecision(buffer_dtype=torch.float32, ...)) in the program");
}
Found fp16_on_cpu(const Context&, const Facts& f) {
    if (!f.on_cpu || f.precision != "16-mixed") return {};
    return about_precision(f, "on a CPU, Lightning replaces 16-mixed by bf16-mixed", "bf16-mixed");
}
Found other_strategy(const Context&, const Facts& f) {
    if (f.knows_strategy) return {};
    return FindingText{fmt::format("the strategy {} is not one of Lightning's; the fields show DDP", f.strategy_name),
                       {}};
}
Found own_policy(const Context& c, const Facts& f) {
    if (f.strategy != Strategy::fsdp || !c.has("trainer.strategy.init_args.mixed_precision")) return {};
    return FindingText{"`mixed_precision` replaces the formats that follow from `precision`; it is not read here", {}};
}
Found plugins(const Context& c, const Facts&) {
    if (!c.has("trainer.plugins")) return {};
    return FindingText{"a plugin may replace `precision`; plugins are not read here", {}};
}
Found clip_by_value(const Context&, const Facts& f) {
    if (!f.clips_by_value || f.strategy == Strategy::deepspeed) return {};
    FindingText text = not_emulated("clipping of each element is not emulated: the policy does not clip");
    text.instead = "gradient_clip_algorithm: norm";
    return text;
}
Found fp64(const Context&, const Facts& f) {
    if (f.mode != Mode::twice) return {};
    return about_precision(f, "everything is computed in fp64; the fields show fp32, the widest format of macheps", {});
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if (f.low != 'B' || f.on_cpu || c.device().bf16) return {};
    return about_precision(f, fmt::format("{} has no bf16 units; torch emulates bf16, which is slow", c.device().name),
                           training_format(c) == 'H' ? "16-mixed" : "32-true");
}

Found old_word(const Context&, const Facts& f) {
    if (f.written.empty() || f.written == f.precision) return {};
    return about_precision(f, fmt::format("`{}` is an old word for {}", f.written, f.precision), f.precision);
}
Found deepspeed_sections(const Context&, const Facts& f) {
    if (f.strategy != Strategy::deepspeed) return {};
    const std::string section = f.low == 'F' ? "no section, so DeepSpeed computes in fp32"
                                             : fmt::format(
                                                   "the section {}, unless the config has it, so DeepSpeed "
                                                   "converts the whole model",
                                                   format_word(f.low));
    return FindingText{fmt::format("from `precision` {}, Lightning adds {}", f.precision, section), {}};
}
Found sharded(const Context&, const Facts& f) {
    if (!f.is_litgpt || f.strategy == Strategy::replicated) return {};
    return FindingText{fmt::format("LitGPT trains on several devices with {}", strategy_title(f.strategy)), {}};
}

const FindingRow<Facts> finding_rows[] = {
    {"strategy-precision", error, {"trainer.precision", "precision", "trainer.strategy", "devices"}, strategy_refuses},
    {"fsdp-on-cpu", error, {"trainer.strategy", "trainer.accelerator"}, fsdp_on_cpu},
    {"fsdp-clip-by-norm", error, {"trainer.gradient_clip_val", "trainer.strategy"}, fsdp_clip},
    {"fused-clip",
     error,
     {"optimizer.init_args.fused", "trainer.gradient_clip_val", "trainer.precision", "precision", "train.max_norm",
      "optimizer"},
     fused_clip},
    {"deepspeed-clip-by-value",
     error,
     {"trainer.gradient_clip_algorithm", "trainer.strategy"},
     deepspeed_clip_by_value},
    {"quantised-and-mixed", error, {"precision", "quantize"}, quantised_and_mixed},
    {"quantised-and-sharded", error, {"devices", "quantize"}, quantised_and_sharded},
    {"int8-format", error, {"precision", "quantize"}, int8_format},
    {"fp8-unsupported", error, {"trainer.precision", "precision"}, fp8_unsupported},
    {"finetune-clip", error, {"train.max_norm"}, finetune_clip},
    {"no-master", warning, {"trainer.precision", "precision"}, no_master},
    {"fp16-without-scaler", warning, {"trainer.precision", "precision"}, fp16_without_scaler},
    {"eps-is-zero",
     warning,
     {"trainer.precision", "precision", "optimizer.init_args.eps", "optimizer.class_path"},
     eps_is_zero},
    {"eps-is-small",
     warning,
     {"trainer.precision", "precision", "optimizer.init_args.eps", "optimizer.class_path"},
     eps_is_small},
    {"fsdp-low-reduce", warning, {"trainer.precision", "precision", "trainer.strategy", "devices"}, fsdp_low_reduce},
    {"buffers-cast", warning, {"trainer.precision", "precision", "trainer.strategy", "devices"}, fsdp_low_buffers},
    {"fp16-on-cpu", warning, {"trainer.precision", "precision", "trainer.accelerator"}, fp16_on_cpu},
    {"other-strategy", warning, {"trainer.strategy"}, other_strategy},
    {"own-fsdp-formats", warning, {"trainer.strategy.init_args.mixed_precision"}, own_policy},
    {"plugins-unread", warning, {"trainer.plugins"}, plugins},
    {"clip-by-value", warning, {"trainer.gradient_clip_algorithm", "trainer.gradient_clip_val"}, clip_by_value},
    {"fp64", warning, {"trainer.precision", "precision"}, fp64},
    {"bf16-emulated", warning, {"trainer.precision", "precision"}, bf16_emulated},
    {"old-word", note, {"trainer.precision", "precision"}, old_word},
    {"deepspeed-sections", note, {"trainer.strategy", "trainer.precision"}, deepspeed_sections},
    {"sharded", note, {"devices", "num_nodes"}, sharded},
};

}  // namespace

void report_findings(ImportContext& context, const Facts& facts) { report_rows<Facts>(context, facts, finding_rows); }

}  // namespace macheps::configs::lightning
