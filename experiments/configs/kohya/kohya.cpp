// SPDX-License-Identifier: Apache-2.0
// Importer of kohya's sd-scripts, which train diffusion models. macheps imports such a config, but cannot train it.
// Sources: library/train_util.py (read_config_from_file, prepare_dtype, get_optimizer,
// patch_accelerator_for_fp16_training), train_network.py, sdxl_train.py, fine_tune.py and train_db.py of sd-scripts
// 0.7.0 to 0.10.1 and at commit 48d368fa.
#include "experiments/configs/kohya/kohya.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace macheps::configs::kohya {

namespace {

/// The kinds of model that the scripts train, as far as the keys show them.
enum class Model : std::uint8_t {
    unknown,
    sdxl,
    later,  ///< FLUX, SD3 or another transformer, each with a separate script
};

struct Facts {
    char low = 'F';  ///< mixed_precision: format of autocast and of frozen parts
    bool full_fp16 = false, full_bf16 = false;
    char trained = 'F';        ///< format of trained parameters
    bool is_network = false;   ///< a network is trained, and the model is frozen
    std::string_view fp8_key;  ///< key that keeps the frozen model in e4m3; empty if none is on
    bool fp8_base = false;     ///< a network is trained, and its frozen model is kept in e4m3
    std::string optimizer;     ///< in lower case
    Model model = Model::unknown;
};

std::string optimizer_of(const ImportContext& context) {
    if (context.flag("use_8bit_adam")) return "adamw8bit";
    if (context.flag("use_lion_optimizer")) return "lion";
    const std::string name = lowered(context.text("optimizer_type"));
    return name.empty() ? "adamw" : name;
}

Model model_of(const ImportContext& context) {
    for (const std::string_view key : {"ae", "byt5", "clip_l", "clip_g", "gemma2", "qwen3", "t5xxl"}) {
        if (context.has(key)) return Model::later;
    }
    const std::string network = context.text("network_module");
    for (const std::string_view name : {"flux", "sd3", "lumina", "hunyuan", "anima"}) {
        if (network.find(name) != std::string::npos) return Model::later;
    }
    const std::string name = lowered(context.text("pretrained_model_name_or_path"));
    const bool is_sdxl = context.flag("sdxl") || context.has("learning_rate_te1") ||
                         context.has("cache_text_encoder_outputs") || name.find("xl") != std::string::npos;
    return is_sdxl ? Model::sdxl : Model::unknown;
}

/// Returns the key from which optimizer_of() takes the name.
std::string_view optimizer_key(const ImportContext& context) {
    for (const std::string_view key : {"use_8bit_adam", "use_lion_optimizer"}) {
        if (context.flag(key)) return key;
    }
    return "optimizer_type";
}

bool is_set(const ImportContext& context, std::string_view path) { return !context.text(path).empty(); }

/// Returns the key that keeps the frozen model in e4m3, or an empty text.
std::string_view fp8_key(const ImportContext& context) {
    // The script for HunyuanImage ignores the other keys if fp8_scaled is on.
    for (const std::string_view key : {"fp8_scaled", "fp8_base", "fp8_base_unet"}) {
        if (context.flag(key)) return key;
    }
    return {};
}

Facts facts_of(const ImportContext& context) {
    Facts facts;
    if (const char low = context.dtype("mixed_precision"); low != 0) facts.low = low;
    facts.full_fp16 = context.flag("full_fp16");
    facts.full_bf16 = context.flag("full_bf16") && !facts.full_fp16;  // the scripts test full_fp16 first
    if ((facts.full_fp16 && facts.low == 'H') || (facts.full_bf16 && facts.low == 'B')) facts.trained = facts.low;
    facts.is_network = is_set(context, "network_module") || is_set(context, "LoRA_type");
    facts.fp8_key = fp8_key(context);
    facts.fp8_base = facts.is_network && !facts.fp8_key.empty();
    facts.optimizer = optimizer_of(context);
    facts.model = model_of(context);
    return facts;
}

/// Returns whether the weights of the model have the format of mixed precision.
bool has_low_weights(const Facts& facts) { return facts.low != 'F' && (facts.is_network || facts.trained != 'F'); }

/// Returns Adam's eps from `optimizer_args`, or its default. The key has a list of NAME=VALUE or, in presets, a text of
/// them that are separated by spaces.
double adam_eps(const ImportContext& context) {
    constexpr double standard = 1e-8;
    const files::ConfigValue* given = context.value("optimizer_args");
    if (given == nullptr) return standard;
    std::string words = " " + given->written;
    for (const files::ConfigValue& item : given->items) words += " " + item.written;
    const std::size_t start = words.find(" eps=");
    if (start == std::string::npos) return standard;
    files::ConfigValue value;
    value.kind = files::ConfigValue::Kind::text;
    value.written = words.substr(start + 5, words.find(' ', start + 1) - start - 5);
    return files::written_number(value).value_or(standard);
}

using Found = std::optional<FindingText>;
using Context = ImportContext;
using enum FindingCode;

Found full_fp16_alone(const Context&, const Facts& f) {
    if (!f.full_fp16 || f.low == 'H') return {};
    return FindingText{"the scripts assert that mixed_precision is fp16 if full_fp16 is on",
                       "mixed_precision = \"fp16\""};
}
Found full_bf16_alone(const Context&, const Facts& f) {
    if (!f.full_bf16 || f.low == 'B') return {};
    return FindingText{"the scripts assert that mixed_precision is bf16 if full_bf16 is on",
                       "mixed_precision = \"bf16\""};
}
/// Returns the index of the key that keeps the frozen model in e4m3, in the rows whose keys begin with these keys.
std::size_t index_of_fp8(const Facts& f) { return f.fp8_key == "fp8_base" ? 0 : f.fp8_key == "fp8_base_unet" ? 1 : 2; }

/// The script that reads fp8_scaled has no such assertion for it.
Found fp8_without_mixing(const Context&, const Facts& f) {
    if (!f.fp8_base || f.fp8_key == "fp8_scaled" || f.low != 'F') return {};
    return FindingText{
        fmt::format("{} needs mixed precision: the scripts assert that mixed_precision is fp16 or bf16", f.fp8_key),
        "mixed_precision = \"bf16\"", index_of_fp8(f)};
}
Found no_master(const Context&, const Facts& f) {
    if (f.trained == 'F') return {};
    return FindingText{
        fmt::format("trained weights, their gradients and the optimiser's moments are {}: without fp32 master weights "
                    "small updates are lost",
                    format_word(f.trained)),
        f.full_fp16 ? "full_fp16 = false" : "full_bf16 = false", f.full_fp16 ? std::size_t{0} : std::size_t{1}};
}
Found about_eps(const Context& c, const Facts& f, std::string (*effect)(double)) {
    std::string text = effect(adam_eps(c));
    if (f.trained != 'H' || f.optimizer != "adamw" || text.empty()) return {};
    return FindingText{std::move(text),
                       fmt::format("full_fp16 = false, or optimizer_args = [\"eps={}\"]", fp16_safe_eps)};
}
Found eps_is_zero(const Context& c, const Facts& f) { return about_eps(c, f, fp16_eps_is_zero); }
Found eps_is_small(const Context& c, const Facts& f) { return about_eps(c, f, fp16_eps_is_small); }
Found half_vae(const Context& c, const Facts& f) {
    if (f.model != Model::sdxl || f.low != 'H' || c.flag("no_half_vae")) return {};
    return FindingText{"the VAE computes in fp16; that of SDXL overflows fp16 and then returns NaN",
                       "no_half_vae = true"};
}
/// The U-Nets of Stable Diffusion and each VAE have convolutions. Source: pytorch #58123 and #77955.
Found nan_convolutions(const Context& c, const Facts& f) {
    if (f.low != 'H' || !c.device().has_nan_convolutions) return {};
    return FindingText{fmt::format("convolutions in fp16 return NaN on {} and the other GPUs of the GTX 16 series with "
                                   "some versions of cuDNN, so the loss is NaN from the first step on",
                                   c.device().name),
                       "mixed_precision = \"no\""};
}
Found deepspeed_unread(const Context& c, const Facts&) {
    if (!c.flag("deepspeed")) return {};
    return FindingText{"DeepSpeed's part of this config is not read: the formats are those of a run without DeepSpeed",
                       "import DeepSpeed's own config"};
}
Found bf16_emulated(const Context& c, const Facts& f) {
    if (f.low != 'B' || c.device().bf16) return {};
    return FindingText{fmt::format("{} has no bf16 units; torch emulates bf16, which is slow", c.device().name),
                       training_format(c) == 'H' ? "mixed_precision = \"fp16\"" : "mixed_precision = \"no\""};
}
Found both_full(const Context& c, const Facts& f) {
    if (!f.full_fp16 || !c.flag("full_bf16")) return {};
    return FindingText{"full_fp16 and full_bf16 are both on: the scripts follow full_fp16", "only one of the two"};
}
Found fp8_unread(const Context&, const Facts& f) {
    if (f.is_network || f.fp8_key.empty()) return {};
    return FindingText{fmt::format("only the scripts that train a network read {}", f.fp8_key), {}, index_of_fp8(f)};
}
Found patched_scaler(const Context&, const Facts& f) {
    if (f.trained != 'H') return {};
    return FindingText{
        "GradScaler refuses fp16 gradients; the scripts replace its check, so that it unscales them in "
        "fp16",
        {}};
}
/// Anima (library/anima_models.py) and language models of Transformers keep rotary frequencies in buffers. The U-Nets
/// have none, and FLUX computes them in each step.
Found low_buffers(const Context&, const Facts& f) {
    if (!has_low_weights(f)) return {};
    return FindingText{
        fmt::format("buffers are cast to {}: this rounds the frequencies of rotary embeddings of Anima, "
                    "and of text encoders that are language models; U-Nets and FLUX keep none in buffers",
                    format_word(f.low)),
        {}};
}
Found bf16_scripts(const Context&, const Facts& f) {
    if (!f.full_bf16 || f.is_network || f.model != Model::unknown) return {};
    return FindingText{"fine_tune.py and train_db.py do not read full_bf16; the scripts for SDXL, SD3 and FLUX do", {}};
}

/// Returns the file that the scripts read their options from, if the user did not give it. They append `.toml` to a name
/// without it. Options of the command line win over those of the file.
std::string missing_options_file(const Context& context) {
    const std::string name = context.text("config_file");
    if (name.empty()) return {};
    const std::string file = std::filesystem::path(name.ends_with(".toml") ? name : name + ".toml").filename();
    const auto& given = context.options().given_files;
    const bool is_given = std::any_of(given.begin(), given.end(), [&](const std::string& one) {
        return std::filesystem::path(one).filename() == file;
    });
    return is_given ? std::string() : file;
}
Found options_file_unread(const Context& context, const Facts&) {
    const std::string file = missing_options_file(context);
    if (file.empty()) return {};
    return FindingText{fmt::format("the script also reads its options from {}, which is not read here, so the fields "
                                   "may be false",
                                   file),
                       fmt::format("pass {} before this file", file)};
}
Found network_unread(const Context& context, const Facts& f) {
    const std::string module = context.text("network_module");
    if (!f.is_network || module.empty() || module.starts_with("networks.")) return {};
    return FindingText{
        fmt::format("{} makes its own weights, whose formats are not read here: those of the adapter are "
                    "the formats of networks.lora",
                    module),
        {}};
}

const FindingRow<Facts> findings[] = {
    {"options-file-unread", error, {"config_file"}, options_file_unread},
    {"network-unread", warning, {"network_module"}, network_unread},
    {"full-fp16-without-mixed", error, {"full_fp16", "mixed_precision"}, full_fp16_alone},
    {"full-bf16-without-mixed", error, {"full_bf16", "mixed_precision"}, full_bf16_alone},
    {"fp8-base-without-mixed", error, {"fp8_base", "fp8_base_unet", "mixed_precision"}, fp8_without_mixing},
    {"no-master", warning, {"full_fp16", "full_bf16"}, no_master},
    {"eps-is-zero", warning, {"full_fp16", "optimizer_args", "optimizer_type"}, eps_is_zero},
    {"eps-is-small", warning, {"full_fp16", "optimizer_args", "optimizer_type"}, eps_is_small},
    {"half-vae", warning, {"no_half_vae", "mixed_precision"}, half_vae},
    {"nan-convolutions", warning, {"mixed_precision"}, nan_convolutions},
    {"deepspeed-unread", warning, {"deepspeed", "zero_stage"}, deepspeed_unread},
    {"bf16-emulated", warning, {"mixed_precision"}, bf16_emulated},
    {"full-fp16-and-bf16", contradiction, {"full_bf16", "full_fp16"}, both_full},
    {"fp8-base-unread", inert, {"fp8_base", "fp8_base_unet", "fp8_scaled"}, fp8_unread},
    {"patched-scaler", note, {"full_fp16"}, patched_scaler},
    {"buffers-cast", note, {"mixed_precision"}, low_buffers},
    {"full-bf16-scripts", note, {"full_bf16"}, bf16_scripts},
};

std::string_view full_key(const Facts& facts) { return facts.full_bf16 ? "full_bf16" : "full_fp16"; }

void set_formats(ImportContext& context, const Facts& facts) {
    set_storage(context,
                facts.low == 'F'         ? storage::fp32
                : has_low_weights(facts) ? storage::low_amp
                                         : storage::amp,
                facts.low, "mixed_precision");
    if (facts.trained != 'F') context.set("store", letter(facts.trained), full_key(facts));
    if (!facts.is_network) {
        context.infer("adapter", word_field("none"), "no network_module: the model itself is trained");
        return;
    }
    context.set("adapter", letter(facts.trained), full_key(facts));
    for (const std::string_view field : {"grad", "accum", "reduce", "opt_state"})
        context.infer(field, letter(facts.trained), "from adapter: only the network is trained");
    context.set("store", letter(facts.low), "mixed_precision");
    if (!facts.fp8_base) return;
    context.set("store", word_field("fp8"), facts.fp8_key);
    context.set("eval", word_field("fp8"), facts.fp8_key);
    if (facts.fp8_key == "fp8_scaled") {
        const std::string why = fmt::format("from the {} checkpoint: fp8_scaled quantises only linear layers of blocks",
                                            context.checkpoint_dtype());
        for (const std::string_view field : {"norm", "embed", "lm_head"})
            context.infer(field, letter(dtype_letter(context.checkpoint_dtype())), why);
        return;
    }
    // The scripts cast all weights, except the embeddings of text encoders.
    for (const std::string_view field : {"norm", "lm_head"}) context.set(field, word_field("fp8"), facts.fp8_key);
}

void set_update(ImportContext& context, const Facts& facts) {
    context.set("scaler", facts.low == 'H' ? torch_scaler_field({}) : no_scaler_field(), "mixed_precision");
    context.set("clip", clip_field("torch", context.number("max_grad_norm").value_or(0)), "max_grad_norm");
    context.infer("optimizer", {.value = algorithm_of(facts.optimizer), .parts = {{"eps", adam_eps(context)}}},
                  "optimizer_type and optimizer_args");
    context.set("opt_kernel", word_field("single"), optimizer_key(context));
    set_class_moments(context, facts.optimizer, optimizer_key(context));
    context.set("ckpt", {.value = context.flag("gradient_checkpointing"), .parts = {}}, "gradient_checkpointing");
    context.infer("predivide", word_field("prescale"), "DDP divides each gradient when it copies it into its bucket");
    context.infer("fp8", word_field("none"), "no matmul is in fp8: fp8_base only stores frozen weights");
}

void resolve(ImportContext& context) {
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, findings);
    set_formats(context, facts);
    set_update(context, facts);
    // `macheps train` would train a language model, whose results say nothing about this config.
    context.report(context.options().for_training ? error : note, "diffusion-model", {},
                   "the scripts train diffusion models; macheps imports such a config, but has no such model to train",
                   "a config that trains a language model");
}

