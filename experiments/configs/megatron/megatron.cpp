// SPDX-License-Identifier: Apache-2.0
// Importer of Megatron-LM, which reads the arguments of its training scripts. Sources: megatron/training/arguments.py
// (validate_args), core/optimizer/{grad_scaler,optimizer,optimizer_config}.py, core/transformer/transformer_config.py
// at commit d98e8a64.
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps::configs::megatron {

namespace {

using enum KeyType;

const KeyRow rows[] = {
    {.path = "fp16", .type = flag, .defaults = {{"", "false"}}, .sets = "store compute master scaler"},
    {.path = "bf16", .type = flag, .defaults = {{"", "false"}}, .sets = "store compute master"},
    {.path = "loss-scale", .type = number, .sets = "scaler", .summary = "a constant scale, also in bf16"},
    {.path = "initial-loss-scale", .type = number, .defaults = {{"", "4294967296"}}, .sets = "scaler"},
    {.path = "min-loss-scale", .type = number, .defaults = {{"", "1.0"}}, .sets = "scaler"},
    {.path = "loss-scale-window", .type = number, .defaults = {{"", "1000"}}, .sets = "scaler"},
    {.path = "hysteresis", .type = count, .defaults = {{"", "2"}}, .sets = "scaler"},
    {.path = "grad-reduce-in-bf16", .type = flag, .defaults = {{"", "false"}}, .sets = "accum reduce"},
    {.path = "accumulate-allreduce-grads-in-fp32", .type = flag, .defaults = {{"", "false"}}, .sets = "accum reduce"},
    {.path = "clip-grad", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip", .summary = "0 is off"},
    {.path = "use-precision-aware-optimizer",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "master opt_state accum"},
    {.path = "main-params-dtype", .type = choice, .defaults = {{"", "fp32"}}, .choices = "fp32 fp16", .sets = "master"},
    {.path = "main-grads-dtype", .type = choice, .defaults = {{"", "fp32"}}, .choices = "fp32 bf16", .sets = "accum"},
    {.path = "exp-avg-dtype",
     .type = choice,
     .defaults = {{"", "fp32"}},
     .choices = "fp32 fp16 bf16 fp8",
     .sets = "opt_state"},
    {.path = "exp-avg-sq-dtype",
     .type = choice,
     .defaults = {{"", "fp32"}},
     .choices = "fp32 fp16 bf16 fp8",
     .sets = "opt_state"},
    {.path = "recompute-granularity", .type = choice, .choices = "full selective", .sets = "ckpt"},
    {.path = "recompute-activations", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "fp32-residual-connection",
     .type = flag,
     .defaults = {{"", "false"}},
     .summary = "the residual stream is fp32"},
    {.path = "fp16-lm-cross-entropy", .type = flag, .defaults = {{"", "false"}}},
    {.path = "output-logit-dtype", .type = choice, .choices = "bf16 fp32"},
    {.path = "attention-softmax-in-fp32", .type = flag, .defaults = {{"", "false"}}},
    {.path = "apply-query-key-layer-scaling", .type = flag, .defaults = {{"", "false"}}},
    {.path = "fp8-format", .type = choice, .choices = "e4m3 hybrid", .sets = "fp8 compute"},
    {.path = "fp8-recipe",
     .type = choice,
     .defaults = {{"", "delayed"}},
     .choices = "tensorwise delayed mxfp8 blockwise custom",
     .sets = "fp8"},
    {.path = "fp8-margin", .type = count, .defaults = {{"", "0"}}, .sets = "fp8"},
    {.path = "fp8-amax-history-len", .type = count, .defaults = {{"", "1"}}, .sets = "fp8"},
    {.path = "fp8-amax-compute-algo",
     .type = choice,
     .defaults = {{"", "most_recent"}},
     .choices = "most_recent max",
     .sets = "fp8"},
    {.path = "fp8-param-gather", .type = flag, .defaults = {{"", "false"}}, .sets = "store"},
    {.path = "no-fp8-wgrad", .type = flag, .defaults = {{"", "false"}}, .sets = "fp8"},
    {.path = "first-last-layers-bf16", .type = flag, .defaults = {{"", "false"}}, .sets = "fp8"},
    {.path = "num-layers-at-start-in-bf16", .type = count, .defaults = {{"", "1"}}, .sets = "fp8"},
    {.path = "num-layers-at-end-in-bf16", .type = count, .defaults = {{"", "1"}}, .sets = "fp8"},
    {.path = "fp4-format", .type = any, .sets = "fp8 compute"},
    {.path = "fp4-recipe", .type = choice, .defaults = {{"", "nvfp4"}}, .choices = "nvfp4 custom", .sets = "fp8"},
    {.path = "no-check-for-nan-in-loss-and-grad", .type = flag, .defaults = {{"", "false"}}},
    {.path = "optimizer", .type = text, .defaults = {{"", "adam"}}, .sets = "opt_kernel"},
};

/// A value of --fp8-recipe, and the id of the Transformer Engine recipe that it selects.
struct Fp8Word {
    std::string_view megatron, recipe;
};
constexpr Fp8Word fp8_words[] = {
    {"delayed", "te_delayed"}, {"tensorwise", "te_current"}, {"blockwise", "te_block"}, {"mxfp8", "te_mxfp8"}};

struct Facts {
    char low = 'F';            ///< --fp16: H; --bf16: B; neither: F
    bool is_both = false;      ///< both are given, which fails an assertion
    bool main_is_fp32 = true;  ///< gradients are accumulated and reduced in fp32
    std::string_view fp8;      ///< id of the fp8 or fp4 recipe; empty if there is none
};

Facts facts_of(const ImportContext& context) {
    Facts facts;
    const bool fp16 = context.flag("fp16"), bf16 = context.flag("bf16");
    facts.is_both = fp16 && bf16;
    facts.low = fp16 ? 'H' : bf16 ? 'B' : 'F';
    if (bf16) {
        facts.main_is_fp32 = !context.flag("grad-reduce-in-bf16") && context.text("main-grads-dtype") == "fp32";
    } else if (fp16) {
        facts.main_is_fp32 = context.flag("accumulate-allreduce-grads-in-fp32");
    }
    if (context.has("fp8-format")) {
        facts.fp8 = "custom";
        for (const Fp8Word& word : fp8_words) {
            if (word.megatron == context.text("fp8-recipe")) facts.fp8 = word.recipe;
        }
    } else if (context.has("fp4-format")) {
        facts.fp8 = context.text("fp4-recipe") == "nvfp4" ? "te_nvfp4" : "custom";
    }
    return facts;
}

using Found = std::optional<FindingText>;
using enum FindingCode;

Found both(const ImportContext&, const Facts& facts) {
    if (!facts.is_both) return {};
    return FindingText{"--fp16 and --bf16 cannot be combined: an assertion stops the program", "only one of them"};
}

Found no_bf16(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'B' || context.device().bf16) return {};
    return FindingText{fmt::format("{} has no bf16 units: bf16 is emulated, which is slow", context.device().name),
                       training_format(context) == 'H' ? "remove --bf16, and use --fp16" : "remove --bf16"};
}

Found forced_fp32(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'B' || !facts.main_is_fp32 || context.has("accumulate-allreduce-grads-in-fp32")) return {};
    return FindingText{"with bf16, gradients are summed and reduced in fp32 unless --grad-reduce-in-bf16 is given", {}};
}

Found reduce_wins(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'B' || !context.flag("grad-reduce-in-bf16") || !context.flag("accumulate-allreduce-grads-in-fp32"))
        return {};
    return FindingText{
        "--grad-reduce-in-bf16 switches --accumulate-allreduce-grads-in-fp32 off: gradients are summed in bf16",
        "only one of them"};
}

