// SPDX-License-Identifier: Apache-2.0
// How the operands of a product lie in their arrays: transposed, in groups of rows, with scales for blocks of elements.
#pragma once
#include "experiments/check/declare/scale_block.hpp"
#include "experiments/check/pose/poser.hpp"
#include "experiments/check/truth/operands.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Exchanges the last two axes.
void transpose(Decoded& array);

/// First rows of groups, and the end of the last: from `groups`, their sizes, or `offsets`, the ends of all groups, with or
/// without the beginning of the first. A group may be empty. Errors: throws Error (bad input) where they do not cover
/// `rows` rows in order.
std::vector<std::int64_t> group_starts(const std::vector<std::int64_t>& numbers, bool are_sizes, std::int64_t groups,
                                       std::int64_t rows, const std::string& where);

/// Where the scale of block (row, column) lies in cuBLAS's layout: tiles of 128 x 4 blocks, in a tile the row's 32 lanes,
/// then its quarter, then the column. `columns` of blocks.
std::int64_t place_in_128x4(std::int64_t row, std::int64_t column, std::int64_t columns);

enum class ScaleStorage : std::uint8_t { linear, cublas128x4 };

/// The scales of one operand, one for each of its `outer` rows (of all batches) and each block of k: [outer, blocks]. `rows`
/// is how many outer rows one matrix has, and `is_b` says that the array is [blocks of k, blocks of columns].
/// Errors: throws Error (bad input) where the array's size is another.
std::vector<double> block_factors(const Decoded& scales, const ScaleBlock& block, ScaleStorage storage,
                                  std::int64_t matrices, std::int64_t outer, std::int64_t k, bool is_b,
                                  const std::string& where);

/// Multiplies the operands by their block scales and keeps what they were: `a` [rows of a, blocks], `b` [b's columns of
/// all matrices, blocks], either may be empty.
void set_block_factors(ProductOperands& of, const std::vector<double>& a, std::int64_t a_block,
                       const std::vector<double>& b, std::int64_t b_block);

}  // namespace macheps::check
