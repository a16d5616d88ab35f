// SPDX-License-Identifier: Apache-2.0
// The rows of `macheps gemm` as people and programs read them: an aligned table, HTML, JSON.
#pragma once
#include "reports/rows/gemm_row.hpp"

#include <span>
#include <string>
#include <vector>

namespace macheps::reports {

/// `e4m3fn x e5m2, normal, scaled per tensor`: what a row's operands were, sizes and seed aside.
std::string gemm_data_name(const GemmRow& row);
/// What one curve is of: the row's machine, or `exact -> bf16` for one whose sums of the same operands were put out in
/// several formats.
std::vector<std::string> gemm_series_names(std::span<const GemmRow> rows);

/// One line per machine, output and kind of operands: its product with the most terms (then the most outputs, then the
/// first). The first line holds the headings.
std::vector<std::vector<std::string>> gemm_cells(std::span<const GemmRow> rows);

/// gemm_cells, aligned, with a line end; nothing for no rows.
std::string gemm_table(std::span<const GemmRow> rows);
/// gemm_cells as a table of HTML, names escaped; nothing for no rows.
std::string gemm_html(std::span<const GemmRow> rows);

/// What was compared, for a title: "Products of fp16, normal on a, b and c".
std::string gemm_title(std::span<const GemmRow> rows);

/// {"schema": 1, "rows": [one object per row, keys as the columns, null where not measured, NaN and infinities as
/// strings]}, indented, with a line end.
std::string gemm_json(std::span<const GemmRow> rows);

}  // namespace macheps::reports
