// SPDX-License-Identifier: Apache-2.0
// Importer of Lightning, in the files of LightningCLI and of LitGPT. Sources: lightning/pytorch/trainer/connectors/
// accelerator_connector.py, plugins/precision/*.py and strategies/{fsdp,deepspeed}.py, and the same folders of
// lightning/fabric, of 2.1.0, 2.4.0, 2.5.0, 2.5.6, 2.6.0, 2.6.1, 2.6.4, 2.6.5 and 2.6.6; litgpt 0.5.13.
#include "experiments/configs/lightning/lightning.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/reduce_text.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::lightning {

namespace {

/// A word of `precision`. Old words have the meaning of the word in `today`.
struct Precision {
    std::string_view word, today;
    Mode mode;
    char low;
};
constexpr Precision precisions[] = {
    {"32-true", "32-true", Mode::full, 'F'},
    {"32", "32-true", Mode::full, 'F'},
    {"64-true", "64-true", Mode::twice, 'F'},
    {"64", "64-true", Mode::twice, 'F'},
    {"16-mixed", "16-mixed", Mode::mixed, 'H'},
    {"16", "16-mixed", Mode::mixed, 'H'},
    {"bf16-mixed", "bf16-mixed", Mode::mixed, 'B'},
    {"bf16", "bf16-mixed", Mode::mixed, 'B'},
    {"16-true", "16-true", Mode::low, 'H'},
    {"bf16-true", "bf16-true", Mode::low, 'B'},
    {"transformer-engine", "transformer-engine", Mode::engine, 'B'},
    {"transformer-engine-float16", "transformer-engine-float16", Mode::engine, 'H'},
};

std::string_view precision_key(const Facts& facts) { return facts.is_litgpt ? "precision" : "trainer.precision"; }

bool is_litgpt(const ImportContext& context) {
    return !context.has("trainer") && (context.has("checkpoint_dir") || context.has("model_name") ||
                                       context.has("precision") || context.has("train"));
}

void read_precision(const ImportContext& context, Facts& facts) {
    facts.written = context.text(precision_key(facts));
    std::string_view word = facts.written;
    if (facts.is_litgpt && word.empty()) {
        const bool has_bf16 = facts.on_cpu || context.device().torch_says_gpu_bf16();
        word = has_bf16 ? "bf16-mixed" : "16-mixed";
        facts.is_by_device = true;
    }
    for (const Precision& one : precisions) {
        if (one.word != word) continue;
        facts.precision = one.today;
        facts.mode = one.mode;
        facts.low = one.low;
    }
    // On a CPU, Lightning has no autocast in fp16.
    if (facts.on_cpu && facts.precision == "16-mixed") facts.low = 'B';
}

/// Returns the name of the strategy in lower case, or the name of its class without the module.
std::string strategy_name(const ImportContext& context) {
    const files::ConfigValue* value = context.value("trainer.strategy");
    const bool is_class = value != nullptr && value->is_map();
    const std::string name = context.text(is_class ? "trainer.strategy.class_path" : "trainer.strategy");
    return lowered(name.substr(name.rfind('.') + 1));
}

/// Returns nothing for a strategy that Lightning does not have, such as that of another library.
std::optional<Strategy> strategy_of(std::string_view name) {
    constexpr std::pair<std::string_view, Strategy> beginnings[] = {
        {"auto", Strategy::replicated}, {"ddp", Strategy::replicated},      {"single", Strategy::replicated},
        {"fsdp", Strategy::fsdp},       {"deepspeed", Strategy::deepspeed}, {"modelparallel", Strategy::model_parallel},
        {"xla", Strategy::xla}};
    for (const auto& [beginning, strategy] : beginnings) {
        if (name.starts_with(beginning)) return strategy;
    }
    return {};
}

/// Returns whether LitGPT trains on several devices. A list names the devices. `auto` and -1 are all GPUs of the
/// machine, which count as several. Without a GPU they are one device. They are the default of pretrain.
bool has_several_devices(const ImportContext& context, bool pretrains) {
    if (context.number("num_nodes").value_or(1) > 1) return true;
    const bool has_gpus = context.device().is_cuda_like();
    const files::ConfigValue* devices = context.value("devices");
    if (devices == nullptr || devices->is_null()) return pretrains && has_gpus;
    if (devices->is_list()) return devices->items.size() > 1;
    constexpr double all = -1;
    const double count = files::written_number(*devices).value_or(all);
    return count == all ? has_gpus : count > 1;
}

/// Returns the name of the optimiser's class. LitGPT also accepts the name alone, and its default is AdamW.
std::string optimizer_of(const ImportContext& context, bool is_litgpt) {
    const files::ConfigValue* value = context.value("optimizer");
    if (value != nullptr && value->is_text()) return value->written;
    const std::string name = context.text("optimizer.class_path");
    return name.empty() && is_litgpt ? "torch.optim.AdamW" : name;
}

/// Returns whether a class of torch can divide by the loss scale in a fused kernel. LitGPT passes the argument `fused`
/// only to classes that have it, which those of other libraries have not.
bool has_fused_kernel(std::string_view optimizer) {
    if (optimizer.starts_with("torch.optim.")) optimizer.remove_prefix(std::string_view("torch.optim.").size());
    return optimizer == "Adam" || optimizer == "AdamW" || optimizer == "SGD";
}

void read_litgpt(const ImportContext& context, Facts& facts) {
    facts.pretrains = !context.has("checkpoint_dir");
    facts.has_lora = context.has("lora_r");
    if (has_several_devices(context, facts.pretrains))
        facts.strategy = facts.has_lora ? Strategy::model_parallel : Strategy::fsdp;
    const std::string quantize = context.text("quantize");
    for (const std::string_view format : {"nf4", "fp4", "int8"}) {
        if (quantize.find(format) != std::string::npos) facts.quantised = format;
    }
}

}  // namespace

