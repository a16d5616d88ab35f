// SPDX-License-Identifier: Apache-2.0
// Output of `macheps policy explain` for a model: a table of slots, a table of tensors, and the bytes that the model
// needs.
#pragma once
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/configs/memory/tensors.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/memory.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace macheps::cmd::policies {

/// If the rows of every block are equal, renames those of block 0 to `block.*` and removes the others.
std::vector<policy::ResolvedPolicy::Row> fold_blocks(std::vector<policy::ResolvedPolicy::Row> rows,
                                                     std::int64_t blocks);
std::vector<configs::TensorRow> fold_blocks(std::vector<configs::TensorRow> rows, std::int64_t blocks);

RowTable<policy::ResolvedPolicy::Row> row_table();
RowTable<configs::TensorRow> tensor_table();

/// Returns a line such as `3 of 4 in 8 bits or fewer`: a rule requests operands of 8 bits or fewer for 4 linears, and 3
/// linears have them. Adds a line with the reason for each linear that is left out. Returns an empty text if no rule
/// requests such operands and no linear is left out.
std::string linears_text(const policy::ResolvedPolicy& policy);
Json linears_json(const policy::ResolvedPolicy& policy);
/// Returns the reason for each linear that was left out.
Json left_out_why_json(const policy::ResolvedPolicy& policy);

/// Returns the memory of the model with a micro-batch of `batch` samples: "memory       parameters 428 kB, ...".
std::string memory_line(const training::MemoryEstimate& memory, std::int64_t batch);
Json memory_json(const training::MemoryEstimate& memory, std::int64_t batch);

}  // namespace macheps::cmd::policies