/// Gives keys of presets the names of the arguments that they become.
void prepare(ImportContext& context) {
    for (files::ConfigValue::Entry& entry : context.root().entries) {
        if (entry.key == "optimizer") entry.key = "optimizer_type";
        if (entry.key == "sdxl_no_half_vae") entry.key = "no_half_vae";
    }
}

/// Returns whether the root or a section of it has the key.
bool has_key(const files::ConfigValue& root, std::string_view key) {
    return root.entry(key) != nullptr ||
           std::any_of(root.entries.begin(), root.entries.end(),
                       [&](const files::ConfigValue::Entry& one) { return one.value.entry(key) != nullptr; });
}

/// See Framework::recognises.
int recognises(const files::ConfigValue& root) {
    int score = 0;
    for (const std::string_view key : {"pretrained_model_name_or_path", "network_module", "full_fp16", "full_bf16",
                                       "no_half_vae", "LoRA_type", "bucket_reso_steps", "clip_skip"}) {
        if (has_key(root, key)) score += 45;
    }
    for (const std::string_view key : {"save_precision", "max_train_steps", "optimizer_type", "mixed_precision"}) {
        if (has_key(root, key)) score += 20;
    }
    return std::min(score, 95);
}

}  // namespace

extern const Framework framework{
    .name = "kohya",
    .title = "kohya's sd-scripts",
    .newest = "0.10.1",
    .oldest = "0.7.0",
    .keys = kohya::keys(),
    .inert_keys = kohya::inert_keys(),
    .ignores_sections = true,  // read_config_from_file()
    .model_keys = "pretrained_model_name_or_path",
    .marks =
        "network_module full_fp16 full_bf16 no_half_vae LoRA_type bucket_reso_steps clip_skip *.network_module "
        "*.full_fp16 *.full_bf16 *.no_half_vae pretrained_model_name_or_path+save_precision "
        "pretrained_model_name_or_path+max_train_steps",
    .recognises = recognises,
    // argparse keeps keys that it does not know as attributes of its namespace, which no script reads.
    .refuses_unknown = [](const ImportContext&, std::string_view) { return false; },
    .prepare = prepare,
    .resolve = resolve};

}  // namespace macheps::configs::kohya