Found reduce_without_bf16(const ImportContext& context, const Facts& facts) {
    if (facts.low == 'B' || !context.flag("grad-reduce-in-bf16")) return {};
    return FindingText{"--grad-reduce-in-bf16 is read only with --bf16: here it has no effect", "remove it"};
}

Found narrow_main(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'B' || !context.flag("accumulate-allreduce-grads-in-fp32") ||
        context.text("main-grads-dtype") == "fp32")
        return {};
    return FindingText{
        "--accumulate-allreduce-grads-in-fp32 requires fp32 main gradients: an assertion stops the program",
        "--main-grads-dtype fp32"};
}

Found constant_scale(const ImportContext& context, const Facts& facts) {
    if (!context.has("loss-scale") || context.number("loss-scale").value_or(0) == 0 || facts.low == 'F') return {};
    return FindingText{
        facts.low == 'B'
            ? "the given loss scale is also used with bf16, which does not need one"
            : "the given loss scale is constant: a step with Inf or NaN is skipped, but the scale does not change",
        "remove --loss-scale"};
}

Found long_start(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'H' || context.number("loss-scale").value_or(0) != 0) return {};
    const double initial = context.number("initial-loss-scale").value_or(0);
    if (initial < 0x1p24) return {};
    return FindingText{
        fmt::format("the scale starts at {}: about ten or more steps are skipped before the scaled gradients fit fp16",
                    initial),
        "--initial-loss-scale 65536"};
}

