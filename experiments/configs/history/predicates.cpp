// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/history/predicates.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/split.hpp"
#include "experiments/configs/checkpoint_range.hpp"

#include <algorithm>
#include <string>

namespace macheps::configs::history {

namespace {

/// Returns whether the config names a model of the family T5. The classes of mT5 were not checked.
bool has_name_of_t5(const ImportContext& context) {
    for (const std::string_view key : listed_names(context.framework().model_keys)) {
        const files::ConfigValue* value = context.value(key);
        const KnownModel* model = value == nullptr ? nullptr : find_bf16_model(value->written);
        if (model != nullptr && model->family == "T5" && lowered(value->written).find("mt5") == std::string::npos)
            return true;
    }
    return false;
}

}  // namespace

bool accumulates(const ImportContext& context) { return context.number("gradient_accumulation_steps").value_or(1) > 1; }

bool counts_labels(const ImportContext& context) { return context.since("transformers", "4.46.0"); }
bool loads_stored_dtype(const ImportContext& context) { return context.since("transformers", "5"); }

bool takes_no_loss_arguments(const ImportContext& context) {
    return (context.options().model.type == "t5" || has_name_of_t5(context)) && !context.since("transformers", "5");
}

bool names_deepspeed(const ImportContext& context) {
    const files::ConfigValue* value = context.value("deepspeed");
    return value != nullptr && (value->is_map() || (value->is_text() && !value->written.empty()));
}

bool uses_liger(const ImportContext& context) {
    if (context.flag("use_liger_kernel") || context.flag("enable_liger_kernel")) return true;
    const files::ConfigValue* plugins = context.value("plugins");  // Axolotl loads Liger as a plugin
    return plugins != nullptr && std::any_of(plugins->items.begin(), plugins->items.end(), [](const auto& item) {
               return item.written.find("liger") != std::string::npos;
           });
}

bool uses_8bit_optimizer(const ImportContext& context) {
    for (const std::string_view key : {"optim", "optimizer"}) {
        if (context.text(key).find("8bit") != std::string::npos) return true;
    }
    return false;
}

bool is_one_of(std::string_view word, std::string_view words) {
    while (!words.empty()) {
        const std::size_t space = std::min(words.find(' '), words.size());
        if (words.substr(0, space) == word) return true;
        words.remove_prefix(std::min(space + 1, words.size()));
    }
    return false;
}

std::string_view asks_for_low_checkpoint(const ImportContext& context) {
    return context.options().checkpoint_is_default ? "the checkpoint is bf16 or fp16" : "";
}

bool may_have_low_checkpoint(const ImportContext& context) {
    return context.options().checkpoint_is_default || context.options().checkpoint_dtype != "fp32";
}

}  // namespace macheps::configs::history
