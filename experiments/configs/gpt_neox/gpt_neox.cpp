// SPDX-License-Identifier: Apache-2.0
// Importer of GPT-NeoX. A config contains the arguments of GPT-NeoX and, at its root, those of DeepSpeed. Sources:
// megatron/neox_arguments/{arguments,deepspeed_args,neox_args}.py and megatron/model/transformer_engine.py at commit
// ea7aefd8, which requires DeeperSpeed, a fork of DeepSpeed 0.16.5.
#include "experiments/configs/deepspeed/deepspeed.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/not_emulated.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::gpt_neox {

namespace {

using enum KeyType;

constexpr double default_clipping = 1;

const KeyRow rows[] = {
    {.path = "precision",
     .type = choice,
     .choices = "fp16 fp32 bfloat16",
     .sets = "store compute scaler",
     .summary = "follows from the sections fp16 and bf16 if it is not set"},
    {.path = "fp32_allreduce",
     .type = flag,
     .defaults = {{"", "false"}},
     .summary = "sums between ranks of tensor parallelism"},
    {.path = "gradient_clipping", .type = number, .defaults = {{"", "1.0"}}, .sets = "clip"},
    {.path = "checkpoint_activations", .type = flag, .defaults = {{"", "false"}}, .sets = "ckpt"},
    {.path = "te_fp8_mha", .type = flag, .defaults = {{"", "false"}}, .sets = "fp8"},
    {.path = "te_fp8_format", .type = choice, .defaults = {{"", "hybrid"}}, .choices = "e4m3 hybrid"},
    {.path = "te_fp8_wgrad", .type = flag, .defaults = {{"", "true"}}},
    {.path = "te_fp8_amax_history_len", .type = number, .defaults = {{"", "1"}}},
    {.path = "te_fp8_amax_compute_algo", .type = text, .defaults = {{"", "most_recent"}}},
    {.path = "te_fp8_margin", .type = number, .defaults = {{"", "0"}}},
    {.path = "fp16_lm_cross_entropy",
     .type = flag,
     .defaults = {{"", "false"}},
     .sets = "logits",
     .summary = "whether the loss is computed in fp16"},
    {.path = "attention_softmax_in_fp32", .type = flag, .defaults = {{"", "false"}}},
    {.path = "apply_query_key_layer_scaling", .type = flag, .defaults = {{"", "false"}}},
    {.path = "deepspeed_extra_args", .type = map, .summary = "further keys of DeepSpeed's config"},
};

struct Facts {
    std::string said;                 ///< the key `precision`; empty if it is not set
    bool fp16 = false, bf16 = false;  ///< whether the sections are enabled in the file
    char low = 'F';                   ///< format of the model: H, B or F
    /// The model is bf16, but the section bf16 is off, so that DeepSpeed trains it without master weights.
    bool is_pure = false;
    int stage = 0;  ///< ZeRO stage
};

/// Returns whether a section of the config is enabled.
bool is_enabled(const files::ConfigValue& root, std::string_view section) {
    const files::ConfigValue* value = root.find(fmt::format("{}.enabled", section));
    return value != nullptr && value->is_boolean() && value->boolean;
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    facts.said = context.text("precision");
    facts.fp16 = is_enabled(context.root(), "fp16");
    facts.bf16 = is_enabled(context.root(), "bf16");
    facts.is_pure = facts.said == "bfloat16" && !facts.fp16 && !facts.bf16;
    facts.low = facts.fp16 ? 'H' : facts.bf16 || facts.is_pure ? 'B' : 'F';
    const files::ConfigValue* stage = context.value("zero_optimization.stage");
    facts.stage = stage == nullptr ? 0 : to_int(files::written_number(*stage).value_or(0));
    return facts;
}

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

Found conflict(const Context&, const Facts& facts) {
    const bool by_fp16 = facts.fp16 && !facts.said.empty() && facts.said != "fp16";
    const bool by_bf16 = facts.bf16 && !facts.said.empty() && facts.said != "bfloat16";
    if (!by_fp16 && !by_bf16) return {};
    return FindingText{fmt::format("the section {} is enabled, but `precision` is {}: GPT-NeoX asserts that they agree",
                                   by_fp16 ? "fp16" : "bf16", facts.said),
                       fmt::format("precision: {}", by_fp16 ? "fp16" : "bfloat16")};
}
Found both_sections(const Context&, const Facts& facts) {
    if (!facts.fp16 || !facts.bf16 || !facts.said.empty()) return {};
    return FindingText{"the sections fp16 and bf16 are both enabled: GPT-NeoX asserts that only one is",
                       "only one of the two sections"};
}
Found fp16_without_enabled(const Context& context, const Facts&) {
    const files::ConfigValue* section = context.value("fp16");
    if (section == nullptr || !section->is_map() || section->entry("enabled") != nullptr) return {};
    return FindingText{"the section fp16 has no key `enabled`: GPT-NeoX refuses the config", "\"enabled\": true"};
}
Found bf16_without_zero(const Context& context, const Facts& facts) {
    if (facts.low != 'B' || context.has("zero_optimization")) return {};
    return FindingText{
        "with bfloat16 GPT-NeoX reads zero_optimization before it sets its default, so that Python "
        "raises TypeError",
        "\"zero_optimization\": {\"stage\": 0}"};
}
Found section_off(const Context&, const Facts& facts) {
    if (!facts.is_pure) return {};
    return FindingText{
        "the model is created in bf16, but the section bf16 is off: DeepSpeed trains it as it would train "
        "an fp32 model, without master weights",
        "\"bf16\": {\"enabled\": true}"};
}
Found fp16_type_unread(const Context& context, const Facts& facts) {
    const files::ConfigValue* type = context.value("fp16.type");
    if (type == nullptr || dtype_letter(type->written) != 'B' || facts.low == 'B') return {};
    return FindingText{fmt::format("`fp16.type` has no effect: the model is {}", format_word(facts.low)),
                       "precision: bfloat16, without the section fp16"};
}
/// Returns advice to sum gradients in fp32.
std::string advise_fp32_sums(const Context& context, const Facts& facts) {
    deepspeed::Facts engine;
    engine.low = facts.low;
    engine.stage = facts.stage;
    const files::ConfigValue* device = context.value("zero_optimization.offload_optimizer.device");
    engine.offload = device != nullptr && device->written != "none";
    return deepspeed::advise_fp32_sums(context, engine);
}

Found narrow_sums(const Context& context, const Facts& facts) {
    if (facts.low != 'B' || facts.stage == 0 || context.resolved().word("accum") == "F") return {};
    return FindingText{
        "gradients are summed over micro-batches in bf16: GPT-NeoX warns that this breaks training with "
        "ZeRO and pipeline parallelism",
        advise_fp32_sums(context, facts)};
}
/// Returns whether GPT-NeoX leaves gradient_clipping out of the config that it hands on to DeepSpeed. It leaves out
/// values that equal its own defaults.
bool omits_clipping(const Context& context) {
    return context.number("gradient_clipping") == default_clipping && !context.since("deepspeed", "0.19.3");
}
Found clipping_omitted(const Context& context, const Facts&) {
    if (!omits_clipping(context)) return {};
    return FindingText{
        "gradients are not clipped: GPT-NeoX hands on only values that differ from its own defaults, and omits "
        "gradient_clipping 1.0, which DeepSpeed reads as 0",
        "a number other than 1.0, such as 1.00001"};
}
Found allreduce_unread(const Context& context, const Facts& facts) {
    if (!context.flag("fp32_allreduce") || facts.low == 'F' || context.resolved().word("reduce") == "F") return {};
    return FindingText{
        fmt::format("fp32_allreduce widens only sums between ranks of tensor parallelism: DeepSpeed does not read it, "
                    "and sums gradients in {}",
                    format_word(context.resolved().word("reduce").front())),
        facts.low == 'B' ? advise_fp32_sums(context, facts) : ""};
}
Found fp8_attention(const Context& context, const Facts&) {
    if (!context.flag("te_fp8_mha")) return {};
    return FindingText{
        "GPT-NeoX cannot make its recipe of fp8 products: the code reads a variable and an argument that "
        "do not exist, so that Python raises an error",
        "te_fp8_mha: false"};
}
Found fp8_unread(const Context& context, const Facts&) {
    if (context.flag("te_fp8_mha")) return {};
    for (const std::string_view key :
         {"te_fp8_format", "te_fp8_wgrad", "te_fp8_amax_history_len", "te_fp8_amax_compute_algo", "te_fp8_margin"}) {
        if (context.has(key))
            return FindingText{fmt::format("`{}` is read only with te_fp8_mha: no product is computed in fp8", key),
                               {}};
    }
    return {};
}

/// Keys that change a format or a rounding which the policy does not change.
const std::initializer_list<std::string_view> unexpressed_keys = {"attention_softmax_in_fp32",
                                                                  "apply_query_key_layer_scaling"};

Found unexpressed(const Context& context, const Facts&) { return flags_not_emulated(context, unexpressed_keys); }

const FindingRow<Facts> finding_rows[] = {
    {"precision-conflict", error, {"precision", "fp16.enabled", "bf16.enabled"}, conflict},
    {"fp16-and-bf16", error, {"bf16.enabled", "fp16.enabled"}, both_sections},
    {"fp16-without-enabled", error, {"fp16"}, fp16_without_enabled},
    {"bf16-without-zero", error, {"zero_optimization", "precision"}, bf16_without_zero},
    {"fp8-attention", error, {"te_fp8_mha"}, fp8_attention},
    {"fp16-type-unread", warning, {"fp16.type", "precision"}, fp16_type_unread},
    {"bf16-section-off", warning, {"bf16.enabled", "precision"}, section_off},
    {"narrow-accumulation", warning, {"data_types.grad_accum_dtype", "zero_optimization.stage"}, narrow_sums},
    {"clipping-omitted", warning, {"gradient_clipping"}, clipping_omitted},
    {"allreduce-unread", warning, {"fp32_allreduce"}, allreduce_unread},
    {"fp8-unread",
     inert,
     {"te_fp8_format", "te_fp8_wgrad", "te_fp8_amax_history_len", "te_fp8_amax_compute_algo", "te_fp8_margin"},
     fp8_unread},
    {"unexpressed-option", note, unexpressed_keys, unexpressed},
};

/// Rules of the DeepSpeed importer whose findings are removed here, because this importer reports the same.
constexpr std::string_view replaced_rules[] = {"deepspeed/fp16-and-bf16"};

void resolve(ImportContext& context) {
    context.delegate(deepspeed::framework, "");
    context.remove_findings(replaced_rules);
    const Facts found = facts_of(context);
    if (found.is_pure) set_storage(context, storage::pure, 'B', "precision");
    report_rows<Facts>(context, found, finding_rows);
    if (omits_clipping(context)) context.set("clip", clip_field("deepspeed", 0), "gradient_clipping");
    context.set("ckpt", {.value = context.flag("checkpoint_activations"), .parts = {}}, "checkpoint_activations");
    context.infer("adapter", word_field("none"), "GPT-NeoX has no adapters");
    if (context.flag("fp16_lm_cross_entropy")) context.set("logits", letter('H'), "fp16_lm_cross_entropy");
}

/// Enables the section that `precision` selects, as GPT-NeoX does before it hands the config on to DeepSpeed.
void apply_precision(files::ConfigValue& root) {
    const files::ConfigValue* precision = root.find("precision");
    if (precision == nullptr) return;
    const std::string word = precision->written;
    const bool is_new = word == "bfloat16" && root.entry("bf16") == nullptr && !is_enabled(root, "fp16");
    if (is_new || (word == "fp16" && !is_enabled(root, "bf16")))
        root.set(word == "fp16" ? "fp16.enabled" : "bf16.enabled", files::yaml_scalar("true", precision->place));
}

/// Reads the config as GPT-NeoX does: keys may have hyphens instead of underscores, and deepspeed_extra_args contains
/// further keys of DeepSpeed.
void prepare(ImportContext& context) {
    files::ConfigValue& root = context.root();
    for (files::ConfigValue::Entry& entry : root.entries) std::replace(entry.key.begin(), entry.key.end(), '-', '_');
    if (const files::ConfigValue* extra = root.find("deepspeed_extra_args"); extra != nullptr && extra->is_map())
        files::merge_config(root, files::ConfigValue(*extra));
    apply_precision(root);
}

/// See Framework::recognises. A config has keys of DeepSpeed and the sizes of a model. Megatron-LM, which has the same
/// sizes, gives the batch size another name.
int recognises(const files::ConfigValue& root) {
    const auto has = [&](std::string_view first, std::string_view second) {
        return root.entry(first) != nullptr || root.entry(second) != nullptr;
    };
    const bool has_model = has("num_layers", "num-layers") || has("pipe_parallel_size", "pipe-parallel-size");
    if (!has_model || has("micro-batch-size", "tensor-model-parallel-size")) return 0;
    const bool has_deepspeed =
        has("train_micro_batch_size_per_gpu", "train_batch_size") || root.entry("zero_optimization") != nullptr;
    return has_deepspeed || has("pipe_parallel_size", "pipe-parallel-size") ? 97 : 0;
}

}  // namespace

extern const Framework framework{
    .name = "gpt-neox",
    .title = "GPT-NeoX",
    .newest = "2",
    .oldest = "2",
    .keys = rows,
    .shares_root_with = "deepspeed",
    .limits = {{"", "deepspeed", "0.16.5"}},
    .marks =
        "pipe_parallel_size pipe-parallel-size num_layers+train_micro_batch_size_per_gpu "
        "num-layers+train_micro_batch_size_per_gpu num_layers+zero_optimization num-layers+zero_optimization "
        "num_layers+fp16.enabled num-layers+fp16.enabled num_layers+train_batch_size num-layers+train_batch_size",
    .recognises = recognises,
    // The constructor of the data class refuses unknown arguments.
    .refuses_unknown = [](const ImportContext&, std::string_view) { return true; },
    .prepare = prepare,
    .resolve = resolve};

}  // namespace macheps::configs::gpt_neox
