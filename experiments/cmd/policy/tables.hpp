// SPDX-License-Identifier: Apache-2.0
// What `macheps policy explain` prints of a model: rows of slots, rows of tensors, and bytes.
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

/// The rows of block 0 named `block.*`, those of the other blocks left out, when every block says the same.
std::vector<policy::ResolvedPolicy::Row> fold_blocks(std::vector<policy::ResolvedPolicy::Row> rows,
                                                     std::int64_t blocks);
std::vector<configs::TensorRow> fold_blocks(std::vector<configs::TensorRow> rows, std::int64_t blocks);

RowTable<policy::ResolvedPolicy::Row> row_table();
RowTable<configs::TensorRow> tensor_table();

/// The linears whose operands are of 8 bits or fewer, of those that rules ask for, and why the others are left out; empty
/// where no rule asks.
std::string linears_text(const policy::ResolvedPolicy& policy);
Json linears_json(const policy::ResolvedPolicy& policy);
/// A reason for each linear that was left out.
Json left_out_why_json(const policy::ResolvedPolicy& policy);

/// "memory       parameters 428 kB, ...": the model at hand, with a micro-batch of `batch` samples.
std::string memory_line(const training::MemoryEstimate& memory, std::int64_t batch);
Json memory_json(const training::MemoryEstimate& memory, std::int64_t batch);

}  // namespace macheps::cmd::policies