double clip_value(const ImportContext& context, const Facts& facts) {
    if (!facts.is_litgpt) return context.number("trainer.gradient_clip_val").value_or(0);
    // The default of TrainArgs is that of pretrain only if the config has no section `train`.
    return facts.pretrains ? context.number("train.max_norm").value_or(context.has("train") ? 0 : 1) : 0;
}

Facts facts(const ImportContext& context) {
    Facts facts;
    facts.is_litgpt = is_litgpt(context);
    const std::string accelerator = context.text("trainer.accelerator");
    facts.on_cpu = accelerator == "cpu" ||
                   (accelerator != "gpu" && accelerator != "cuda" && context.device().kind == DeviceProfile::Kind::cpu);
    read_precision(context, facts);
    if (facts.is_litgpt) {
        read_litgpt(context, facts);
    } else {
        facts.strategy_name = strategy_name(context);
        const std::optional<Strategy> strategy = strategy_of(facts.strategy_name);
        facts.strategy = strategy.value_or(Strategy::replicated);
        facts.knows_strategy = strategy.has_value();
    }
    facts.clips = clip_value(context, facts) > 0;
    facts.clips_by_value =
        facts.clips && !facts.is_litgpt && lowered(context.text("trainer.gradient_clip_algorithm")) == "value";
    facts.optimizer = optimizer_of(context, facts.is_litgpt);
    facts.fused = facts.pretrains ? context.device().is_cuda_like() && has_fused_kernel(facts.optimizer)
                                  : context.flag("optimizer.init_args.fused");
    facts.gathers_low = facts.strategy == Strategy::fsdp && facts.mode == Mode::mixed && context.since("2.6.0");
    facts.makes_low_parameters = facts.gathers_low && !context.since("2.6.4");
    facts.keeps_fp32 =
        facts.strategy == Strategy::fsdp && facts.mode == Mode::low && !facts.is_litgpt && !context.since("2.5.0");
    return facts;
}

