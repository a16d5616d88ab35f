// SPDX-License-Identifier: Apache-2.0
// Importer of LLaMA-Factory, which adds its own arguments to those of Transformers' Trainer. Sources:
// llamafactory/hparams/parser.py, model/{loader,patcher,adapter}.py, model/model_utils/{checkpointing,quantization}.py,
// train/fp8_utils.py of 0.9.5 and 0.9.6.dev0.
#include "experiments/configs/llamafactory/llamafactory.hpp"
#include "experiments/configs/checkpoint_range.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/adapter_format.hpp"
#include "experiments/configs/policy_text/name_rules.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"
#include "experiments/configs/transformers/transformers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::llamafactory {

namespace {

char letter_of(std::string_view dtype) { return dtype == "bf16" ? 'B' : dtype == "fp16" ? 'H' : 'F'; }

/// Returns the format of a base model that is quantised when it is loaded. bitsandbytes supports 4 and 8 bits, HQQ
/// several widths, and EETQ 8 bits.
std::string quantised_base(const ImportContext& context) {
    const double bits = context.number("quantization_bit").value_or(4);
    const std::string method = context.text("quantization_method");
    if (method != "hqq" && method != "eetq") return bits == 8 ? "int8" : context.text("quantization_type");
    return fmt::format("int{}", bits >= 1 && bits <= 8 ? static_cast<int>(bits) : 8);
}

bool is_text_or_map(const ImportContext& context, std::string_view path) {
    const files::ConfigValue* value = context.value(path);
    return value != nullptr && !value->is_null() && (value->is_map() || !value->written.empty());
}

/// Returns why a request for fp8 does not reach Accelerate, or an empty text if it does. The trainers of the stages pt
/// and sft set the environment variable that Accelerate reads. Sources: train/*/{workflow,trainer}.py of 0.9.4 and
/// 0.9.5.
std::string fp8_lost(const ImportContext& context) {
    const std::string stage = context.text("stage");
    if (stage != "pt" && stage != "sft") return fmt::format("the trainer of the stage {} does not read fp8", stage);
    if (!context.since("llamafactory", "0.9.5"))
        return "LLaMA-Factory 0.9.4 never passes the arguments with fp8 to its trainers";
    if (context.since("transformers", "5"))
        return "the Trainer of transformers 5 fixes the precision before LLaMA-Factory sets it";
    return {};
}

/// Returns the format of trained weights. PEFT chooses that of adapters before LLaMA-Factory casts them.
char trained(const ImportContext& context, const Facts& facts) {
    if (facts.upcasts_trained) return 'F';
    if (!facts.has_adapter) return facts.checkpoint;
    return peft_adapter_format(context, {.format = facts.checkpoint, .quantised = facts.base});
}

}  // namespace

char compute_dtype(bool asks_bf16, bool asks_fp16, bool torch_says_bf16, bool has_fp16, char checkpoint) {
    if (asks_bf16) return 'B';
    if (asks_fp16) return 'H';
    if (torch_says_bf16 && (checkpoint == 'B' || checkpoint == 0)) return 'B';
    return has_fp16 ? 'H' : 'F';
}

Facts facts(const ImportContext& context) {
    Facts facts;
    facts.trains = context.flag("do_train");
    facts.fp16 = context.flag("fp16");
    facts.bf16 = context.flag("bf16");
    facts.pure_bf16 = context.flag("pure_bf16");
    facts.finetuning = context.text("finetuning_type");
    facts.has_adapter = facts.finetuning == "lora" || facts.finetuning == "oft";
    facts.is_quantised = context.has("quantization_bit");
    const std::string_view stored = quantised_format_in(context.text("model_name_or_path"));
    facts.is_prequantised = !stored.empty() && facts.has_adapter;  // only adapters over such a base can be trained
    if (facts.is_prequantised)
        facts.base = stored;
    else if (facts.is_quantised)
        facts.base = quantised_base(context);
    facts.galore = context.flag("use_galore");
    facts.apollo = context.flag("use_apollo");
    facts.badam = context.flag("use_badam");
    facts.optimiser = llamafactory_optimiser(context);
    facts.optim = transformers::optimiser_name(context);
    // Adam-mini and Muon do not use the class that `optim` selects.
    const bool is_own =
        facts.optimiser != nullptr && (facts.optimiser->kind == "adam-mini" || facts.optimiser->kind == "muon");
    facts.update = is_own ? facts.optimiser : find_optimiser(context, "transformers", facts.optim);
    facts.deepspeed = is_text_or_map(context, "deepspeed");
    facts.zero_stage = to_int(files::written_number(context.value("deepspeed.zero_optimization.stage") != nullptr
                                                        ? *context.value("deepspeed.zero_optimization.stage")
                                                        : files::ConfigValue{})
                                  .value_or(0));
    facts.is_distributed = facts.deepspeed || is_text_or_map(context, "fsdp");
    facts.checkpoint = letter_of(context.checkpoint_dtype());
    facts.upcasts_trained =
        facts.trains &&
        name_rules::llamafactory_casts_trained(facts.pure_bf16, facts.badam, facts.zero_stage == 3, facts.is_quantised);
    facts.freezes_layers = facts.finetuning == "freeze";
    facts.trained = trained(context, facts);
    facts.frozen = facts.has_adapter || facts.freezes_layers ? facts.checkpoint : facts.trained;
    const DeviceProfile& device = context.device();
    const bool has_fp16 = device.is_cuda_like() || device.kind == DeviceProfile::Kind::npu;
    facts.compute = compute_dtype(facts.bf16 || facts.pure_bf16, facts.fp16, device.torch_says_gpu_bf16(), has_fp16,
                                  facts.checkpoint);
    facts.fp8 = context.since("llamafactory", "0.9.4") && context.flag("fp8");
    facts.fp8_lost = fp8_lost(context);
    return facts;
}

