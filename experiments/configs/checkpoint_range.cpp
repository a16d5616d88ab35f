// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/checkpoint_range.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/split.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/remedy/settings.hpp"
#include "experiments/policy/sites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace macheps::configs {

namespace {

// Every row cites a public statement that the family was trained in bf16. A family without such a statement has no row.
constexpr KnownModel rows[] = {
    {"*{llama-3,llama3}*", "Llama 3", "huggingface.co/docs/transformers/model_doc/llama3, usage tips"},
    {"*{llama-2,llama2}*", "Llama 2", "huggingface.co/docs/transformers/model_doc/llama2"},
    {"*{codellama,code-llama}*", "Code Llama", "huggingface.co/docs/transformers/model_doc/code_llama, notes"},
    {"*tinyllama*", "TinyLlama", "ggml-org/llama.cpp#6412"},
    {"*mistral-7b*", "Mistral 7B", "ggml-org/llama.cpp#6412"},
    {"*mistral-nemo*", "Mistral Nemo", "torch_dtype in config.json of mistralai/Mistral-Nemo-Base-2407"},
    {"*qwen2-*", "Qwen2", "torch_dtype in config.json of Qwen/Qwen2-0.5B and Qwen/Qwen2-7B-Instruct"},
    {"*qwen2.5-*", "Qwen2.5", "huggingface.co/spaces/ggml-org/gguf-my-repo, discussion 135 (Qwen2.5-3B)"},
    {"*qwen3-*", "Qwen3", "torch_dtype in config.json of Qwen/Qwen3-4B-Instruct-2507"},
    {"*gemma-7b*", "Gemma", "huggingface.co/google/gemma-7b-it, discussion 61"},
    {"*gemma-2-*", "Gemma 2", "model card of google/gemma-2-9b-it"},
    {"*gemma-3-*", "Gemma 3", "huggingface/transformers#36822"},
    {"*baichuan2*", "Baichuan 2", "hiyouga/LLaMA-Factory#950 and #1036"},
    {"*smollm2*", "SmolLM2", "model card of HuggingFaceTB/SmolLM2-135M-Instruct"},
    {"*{flux1-,flux.1-}*", "FLUX.1", "torch_dtype in the model card of black-forest-labs/FLUX.1-dev"},
    {"{t5-*,t5_*,flan-t5*,mt5*}", "T5", "google-research/text-to-text-transfer-transformer#539", "t5 mt5 umt5 longt5"},
};

/// The reason why the weights are known to be bf16. `words` states the reason in the message of the finding. `key` is
/// the key of the config from which it follows, or empty if no key shows it.
struct Evidence {
    std::string words, key;
};

/// Calls `use` for each word of a text.
template <class Use>
void each_word(std::string_view text, const Use& use) {
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(word.size() + 1, text.size()));
        use(word);
    }
}

/// Returns the evidence that the weights were trained in bf16. If the user gives the dtype of the checkpoint, it decides.
/// If a config.json gives it, the weights may have been stored in fp32 after a training in bf16, as those of T5.
std::optional<Evidence> evidence_of_weights(const ImportContext& context) {
    const ImportOptions& options = context.options();
    const std::string& file = options.checkpoint_file;
    if (!options.checkpoint_is_default && options.checkpoint_dtype == "bf16")
        return Evidence{
            fmt::format("the weights are bf16 ({})", file.empty() ? "--checkpoint-dtype" : "dtype in " + file), {}};
    if (!options.checkpoint_is_default && file.empty()) return {};
    if (const KnownModel* model = find_bf16_model_type(options.model.type))
        return Evidence{fmt::format("{} models were trained in bf16 ({}; the model is of type {})", model->family,
                                    model->source, options.model.type),
                        {}};
    if (!options.checkpoint_is_default) return {};
    std::optional<Evidence> found;
    each_word(context.framework().model_keys, [&](std::string_view key) {
        const files::ConfigValue* value = found ? nullptr : context.value(key);
        if (value == nullptr || !value->is_text()) return;
        const KnownModel* model = find_bf16_model(value->written);
        if (model == nullptr) return;
        found = Evidence{fmt::format("{} models were trained in bf16 ({}; inferred only from the name {})",
                                     model->family, model->source, value->written),
                         std::string(key)};
    });
    return found;
}

