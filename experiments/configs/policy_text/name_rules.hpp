// SPDX-License-Identifier: Apache-2.0
// The names by which frameworks select parameters and modules that they keep in another format. These are the exact
// conditions, including false positives. A module's name is its dotted path in the model, as in named_modules().
#pragma once
#include <span>
#include <string_view>

namespace macheps::configs::name_rules {

/// LLaMA-Factory's upcast_layernorm: parameters with one dimension whose name contains `norm` or `ln`, which includes
/// `lnproj.bias`. Source: model_utils/checkpointing.py, extras/constants.py.
bool llamafactory_layernorm(std::string_view parameter, int dimensions);

/// LLaMA-Factory's upcast_lmhead_output: a hook on an output embedding that is a Linear and whose weight is not fp32
/// (F) at that time. Source: model_utils/checkpointing.py.
bool llamafactory_lmhead(bool is_linear, char weight);

/// Returns whether LLaMA-Factory casts the trained parameters to fp32. Source: model/adapter.py.
bool llamafactory_casts_trained(bool pure_bf16, bool badam, bool zero3, bool is_quantised);

/// LongSpec's helpers, which none of its experiments calls. Norms are cast to fp32. If a compute dtype is set, heads
/// and embeddings with an fp32 weight are cast to bf16, whatever that dtype is. Source: models/utils.py,
/// models/mixin.py.
bool longspec_norm(std::string_view module);
bool longspec_head(std::string_view module, bool has_weight, char weight, bool has_compute_dtype);

/// Returns the names of Axolotl's embeddings for a family of models (`model_type`). Source: loaders/utils.py.
std::span<const std::string_view> axolotl_embeddings(std::string_view model_type);
/// Returns whether Axolotl casts a module: norms, embeddings with a weight and, in the first of its two passes, gates.
/// Source: loaders/model.py.
bool axolotl_casts(std::string_view module, bool has_weight, std::string_view model_type, bool is_first_pass);
/// Axolotl's fp32_norms: matches a class whose name ends with an entry, or whose qualified name equals an entry that
/// contains a dot. Without entries, uses RMSNorm and LayerNorm. Source: utils/fp32_norms.py.
bool axolotl_fp32_norm(std::string_view qualified_class, std::span<const std::string_view> entries);

/// PEFT's autocast_adapter_dtype: adapters in fp16 or bf16 (H, B) are cast to fp32. Source: tuners/tuners_utils.py.
bool peft_casts_adapter(char weight);
/// PEFT's prepare_model_for_kbit_training: fp16 and bf16 parameters are cast to fp32, except 4-bit ones. Source:
/// utils/other.py.
bool peft_kbit_casts(char weight, bool is_4bit);

/// FSDP 1 excludes only batch norms from its mixed precision, and not LayerNorm. Source: fsdp/api.py.
bool fsdp1_ignores(std::string_view class_name);

}  // namespace macheps::configs::name_rules
