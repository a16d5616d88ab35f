// SPDX-License-Identifier: Apache-2.0
// Models whose weights are known to be bf16, and the finding that reports running them in fp16.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string_view>

namespace macheps::configs {

/// A family of published models that were trained and stored in bf16.
struct KnownModel {
    std::string_view pattern;  ///< glob for the part of the lower-case name after the last slash
    std::string_view family;   ///< "Llama 3"
    std::string_view source;   ///< page on which the owners or users of the models state this
    /// Values of model_type in config.json that belong to the family, separated by spaces. Only for families whose
    /// config.json does not say that the weights are bf16.
    std::string_view types{};
};
std::span<const KnownModel> bf16_models();
/// Returns the family to which a model's name or path belongs ("meta-llama/Llama-3.2-1B"), or nullptr if the name
/// matches no family.
const KnownModel* find_bf16_model(std::string_view name);

/// Returns the family of a model_type of config.json ("t5"), or nullptr if it names no family.
const KnownModel* find_bf16_model_type(std::string_view type);

/// Returns whether the weights from which a training starts were trained in bf16: the user or the config.json of the
/// model says so, or the model belongs to a family of bf16_models(). The format in which a config loads the weights does
/// not decide this.
bool has_bf16_weights(const ImportContext& context);

/// Returns the format of weights that a model's name says are quantised ("Qwen/Qwen3-32B-AWQ"), or an empty text.
std::string_view quantised_format_in(std::string_view name);

/// Reports a bf16 checkpoint that the config trains or evaluates in fp16. The dtype comes from --checkpoint-dtype, from
/// a dtype key of the config, or from the model's name, in this order.
void report_checkpoint_range(ImportContext& context);

}  // namespace macheps::configs