Found grows_to_inf(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'H' || context.number("loss-scale").value_or(0) != 0) return {};
    return FindingText{"growth is not limited: a scale that is doubled often enough becomes Inf", {}};
}

Found bad_floor(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'H' || context.number("loss-scale").value_or(0) != 0) return {};
    const double floor = context.number("min-loss-scale").value_or(1),
                 initial = context.number("initial-loss-scale").value_or(1);
    if (floor > 0 && floor <= initial) return {};
    return FindingText{
        fmt::format(
            "the minimum scale {} must be above 0 and at most the initial scale {}: an assertion stops the program",
            floor, initial),
        "--min-loss-scale 1"};
}

Found bad_hysteresis(const ImportContext& context, const Facts& facts) {
    if (facts.low != 'H' || context.number("hysteresis").value_or(1) > 0) return {};
    return FindingText{"--hysteresis must be above 0: an assertion stops the program", "--hysteresis 2"};
}

Found cross_entropy(const ImportContext& context, const Facts& facts) {
    if (!context.flag("fp16-lm-cross-entropy") || facts.low == 'H') return {};
    return FindingText{"--fp16-lm-cross-entropy requires --fp16: an assertion stops the program", "remove it"};
}

Found residual(const ImportContext& context, const Facts& facts) {
    if (!context.flag("fp32-residual-connection") || facts.low != 'F') return {};
    return FindingText{"--fp32-residual-connection requires --fp16 or --bf16: an assertion stops the program",
                       "remove it"};
}

/// Source: core/optimizer/optimizer_config.py of 0.15.0, lines 257 to 268.
Found refused_dtypes(const ImportContext& context, const Facts&) {
    if (context.flag("use-precision-aware-optimizer")) return {};
    std::vector<std::string> refused;
    for (const std::string_view key : {"main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"}) {
        if (context.has(key) && context.text(key) != "fp32") refused.push_back(fmt::format("--{}", key));
    }
    if (refused.empty()) return {};
    return FindingText{fmt::format("{} can only be fp32 without --use-precision-aware-optimizer: an assertion stops "
                                   "the program",
                                   fmt::join(refused, ", ")),
                       "--use-precision-aware-optimizer"};
}

/// Reports how Megatron keeps master weights, which no option switches off. Sources: core/optimizer/__init__.py:380-391
/// and core/optimizer/optimizer_config.py:64 and 226-227 of 0.15.0.
Found masters_kept(const ImportContext& context, const Facts& facts) {
    if (facts.low == 'F' || !context.flag("use-precision-aware-optimizer")) return {};
    const bool has_remainders = facts.low == 'B' && context.text("main-params-dtype") == "fp32";
    return FindingText{
        has_remainders ? "no option switches master weights off; with Transformer Engine 2.1 or newer, the optimiser "
                         "stores only the 16 bits by which an fp32 master differs from the bf16 weight, so that both "
                         "need 4 bytes per parameter"
                       : "no option switches master weights off",
        {}};
}

