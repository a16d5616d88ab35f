// SPDX-License-Identifier: Apache-2.0
// Conditions on configs that several rows of the history of faults share.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs::history {

/// Returns whether `gradient_accumulation_steps` is above 1.
bool accumulates(const ImportContext& context);

/// Returns whether Transformers divides the loss of a batch by its number of labels (num_items_in_batch).
bool counts_labels(const ImportContext& context);
/// Returns whether Transformers loads weights in the dtype of the checkpoint.
bool loads_stored_dtype(const ImportContext& context);

/// Returns whether the forward method of the model is known to take no arguments of the loss. T5's takes none before
/// Transformers 5. Source: T5ForConditionalGeneration.forward in models/t5/modeling_t5.py of 4.46.3, 4.56.2 and 5.0.0.
bool takes_no_loss_arguments(const ImportContext& context);

/// Returns whether the key `deepspeed` names a file or is a section. For arguments of Transformers and for Axolotl.
bool names_deepspeed(const ImportContext& context);

/// Returns whether the arguments ask for Liger's kernels. For arguments of Transformers, for LLaMA-Factory and Axolotl.
bool uses_liger(const ImportContext& context);

/// Returns whether the name of the optimiser says that its moments have 8 bits. For arguments of Transformers and for
/// Axolotl.
bool uses_8bit_optimizer(const ImportContext& context);

/// Returns whether `word` is one of `words`, which are separated by spaces.
bool is_one_of(std::string_view word, std::string_view words);

/// Returns a condition if the dtype of the checkpoint is unknown, and an empty text if it is known.
std::string_view asks_for_low_checkpoint(const ImportContext& context);
/// Returns whether the checkpoint is bf16 or fp16, or may be because its dtype is unknown.
bool may_have_low_checkpoint(const ImportContext& context);

}  // namespace macheps::configs::history
