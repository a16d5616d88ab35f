// SPDX-License-Identifier: Apache-2.0
// Conditions by which frameworks select parameters and modules to keep in a different format. Most conditions test
// names. They are reproduced exactly, including false positives. The name of a module is its dotted path in the model,
// as in named_modules().
#pragma once
#include <span>
#include <string_view>

namespace macheps::configs::name_rules {

/// Returns whether upcast_layernorm of LLaMA-Factory selects a parameter: it has one dimension, and its name contains
/// `norm` or `ln`. Therefore `lnproj.bias` is selected. Source: model_utils/checkpointing.py, extras/constants.py.
bool llamafactory_layernorm(std::string_view parameter, int dimensions);

/// Returns whether upcast_lmhead_output of LLaMA-Factory installs a hook on an output embedding: the embedding is a
/// Linear, and its weight is not fp32 (F) at that time. Source: model_utils/checkpointing.py.
bool llamafactory_lmhead(bool is_linear, char weight);

/// Returns whether LLaMA-Factory casts the trained parameters to fp32. Source: model/adapter.py.
bool llamafactory_casts_trained(bool pure_bf16, bool badam, bool zero3, bool is_quantised);

/// Conditions of two helper functions of LongSpec. None of LongSpec's experiments calls these functions. The first
/// function casts norms to fp32. The second function casts heads and embeddings with an fp32 weight to bf16 if a
/// compute dtype is set, even if that dtype is not bf16. Source: models/utils.py, models/mixin.py.
bool longspec_norm(std::string_view module);
bool longspec_head(std::string_view module, bool has_weight, char weight, bool has_compute_dtype);

/// Returns the names under which Axolotl looks for the embeddings of a family of models (`model_type`). Source:
/// loaders/utils.py.
std::span<const std::string_view> axolotl_embeddings(std::string_view model_type);
/// Returns whether Axolotl casts a module. It casts norms, embeddings that have a weight and, in the first of its two
/// passes, gates. Source: loaders/model.py.
bool axolotl_casts(std::string_view module, bool has_weight, std::string_view model_type, bool is_first_pass);
/// Returns whether fp32_norms of Axolotl selects a class. An entry without a dot selects the classes whose names end
/// with it. An entry with a dot selects the class with this qualified name. If `entries` is empty, RMSNorm and
/// LayerNorm are used. Source: utils/fp32_norms.py.
bool axolotl_fp32_norm(std::string_view qualified_class, std::span<const std::string_view> entries);

/// Returns whether autocast_adapter_dtype of PEFT casts an adapter to fp32. It casts adapters in fp16 or bf16 (H, B).
/// Source: tuners/tuners_utils.py.
bool peft_casts_adapter(char weight);
/// Returns whether prepare_model_for_kbit_training of PEFT casts a parameter to fp32. It casts fp16 and bf16
/// parameters, except 4-bit parameters. Source: utils/other.py.
bool peft_kbit_casts(char weight, bool is_4bit);

/// Returns whether FSDP 1 excludes a module class from its mixed precision. It excludes batch norms, but not LayerNorm.
/// Source: fsdp/api.py.
bool fsdp1_ignores(std::string_view class_name);

}  // namespace macheps::configs::name_rules