/// Returns the evidence that the weights are bf16 when training or evaluation starts.
std::optional<Evidence> evidence_of(const ImportContext& context) {
    std::optional<Evidence> found;
    if (context.options().checkpoint_is_default) {
        each_word(context.framework().dtype_keys, [&](std::string_view key) {
            if (found || context.dtype(key) != 'B') return;
            found = Evidence{fmt::format("the weights are loaded in bf16 (`{}`)", key), std::string(key)};
        });
    }
    if (!found) found = evidence_of_weights(context);
    // The framework's importer may already have set the format of the weights to bf16, for example for a model that is
    // created in bf16 and trained with fp16 autocast.
    const bool is_said = !context.options().checkpoint_is_default;
    if (!found && !is_said && context.resolved().word("store") == "B")
        found = Evidence{"the config keeps the weights in bf16", {}};
    return found;
}

/// Returns whether the settings of a framework for another format can be used alone. They cannot if another key also
/// decides the format: the arguments of a trainer must agree with DeepSpeed's config, a script may load the weights in a
/// low-precision format, DeepSpeed's LAMB needs the dynamic scale of fp16, and a CPU needs further keys.
bool has_free_format(const ImportContext& context) {
    bool is_free = !context.has("deepspeed") && context.device().kind != DeviceProfile::Kind::cpu;
    each_word(context.framework().dtype_keys, [&](std::string_view key) {
        const char letter = context.dtype(key);
        is_free = is_free && (letter == 0 || letter == 'F');
    });
    const files::ConfigValue* optimizer = context.value("optimizer.type");
    return is_free && (optimizer == nullptr || lowered(optimizer->written).find("lamb") == std::string::npos);
}

/// Returns the advice for a training or an evaluation in fp16. It begins with the settings of the framework for the
/// format, if they can be used.
std::string advice_of(const ImportContext& context, bool trains) {
    const bool is_low = training_format(context.device(), true) == 'B';
    std::string advice = is_low ? "bf16" : fmt::format("fp32, because {} has no bf16", context.device().name);
    const FormatSettings* settings =
        trains && has_free_format(context) ? format_settings(context.framework().name) : nullptr;
    // Without the key, the framework or the device chose fp16.
    if (settings != nullptr && !context.has(settings_in(settings->fp32, false).front().path)) settings = nullptr;
    if (settings != nullptr)
        advice = fmt::format("{}, to train in {}", is_low ? settings->bf16 : settings->fp32, advice);
    return advice + "; or --checkpoint-dtype fp16 or fp32 if the weights are not bf16";
}

}  // namespace

std::span<const KnownModel> bf16_models() { return rows; }

const KnownModel* find_bf16_model(std::string_view name) {
    while (name.ends_with('/')) name.remove_suffix(1);
    name.remove_prefix(name.rfind('/') + 1);   // npos + 1 is 0
    constexpr std::size_t longest_name = 256;  // a config may contain any string
    if (name.size() > longest_name) return nullptr;
    const std::string low = lowered(name);
    const auto found = std::find_if(std::begin(rows), std::end(rows),
                                    [&](const KnownModel& row) { return policy::glob_match(row.pattern, low); });
    return found == std::end(rows) ? nullptr : found;
}

const KnownModel* find_bf16_model_type(std::string_view type) {
    const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const KnownModel& row) {
        const std::vector<std::string_view> types = listed_names(row.types);
        return !type.empty() && std::find(types.begin(), types.end(), type) != types.end();
    });
    return found == std::end(rows) ? nullptr : found;
}

bool has_bf16_weights(const ImportContext& context) { return evidence_of_weights(context).has_value(); }

std::string_view quantised_format_in(std::string_view name) {
    // The first matching row applies. AWQ has only 4 bits, and most names of GPTQ say how many it has.
    constexpr std::pair<std::string_view, std::string_view> formats[] = {
        {"-awq", "int4"}, {"-gptq-int8", "int8"}, {"-gptq-8bit", "int8"}, {"-gptq", "int4"}};
    const std::string low = lowered(name);
    for (const auto& [part, format] : formats) {
        if (low.find(part) != std::string::npos) return format;
    }
    return {};
}

void report_checkpoint_range(ImportContext& context) {
    const ResolvedConfig& resolved = context.resolved();
    const bool trains = resolved.word("compute") == "H" || resolved.word("store") == "H";
    const bool evaluates = resolved.word("eval") == "H";
    if (!trains && !evaluates) return;
    const std::optional<Evidence> evidence = evidence_of(context);
    if (!evidence) return;
    const std::string message = fmt::format(
        "{}, but this config {} in fp16, whose largest number is 65504: activations that fit bf16 can overflow to Inf, "
        "and then the loss is NaN",
        evidence->words, trains ? "trains" : "evaluates");
    Finding& finding =
        context.report(FindingCode::warning, "bf16-checkpoint-in-fp16", {}, message, advice_of(context, trains));
    if (evidence->key.empty()) return;
    finding.key = evidence->key;
    finding.keys = {evidence->key};
    finding.place = context.place_of(evidence->key);
}

}  // namespace macheps::configs