/// Options that change a format or a rounding which the policy does not change.
const std::initializer_list<std::string_view> unexpressed_options = {
    "fp32-residual-connection", "attention-softmax-in-fp32", "apply-query-key-layer-scaling", "fp8-param-gather"};

Found unexpressed(const ImportContext& context, const Facts&) {
    return flags_not_emulated(context, unexpressed_options, "--");
}

/// Reports second moments in another format than the first moments, because the import has one format for both.
Found second_moments(const ImportContext& context, const Facts&) {
    const std::string first = context.text("exp-avg-dtype"), second = context.text("exp-avg-sq-dtype");
    if (!context.flag("use-precision-aware-optimizer") || first == second) return {};
    return not_emulated(
        fmt::format("--exp-avg-sq-dtype {} is not emulated: the second moments have the format of the first ones, {}",
                    second, first));
}

Found fp8_device(const ImportContext& context, const Facts& facts) {
    if (facts.fp8.empty() || context.device().fp8) return {};
    return FindingText{fmt::format("{} does not multiply fp8: Transformer Engine asserts compute capability 8.9",
                                   context.device().name),
                       "remove --fp8-format"};
}

/// Reports a recipe that the device does not support. Source: check_mxfp8_support and similar functions in
/// transformer_engine/pytorch/quantization.py.
Found recipe_device(const ImportContext& context, const Facts& facts) {
    constexpr struct {
        std::string_view recipe;
        int capability;
        std::string_view title;
    } needs[] = {{"te_block", 90, "block scaling"}, {"te_mxfp8", 100, "MXFP8"}, {"te_nvfp4", 100, "NVFP4"}};
    for (const auto& [recipe, capability, title] : needs) {
        const DeviceProfile& device = context.device();
        if (facts.fp8 != recipe || !device.fp8 || device.capability() >= capability) continue;
        return FindingText{fmt::format("Transformer Engine asserts compute capability {}.0 for {}, but {} has {}.{}",
                                       capability / 10, title, device.name, device.major, device.minor),
                           "--fp8-recipe delayed"};
    }
    return {};
}

Found fp8_and_fp4(const ImportContext& context, const Facts&) {
    if (!context.has("fp8-format") || !context.has("fp4-format")) return {};
    return FindingText{"--fp4-format and --fp8-format cannot be combined", "only one of them"};
}

Found delayed_ends(const ImportContext& context, const Facts& facts) {
    if (facts.fp8 != "te_delayed" || !context.flag("first-last-layers-bf16")) return {};
    return FindingText{
        "--first-last-layers-bf16 with delayed scaling: \"Delayed scaling does not support first / last layer in "
        "BF16.\"",
        "--fp8-recipe tensorwise"};
}

Found no_history(const ImportContext& context, const Facts& facts) {
    const double length = context.number("fp8-amax-history-len").value_or(1);
    if (facts.fp8 != "te_delayed" || (length >= 1 && length <= 65536)) return {};
    return FindingText{
        fmt::format(
            "the amax history has length {}: it must be at least 1 (Transformer Engine) and at most 65536 (macheps)",
            length),
        "--fp8-amax-history-len 1024"};
}

Found short_history(const ImportContext& context, const Facts& facts) {
    if (facts.fp8 != "te_delayed" || context.has("fp8-amax-history-len")) return {};
    return FindingText{
        "the amax history has length 1 here, while Transformer Engine's default is 1024: each scale depends only on "
        "the previous step",
        "--fp8-amax-history-len 1024 --fp8-amax-compute-algo max, for Transformer Engine's defaults"};
}

