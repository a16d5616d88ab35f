// SPDX-License-Identifier: Apache-2.0
// Which parameters and modules frameworks keep in another format by their names: the exact conditions, false positives
// included. A module's name is its dotted path in the model, as named_modules() gives it.
#pragma once
#include <span>
#include <string_view>

namespace macheps::configs::name_rules {

/// LLaMA-Factory's upcast_layernorm: parameters of one dimension whose name holds `norm` or `ln`, such as `lnproj.bias` too.
/// Source: model_utils/checkpointing.py, extras/constants.py.
bool llamafactory_layernorm(std::string_view parameter, int dimensions);

/// LLaMA-Factory's upcast_lmhead_output: a hook on an output embedding that is a Linear whose weight is not fp32 (F) when the hook
/// is considered. Source: model_utils/checkpointing.py.
bool llamafactory_lmhead(bool is_linear, char weight);

/// Whether LLaMA-Factory casts what is trained to fp32. Source: model/adapter.py.
bool llamafactory_casts_trained(bool pure_bf16, bool badam, bool zero3, bool is_quantised);

/// LongSpec's helpers, which no experiment of it calls: norms go to fp32; heads and embeddings whose weight is fp32 go to bf16, whatever
/// the compute dtype, where one is set. Source: models/utils.py, models/mixin.py.
bool longspec_norm(std::string_view module);
bool longspec_head(std::string_view module, bool has_weight, char weight, bool has_compute_dtype);

/// Axolotl's embeddings of a family of models (`model_type`). Source: loaders/utils.py.
std::span<const std::string_view> axolotl_embeddings(std::string_view model_type);
/// What Axolotl casts: norms, embeddings with a weight and, in the first of its two passes, gates. Source: loaders/model.py.
bool axolotl_casts(std::string_view module, bool has_weight, std::string_view model_type, bool is_first_pass);
/// Axolotl's fp32_norms: a class whose name ends with an entry, or whose qualified name is one that has a dot. No entries: RMSNorm
/// and LayerNorm. Source: utils/fp32_norms.py.
bool axolotl_fp32_norm(std::string_view qualified_class, std::span<const std::string_view> entries);

/// PEFT's autocast_adapter_dtype: adapters in fp16 or bf16 (H, B) go to fp32. Source: tuners/tuners_utils.py.
bool peft_casts_adapter(char weight);
/// PEFT's prepare_model_for_kbit_training: fp16 and bf16 parameters that are not 4-bit ones go to fp32. Source: utils/other.py.
bool peft_kbit_casts(char weight, bool is_4bit);

/// FSDP 1 keeps batch norms alone out of its mixed precision; a LayerNorm is not kept out. Source: fsdp/api.py.
bool fsdp1_ignores(std::string_view class_name);

}  // namespace macheps::configs::name_rules