namespace {

/// Rules of the Transformers importer whose findings are removed here. That importer does not know which weights
/// LLaMA-Factory casts before the Trainer gets the model.
constexpr std::string_view replaced_rules[] = {"transformers/no-master", "transformers/low-weights-under-scaler"};

/// Sets the format of matmul operands if autocast is off. Operands have the format of the weights, except with 4-bit
/// bitsandbytes, which has a separate compute dtype.
void set_compute(ImportContext& context, const Facts& facts) {
    const bool is_told = facts.base == "nf4" || facts.base == "fp4";
    const char operand = is_told ? facts.compute : facts.frozen;
    if (operand == 'F' && context.flag("tf32") && context.device().torch_says_tf32())
        context.set("compute", letter('T'), "tf32");
    else if (facts.pure_bf16)
        context.set("compute", letter(operand), "pure_bf16");
    else if (is_told)
        context.set("compute", letter(operand), "quantization_bit");
    else
        context.infer("compute", letter(operand), "without autocast, operands have the format of the weights");
}

void set_weights(ImportContext& context, const Facts& facts) {
    const char low = facts.bf16 ? 'B' : facts.fp16 ? 'H' : 'F';
    const std::string as_stored =
        fmt::format("the {} checkpoint: weights are loaded as they are stored", context.checkpoint_dtype());
    const std::string why = facts.upcasts_trained ? "trained weights are cast to fp32 after loading"
                            : facts.has_adapter   ? peft_adapter_reason(context, facts.trained)
                                                  : as_stored;
    const bool trains_all = !facts.has_adapter && !facts.freezes_layers;
    if (facts.deepspeed && low != 'F') return;  // DeepSpeed's engine casts the whole model
    if (facts.is_prequantised) {
        context.set("store", FieldValue{.value = facts.base, .parts = {}}, "model_name_or_path");
    } else if (facts.is_quantised) {
        context.set("store", FieldValue{.value = facts.base, .parts = {}}, "quantization_bit");
    } else {
        context.infer("store", letter(facts.frozen),
                      trains_all ? why
                                 : fmt::format("frozen weights keep the format of the checkpoint, {}",
                                               context.checkpoint_dtype()));
    }
    for (const std::string_view field : {"grad", "accum", "reduce", "opt_state"})
        context.infer(field, letter(facts.trained), why);
    for (const std::string_view field : {"norm", "embed", "lm_head", "eval"})
        context.infer(field, letter(facts.frozen), trains_all ? why : as_stored);
    context.infer("master", letter('-'), "the optimiser updates the weights directly");
    // The Transformers importer has set the field `oplist`, which shows whether autocast is on. On a CPU there is no
    // autocast to fp16, and pure_bf16 alone does not turn autocast on.
    if (context.resolved().word("oplist") == "none") set_compute(context, facts);
    if (context.flag("upcast_layernorm")) context.set("norm", letter('F'), "upcast_layernorm");
    if (facts.galore || facts.apollo)
        context.set("opt_state", letter(facts.trained), facts.galore ? "use_galore" : "use_apollo");
}

/// Sets the fields of the optimiser. The Transformers importer has set them, but set_weights() has replaced the format
/// of the moments.
void set_update(ImportContext& context, const Facts& facts) {
    if (facts.update == nullptr || (facts.deepspeed && context.value("deepspeed.optimizer") != nullptr)) return;
    if (facts.update == facts.optimiser || !follows_weights(facts.update))
        set_optimiser(context, *facts.update, facts.update == facts.optimiser ? facts.optimiser->name : "optim");
}

void set_adapter(ImportContext& context, const Facts& facts) {
    if (!facts.has_adapter) {
        context.set("adapter", FieldValue{.value = std::string("none"), .parts = {}}, "finetuning_type");
        return;
    }
    context.infer(
        "adapter", letter(facts.trained),
        facts.upcasts_trained ? "adapters are trained and cast to fp32" : peft_adapter_reason(context, facts.trained));
}

/// Sets the fp8 recipe that training actually uses. Unless fp8_backend is `te`, this is Accelerate's default recipe,
/// because Accelerate does not read the environment variables that LLaMA-Factory sets.
void set_fp8(ImportContext& context, const Facts& facts) {
    if (!facts.fp8 || !facts.fp8_lost.empty()) {
        context.infer("fp8", FieldValue{.value = std::string("none"), .parts = {}},
                      facts.fp8 ? facts.fp8_lost : "fp8 is off");
        return;
    }
    if (context.text("fp8_backend") == "te") {
        context.set("fp8",
                    FieldValue{.value = std::string("te_delayed"),
                               .parts = {{"format", std::string("hybrid")},
                                         {"history", 16.0},
                                         {"algorithm", std::string("max")},
                                         {"filter", std::string("accelerate-te")},
                                         {"weight_grad_out", std::string("bf16")}}},
                    "fp8_backend");
        context.set("compute", FieldValue{.value = std::string("te_delayed"), .parts = {}}, "fp8_backend");
        return;
    }
    context.set(
        "fp8",
        FieldValue{.value = std::string("ao_tensorwise"),
                   .parts = {{"pad_inner_dim", true}, {"all_gather", false}, {"filter", std::string("accelerate-ao")}}},
        "fp8");
    context.set("compute", FieldValue{.value = std::string("ao_tensorwise"), .parts = {}}, "fp8");
}

void resolve(ImportContext& context) {
    context.delegate(transformers::framework, "");
    context.remove_findings(replaced_rules);
    const Facts found = facts(context);
    report_findings(context, found);
    set_weights(context, found);
    set_update(context, found);
    set_adapter(context, found);
    set_fp8(context, found);
    if (context.flag("upcast_lmhead_output")) context.set("logits", letter('F'), "upcast_lmhead_output");
    context.set("ckpt", FieldValue{.value = !context.flag("disable_gradient_checkpointing"), .parts = {}},
                "disable_gradient_checkpointing");
}

/// Replaces the file name in `deepspeed` by the contents of the file. The Transformers importer then finds the contents
/// there.
void prepare(ImportContext& context) {
    const files::ConfigValue* named = context.value("deepspeed");
    if (named == nullptr || !named->is_text() || named->written.empty()) return;
    const files::ConfigPlace place = named->place;
    std::optional<files::ConfigValue> file = context.read_file("deepspeed", place, named->written);
    if (!file) {
        // read_file() has reported the missing file. The empty map prevents a second report.
        file.emplace();
        file->kind = files::ConfigValue::Kind::map;
        file->place = place;
    }
    context.root().set("deepspeed", std::move(*file));
}

int recognises(const files::ConfigValue& root) {
    int score = 0;
    for (const std::string_view key :
         {"finetuning_type", "stage", "template", "cutoff_len", "dataset_dir", "lora_target", "quantization_bit",
          "pure_bf16", "use_galore", "overwrite_cache", "plot_loss"}) {
        if (root.entry(key) != nullptr) score += 30;
    }
    if (root.entry("model_name_or_path") != nullptr) score += 25;
    if (root.entry("ds_cfg") != nullptr || root.entry("base_model") != nullptr) score -= 60;
    return std::clamp(score, 0, 95);
}

}  // namespace