const FindingRow<Facts> finding_rows[] = {
    {"fp16-and-bf16", error, {"bf16", "fp16"}, both},
    {"narrow-main-gradients", error, {"main-grads-dtype", "accumulate-allreduce-grads-in-fp32", "bf16"}, narrow_main},
    {"bad-floor", error, {"min-loss-scale", "initial-loss-scale"}, bad_floor},
    {"bad-hysteresis", error, {"hysteresis"}, bad_hysteresis},
    {"cross-entropy-without-fp16", error, {"fp16-lm-cross-entropy", "fp16"}, cross_entropy},
    {"residual-without-low-precision", error, {"fp32-residual-connection", "fp16", "bf16"}, residual},
    {"fp8-device", error, {"fp8-format"}, fp8_device},
    {"fp8-recipe-device", error, {"fp8-recipe", "fp4-recipe", "fp8-format"}, recipe_device},
    {"fp8-and-fp4", error, {"fp4-format", "fp8-format"}, fp8_and_fp4},
    {"fp8-history", error, {"fp8-amax-history-len"}, no_history},
    {"first-last-with-delayed", error, {"first-last-layers-bf16", "fp8-recipe"}, delayed_ends},
    {"emulated-bf16", warning, {"bf16"}, no_bf16},
    {"long-overflow-cascade", warning, {"initial-loss-scale", "fp16"}, long_start},
    {"unexpressed-option", note, unexpressed_options, unexpressed},
    {"second-moments", note, {"exp-avg-sq-dtype", "exp-avg-dtype", "use-precision-aware-optimizer"}, second_moments},
    {"optimizer-dtype-refused",
     error,
     {"use-precision-aware-optimizer", "main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"},
     refused_dtypes},
    {"masters-kept", note, {"main-params-dtype", "use-precision-aware-optimizer"}, masters_kept},
    {"short-amax-history", warning, {"fp8-amax-history-len", "fp8-recipe", "fp8-format"}, short_history},
    {"bf16-reduction-wins", contradiction, {"accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16"}, reduce_wins},
    {"reduction-without-bf16", inert, {"grad-reduce-in-bf16", "bf16"}, reduce_without_bf16},
    {"forced-fp32-gradients", note, {"bf16", "grad-reduce-in-bf16"}, forced_fp32},
    {"constant-scale", note, {"loss-scale"}, constant_scale},
    {"scale-grows-to-infinity", note, {"fp16"}, grows_to_inf},
};

FieldValue scaler_of(const ImportContext& context, const Facts& facts) {
    const double constant = context.number("loss-scale").value_or(0);
    if (facts.low == 'F') return no_scaler_field();
    if (constant != 0) return static_scaler_field(constant, true);
    if (facts.low == 'B') return no_scaler_field();
    return {.value = std::string("megatron"),
            .parts = {{"init_scale", context.number("initial-loss-scale").value_or(0x1p32)},
                      {"growth_factor", 2.0},
                      {"backoff_factor", 0.5},
                      {"growth_interval", context.number("loss-scale-window").value_or(1000)},
                      {"hysteresis", context.number("hysteresis").value_or(2)},
                      {"min_scale", context.number("min-loss-scale").value_or(1)}}};
}

void set_optimizer(ImportContext& context) {
    context.infer("opt_kernel", word_field("fused"), "Megatron uses Apex's or Transformer Engine's fused Adam");
    if (!context.flag("use-precision-aware-optimizer")) return;
    context.set("master", letter(context.dtype("main-params-dtype")), "main-params-dtype");
    const char first = context.dtype("exp-avg-dtype");
    context.set("opt_state", first != 0 ? letter(first) : word_field("fp8"), "exp-avg-dtype");
}

void set_fp8(ImportContext& context, const Facts& facts) {
    if (facts.fp8.empty()) {
        context.infer("fp8", word_field("none"), "--fp8-format is not given");
        return;
    }
    const bool is_fp4 = !context.has("fp8-format");
    FieldValue recipe{.value = std::string(facts.fp8), .parts = {}};
    if (!is_fp4) recipe.parts.emplace_back("format", context.text("fp8-format"));
    if (facts.fp8 == "te_delayed") {
        recipe.parts.emplace_back("margin", context.number("fp8-margin").value_or(0));
        recipe.parts.emplace_back("history", context.number("fp8-amax-history-len").value_or(1));
        recipe.parts.emplace_back("algorithm", context.text("fp8-amax-compute-algo"));
    }
    recipe.parts.emplace_back("filter", std::string("megatron"));
    if (context.flag("first-last-layers-bf16")) {
        recipe.parts.emplace_back("skip_first_blocks", context.number("num-layers-at-start-in-bf16").value_or(1));
        recipe.parts.emplace_back("skip_last_blocks", context.number("num-layers-at-end-in-bf16").value_or(1));
    }
    // Delayed scaling is the only fp8 recipe that can compute the weight gradient in high precision
    // (override_linear_precision).
    if (context.flag("no-fp8-wgrad") && facts.fp8 == "te_delayed")
        recipe.parts.emplace_back("weight_grad", std::string(format_word(facts.low)));
    const std::string_view from = is_fp4 ? "fp4-recipe" : "fp8-recipe";
    context.set("compute", word_field(std::string(facts.fp8)), from);
    context.set("fp8", std::move(recipe), from);
}