namespace {

/// Sets the formats of FSDP in mixed precision. Autocast is on in every version.
void set_mixed_fsdp(ImportContext& context, const Facts& facts) {
    set_storage(context, facts.gathers_low ? storage::fsdp : storage::amp, facts.low, precision_key(facts));
    const std::string why = fmt::format("MixedPrecision of Lightning's FSDP in {}", facts.precision);
    context.infer("oplist", word_field("torch-cuda"), "Lightning also wraps the forward pass of FSDP in autocast");
    context.infer("reduce", letter(facts.low), why);
    context.infer("buffers", letter(facts.low), why);
    if (!facts.makes_low_parameters) return;
    for (const std::string_view field : {"store", "grad", "accum", "opt_state"})
        context.infer(field, letter(facts.low),
                      "lightning 2.6.0 to 2.6.3: parameters that configure_model makes have the format of autocast");
}

/// Sets the formats of all strategies except DeepSpeed.
void set_formats(ImportContext& context, const Facts& facts) {
    const std::string_view from = precision_key(facts);
    const bool is_fsdp = facts.strategy == Strategy::fsdp;
    if (facts.mode == Mode::mixed && is_fsdp)
        set_mixed_fsdp(context, facts);
    else if (facts.mode == Mode::mixed)
        set_storage(context, storage::amp, facts.low, from);
    else if (facts.mode == Mode::engine)
        set_storage(context, storage::low_amp, facts.low, from);
    else if (facts.keeps_fp32)
        set_storage(context, storage::fsdp, facts.low, from);
    else
        set_storage(context, facts.low == 'F' ? storage::fp32 : storage::pure, facts.low, from);
    if (facts.on_cpu && facts.mode == Mode::mixed)
        context.infer("oplist", word_field("torch-cpu"), "from accelerator: autocast of a CPU");
    if (facts.is_by_device) context.by_device("compute", letter(facts.low));
    if (is_fsdp)
        context.infer("predivide", fsdp_average(context.resolved(), 1), "FSDP 1");
    else if (facts.strategy == Strategy::model_parallel)
        context.infer("predivide", fsdp_average(context.resolved(), 2), "FSDP 2");
    else
        context.infer("predivide", word_field("prescale"), "DDP");
    const bool has_scaler = facts.mode == Mode::mixed && facts.low == 'H';
    context.set("scaler",
                has_scaler ? torch_scaler_field({.sharded = is_fsdp, .is_fused = facts.fused && !facts.clips})
                           : no_scaler_field(),
                from);
}

void set_fp8(ImportContext& context, const Facts& facts) {
    if (facts.mode != Mode::engine) {
        context.infer("fp8", word_field("none"), "from precision");
        return;
    }
    // Lightning passes no arguments to DelayedScaling, so the defaults of Transformer Engine apply.
    context.set("fp8",
                {.value = std::string("te_delayed"),
                 .parts = {{"format", std::string("HYBRID")},
                           {"margin", 0.0},
                           {"history", 1024.0},
                           {"algorithm", std::string("max")}}},
                precision_key(facts));
    context.set("compute", word_field("te_delayed"), precision_key(facts));
}

void set_adapter(ImportContext& context, const Facts& facts) {
    if (!facts.has_lora) {
        context.infer("adapter", word_field("none"), "no key of an adapter");
        return;
    }
    const char format = facts.is_low() ? facts.low : 'F';
    context.set("adapter", letter(format), "lora_r");
    for (const std::string_view field : {"grad", "accum", "reduce", "opt_state"})
        context.infer(field, letter(format), "from adapter: only adapters are trained");
    if (!facts.quantised.empty()) context.set("store", word_field(facts.quantised), "quantize");
}

void set_update(ImportContext& context, const Facts& facts) {
    const std::string_view clip_key = facts.is_litgpt ? "train.max_norm" : "trainer.gradient_clip_val";
    const std::string formula = facts.strategy == Strategy::fsdp ? "fsdp1" : "torch";
    context.set("clip", clip_field(formula, facts.clips_by_value ? 0 : clip_value(context, facts)), clip_key);
    constexpr std::string_view fused_key = "optimizer.init_args.fused";
    const FieldValue kernel = word_field(facts.fused ? "fused" : "single");
    if (facts.pretrains)
        context.infer("opt_kernel", kernel, "LitGPT's pretrain asks for a fused kernel on a GPU, if the class has one");
    else if (facts.is_litgpt && !context.has(fused_key))
        context.infer("opt_kernel", kernel, "LitGPT's finetune commands do not ask for a fused optimiser");
    else
        context.set("opt_kernel", kernel, fused_key);
    set_class_moments(context, facts.optimizer,
                      context.has("optimizer.class_path") ? "optimizer.class_path" : "optimizer");
}

void fill(files::ConfigValue& section, std::string_view path, std::string_view written, const files::ConfigPlace& at) {
    if (section.find(path) == nullptr) section.set(path, files::yaml_scalar(written, at));
}

/// Adds the ZeRO section that the name of a strategy or the arguments of DeepSpeedStrategy select.
void fill_zero(const ImportContext& context, const Facts& facts, files::ConfigValue& section,
               const files::ConfigPlace& at) {
    const auto argument = [&](std::string_view name) { return fmt::format("trainer.strategy.init_args.{}", name); };
    std::string stage = context.text(argument("stage"));
    std::string device = context.flag(argument("offload_optimizer"))
                             ? context.text(argument("offload_optimizer_device"))
                             : std::string();
    constexpr std::string_view beginning = "deepspeed_stage_";
    if (facts.strategy_name.starts_with(beginning)) {
        const std::string_view rest = std::string_view(facts.strategy_name).substr(beginning.size());
        stage = rest.substr(0, 1);
        if (rest.ends_with("_offload")) device = "cpu";
        if (rest.ends_with("_nvme")) device = "nvme";
    }
    fill(section, "zero_optimization.stage", stage, at);
    if (!device.empty()) fill(section, "zero_optimization.offload_optimizer.device", device, at);
}

/// Adds the section that Lightning makes from `precision`. The scaler's values are arguments of DeepSpeedStrategy.
void fill_precision(const ImportContext& context, const Facts& facts, files::ConfigValue& section,
                    const files::ConfigPlace& at) {
    if (facts.low == 'B' && section.entry("bf16") == nullptr) fill(section, "bf16.enabled", "true", at);
    if (facts.low != 'H' || section.entry("fp16") != nullptr) return;
    fill(section, "fp16.enabled", "true", at);
    for (const std::string_view key :
         {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale"}) {
        fill(section, fmt::format("fp16.{}", key), context.text(fmt::format("trainer.strategy.init_args.{}", key)), at);
    }
}

/// Returns the config that Lightning gives to DeepSpeed.
files::ConfigValue deepspeed_section(const ImportContext& context, const Facts& facts) {
    const files::ConfigPlace at = context.place_of("trainer.strategy");
    files::ConfigValue section;
    section.kind = files::ConfigValue::Kind::map;
    section.place = at;
    const files::ConfigValue* own = context.value(deepspeed_key);
    if (own != nullptr && own->is_map())
        section = *own;
    else
        fill_zero(context, facts, section, at);
    fill_precision(context, facts, section,
                   context.has("trainer.precision") ? context.place_of("trainer.precision") : at);
    const std::string clip = context.text("trainer.gradient_clip_val");
    fill(section, "gradient_clipping", clip.empty() ? "0.0" : clip, at);
    fill(section, "gradient_accumulation_steps", context.text("trainer.accumulate_grad_batches"), at);
    return section;
}

/// Imports DeepSpeed's config as the argument `config` of DeepSpeedStrategy, where a user can write it.
void resolve_deepspeed(ImportContext& context, const Facts& facts) {
    files::ConfigValue& root = context.root();
    const files::ConfigValue strategy = *root.find("trainer.strategy");
    files::ConfigValue section = deepspeed_section(context, facts);
    root.set(deepspeed_key, std::move(section));
    context.delegate(deepspeed::framework, deepspeed_key);
    root.set("trainer.strategy", strategy);
}

void resolve(ImportContext& context) {
    const Facts found = facts(context);
    report_findings(context, found);
    if (found.strategy == Strategy::deepspeed) {
        resolve_deepspeed(context, found);
        return;
    }
    set_formats(context, found);
    set_fp8(context, found);
    set_adapter(context, found);
    set_update(context, found);
}

/// Reads the file that `config` of DeepSpeedStrategy names.
void prepare(ImportContext& context) {
    const files::ConfigValue* named = context.value(deepspeed_key);
    if (named == nullptr || !named->is_text() || named->written.empty()) return;
    const std::string path = named->written;
    const files::ConfigPlace place = named->place;
    if (std::optional<files::ConfigValue> file = context.read_file(deepspeed_key, place, path))
        context.root().set(deepspeed_key, std::move(*file));
}

/// A key that speaks for Lightning or LitGPT, and its points.
struct Sign {
    std::string_view path;
    int points;
};
constexpr Sign signs[] = {
    {"trainer.precision", 60},      {"trainer.strategy", 30},        {"trainer.accelerator", 30},
    {"trainer.max_epochs", 20},     {"trainer.max_steps", 10},       {"seed_everything", 30},
    {"model.class_path", 15},       {"data.class_path", 15},         {"checkpoint_dir", 25},
    {"train.micro_batch_size", 30}, {"train.global_batch_size", 30}, {"lora_query", 30},
};

/// See Framework::recognises. NeMo and verl also have a section `trainer`.
int recognises(const files::ConfigValue& root) {
    for (const std::string_view foreign : {"exp_manager", "actor_rollout_ref", "policy", "base_model"}) {
        if (root.entry(foreign) != nullptr) return 0;
    }
    int score = 0;
    for (const Sign& one : signs) {
        if (root.find(one.path) != nullptr) score += one.points;
    }
    const files::ConfigValue* word = root.find("precision");
    if (word != nullptr && (word->written.ends_with("-true") || word->written.ends_with("-mixed"))) score += 30;
    return std::min(score, 95);
}

}  // namespace

extern const Framework framework{
    .name = "lightning",
    .title = "Lightning",
    .newest = "2.6.6",
    .oldest = "2.1",
    .keys = lightning::keys(),
    .inert_keys = lightning::inert_keys(),
    .file_keys = {{deepspeed_key, "deepspeed"}},
    .model_keys = "checkpoint_dir initial_checkpoint_dir",
    .marks =
        "trainer.precision+!exp_manager+!actor_rollout_ref trainer.accelerator+!exp_manager "
        "trainer.strategy+!exp_manager+!actor_rollout_ref trainer+seed_everything *.class_path+*.init_args "
        "precision=16*|bf16*|32*|64*|transformer-engine*+checkpoint_dir train.global_batch_size+train.micro_batch_size "
        "lora_query @litgpt*",
    .recognises = recognises,
    // LightningCLI and LitGPT refuse arguments that their functions do not have. A program may add keys outside
    // `trainer` to its own LightningCLI.
    .refuses_unknown = [](const ImportContext& context,
                          std::string_view path) { return path.starts_with("trainer.") || is_litgpt(context); },
    .unknown_remedy = "check that the program's LightningCLI has this argument",
    .prepare = prepare,
    .resolve = resolve};

}  // namespace macheps::configs::lightning