extern const Framework framework{
    .name = "llamafactory",
    .title = "LLaMA-Factory",
    .newest = "0.9.6",
    .oldest = "0.9.3",
    .keys = llamafactory::keys(),
    .shares_root_with = "transformers",
    .model = "llama",
    .limits = {{"", "transformers", "4.52.4"},
               {"", "accelerate", "1.7.0"},
               {"", "deepspeed", "0.16.9"},
               {"0.9.4", "transformers", "4.57.1"},
               {"0.9.4", "accelerate", "1.11.0"},
               {"0.9.5", "transformers", "5.6.0"},
               {"0.9.5", "deepspeed", ""}},
    .file_keys = {{"deepspeed", "deepspeed"}},
    .model_keys = "model_name_or_path",
    .dtype_keys = "torch_dtype infer_dtype",
    .marks =
        "finetuning_type cutoff_len stage=pt|sft|rm|ppo|dpo|kto|orpo+!ds_cfg template pure_bf16 quantization_bit "
        "lora_target "
        "@llamafactory-cli*",
    .recognises = llamafactory::recognises,
    // HfArgumentParser raises an error on unknown keys unless an environment variable allows them.
    .refuses_unknown =
        [](const ImportContext& context, std::string_view) {
            const std::string_view allow = context.environment("ALLOW_EXTRA_ARGS");
            return allow != "1" && allow != "true" && allow != "True" && allow != "TRUE";
        },
    .unknown_remedy =
        "remove it; keys of the Megatron adapter are known only with USE_MCA=1, which macheps does not cover",
    .prepare = llamafactory::prepare,
    .resolve = llamafactory::resolve};

}  // namespace macheps::configs::llamafactory
