// SPDX-License-Identifier: Apache-2.0
// Reads the operands of a matrix product from arrays that are transposed, divided into groups of rows, or scaled in
// blocks of elements.
#pragma once
#include "experiments/check/declare/scale_block.hpp"
#include "experiments/check/pose/poser.hpp"
#include "experiments/check/truth/operands.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Exchanges the last two axes of an array.
void transpose(Decoded& array);

/// Returns the index of the first row of each group, followed by the end of the last group. An end is the index after
/// the last row. If `are_sizes` is true, `numbers` holds the size of each group. Otherwise, `numbers` holds the end of
/// each group, optionally preceded by the index of the first row of the first group. A group may be empty. Errors:
/// throws Error (bad input) if the groups do not cover `rows` rows in order.
std::vector<std::int64_t> group_starts(const std::vector<std::int64_t>& numbers, bool are_sizes, std::int64_t groups,
                                       std::int64_t rows, const std::string& where);

/// Returns the index, in an array with cuBLAS's layout, of the scale of block (row, column). The layout consists of
/// tiles of 128 x 4 scales. In a tile, scales are ordered by row mod 32, then by row / 32, then by column. `columns` is
/// the number of blocks in a row.
std::int64_t place_in_128x4(std::int64_t row, std::int64_t column, std::int64_t columns);

enum class ScaleStorage : std::uint8_t { linear, cublas128x4 };

/// Returns the block scales of one operand with the shape [matrices * outer, blocks of k]. `outer` is the number of
/// rows of one matrix a, or of columns of one matrix b. In linear storage, the scales of one matrix are stored with the
/// shape [blocks of rows, blocks of k] for a, and [blocks of k, blocks of columns] for b. Errors: throws Error (bad
/// input) if the array `scales` has another size.
std::vector<double> block_factors(const Decoded& scales, const ScaleBlock& block, ScaleStorage storage,
                                  std::int64_t matrices, std::int64_t outer, std::int64_t k, bool is_b,
                                  const std::string& where);

/// Multiplies the operands of.a and of.b by their block scales, and keeps the unscaled operands in of.raw_a and
/// of.raw_b. The parameter `a` holds the scales of operand a with the shape [rows of a, blocks]. The parameter `b`
/// holds the scales of operand b with the shape [columns of all matrices b, blocks]. Either may be empty. `a_block` and
/// `b_block` are the numbers of terms along k that share a scale.
void set_block_factors(ProductOperands& of, const std::vector<double>& a, std::int64_t a_block,
                       const std::vector<double>& b, std::int64_t b_block);

}  // namespace macheps::check
