// SPDX-License-Identifier: Apache-2.0
// Layouts of the operands of a product in their arrays: transposed, in groups of rows, with scales for blocks of
// elements.
#pragma once
#include "experiments/check/declare/scale_block.hpp"
#include "experiments/check/pose/poser.hpp"
#include "experiments/check/truth/operands.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Exchanges the last two axes.
void transpose(Decoded& array);

/// Returns the first row of each group, and the end of the last group. `numbers` holds the sizes of the groups if
/// `are_sizes`, otherwise their ends, optionally after the beginning of the first group. A group may be empty. Errors:
/// throws Error (bad input) if the groups do not cover `rows` rows in order.
std::vector<std::int64_t> group_starts(const std::vector<std::int64_t>& numbers, bool are_sizes, std::int64_t groups,
                                       std::int64_t rows, const std::string& where);

/// Returns the index of the scale of block (row, column) in cuBLAS's layout. It stores tiles of 128 x 4 blocks; in a
/// tile, scales are ordered by the row's lane (row mod 32), then by its quarter, then by column. `columns` is the
/// number of blocks in a row.
std::int64_t place_in_128x4(std::int64_t row, std::int64_t column, std::int64_t columns);

enum class ScaleStorage : std::uint8_t { linear, cublas128x4 };

/// Returns the scales of one operand, one for each outer row and each block of k: [matrices * outer, blocks of k].
/// Outer rows are rows of a or columns of b, and `outer` is their number in one matrix. In linear storage, a matrix of
/// scales is [blocks of k, blocks of columns] for b and [blocks of rows, blocks of k] for a. Errors: throws Error (bad
/// input) if the array has another size.
std::vector<double> block_factors(const Decoded& scales, const ScaleBlock& block, ScaleStorage storage,
                                  std::int64_t matrices, std::int64_t outer, std::int64_t k, bool is_b,
                                  const std::string& where);

/// Multiplies the operands by their block scales and keeps the unscaled operands in raw_a and raw_b. Shapes: `a` [rows
/// of a, blocks], `b` [columns of all matrices b, blocks]. Either may be empty.
void set_block_factors(ProductOperands& of, const std::vector<double>& a, std::int64_t a_block,
                       const std::vector<double>& b, std::int64_t b_block);

}  // namespace macheps::check
