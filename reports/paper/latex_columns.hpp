// SPDX-License-Identifier: Apache-2.0
// A table with notes below it in LaTeX, for the packages booktabs, graphicx, siunitx and textcomp.
#pragma once
#include "reports/findings/sweep_summary.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// A column of plain texts. The cells of a column of numbers end with its unit, which the heading contains instead.
struct LatexColumn {
    std::string heading{};    ///< LaTeX
    std::string unit_line{};  ///< LaTeX; the second line of the heading
    TextTable::Kind kind = TextTable::Kind::text;
    std::vector<std::string> cells{};
    std::string_view unit{};
};

struct LatexTable {
    std::string caption{}, label{};  ///< LaTeX
    std::vector<LatexColumn> columns{};
    std::vector<std::string> notes{};  ///< plain texts
};

/// Returns a `table*` environment. A table that is wider than the page is scaled down.
std::string latex_table(const LatexTable& table);

}  // namespace macheps::reports
