// SPDX-License-Identifier: Apache-2.0
// Formats the rows of `macheps gemm` as an aligned table or as HTML.
#pragma once
#include "reports/rows/gemm_row.hpp"

#include <span>
#include <string>
#include <vector>

namespace macheps::reports {

/// Describes the operands of a row without their sizes and seed: `e4m3fn x e5m2, normal, scaled per tensor`.
std::string gemm_data_name(const GemmRow& row);
/// Returns the name of each row's curve: its machine. If this machine has outputs in several formats for the same
/// operands, the output format follows: `exact -> bf16`.
std::vector<std::string> gemm_series_names(std::span<const GemmRow> rows);

/// Returns the headings, and then one line for each machine, output format and kind of operands. The line shows the
/// product with the most terms. A tie goes to the product with the most outputs, and then to the first product.
std::vector<std::vector<std::string>> gemm_cells(std::span<const GemmRow> rows);

/// Returns gemm_cells() as aligned text with a line end. Empty without rows.
std::string gemm_table(std::span<const GemmRow> rows);
/// Returns gemm_cells() as an HTML table with escaped names. Empty without rows.
std::string gemm_html(std::span<const GemmRow> rows);

/// Returns a title that names the compared operands and machines: "Products of fp16, normal on a, b and c".
std::string gemm_title(std::span<const GemmRow> rows);

}  // namespace macheps::reports