void resolve(ImportContext& context) {
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, finding_rows);
    const std::string_view from = facts.low == 'H' ? "fp16" : "bf16";
    set_storage(context, facts.low == 'F' ? storage::fp32 : storage::megatron, facts.low, from);
    if (facts.low != 'F' && !facts.main_is_fp32) {
        const std::string_view key = facts.low == 'H'                      ? "accumulate-allreduce-grads-in-fp32"
                                     : context.flag("grad-reduce-in-bf16") ? "grad-reduce-in-bf16"
                                                                           : "main-grads-dtype";
        for (const std::string_view field : {"grad", "accum", "reduce"}) context.set(field, letter(facts.low), key);
    }
    context.set("scaler", scaler_of(context, facts), context.has("loss-scale") ? "loss-scale" : "initial-loss-scale");
    if (facts.low != 'H')
        context.infer("scaler", scaler_of(context, facts), "from compute: only fp16 is scaled automatically");
    context.set("clip", clip_field("megatron", context.number("clip-grad").value_or(0)), "clip-grad");
    set_optimizer(context);
    set_fp8(context, facts);
    // VocabParallelCrossEntropy begins with logits.float(), regardless of --output-logit-dtype and
    // --fp16-lm-cross-entropy.
    context.infer("logits", letter('F'), "vocab_parallel_cross_entropy widens the logits");
    const bool recomputes = context.has("recompute-granularity") || context.flag("recompute-activations");
    context.set("ckpt", {.value = recomputes, .parts = {}},
                context.has("recompute-activations") ? "recompute-activations" : "recompute-granularity");
    context.infer("adapter", word_field("none"), "Megatron has no adapters");
}

int recognises(const files::ConfigValue& root) {
    int score = 0;
    for (const std::string_view own :
         {"num-layers", "tensor-model-parallel-size", "micro-batch-size", "use-distributed-optimizer",
          "initial-loss-scale", "loss-scale-window", "accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16",
          "clip-grad", "hidden-size", "transformer-impl", "train-iters"}) {
        if (root.entry(own) != nullptr) score += 40;
    }
    // The file may contain only options such as `--bf16`. Megatron-LM is the only framework that is configured by a
    // file of options.
    const bool is_arguments = !root.entries.empty() && root.entries.front().value.place.file == root.place.file &&
                              root.place.file.ends_with(".args");
    if (is_arguments && (root.entry("fp16") != nullptr || root.entry("bf16") != nullptr)) score += 45;
    return std::min(score, 95);
}

}  // namespace

extern const Framework framework{
    .name = "megatron",
    .title = "Megatron-LM",
    .newest = "0.15",
    .oldest = "0.15",
    .keys = rows,
    .model_keys = "load",
    .marks =
        "num-layers tensor-model-parallel-size micro-batch-size use-distributed-optimizer initial-loss-scale "
        "loss-scale-window accumulate-allreduce-grads-in-fp32 grad-reduce-in-bf16 clip-grad transformer-impl "
        "train-iters "
        "#arguments+fp16 #arguments+bf16 @pretrain_*",
    .recognises = recognises,
    .refuses_unknown = [](const ImportContext&, std::string_view) { return true; },
    .resolve = resolve};

}  // namespace macheps::configs::megatron
