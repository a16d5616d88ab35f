// SPDX-License-Identifier: Apache-2.0
// The meaning of the columns of every CSV file, in words. docs/columns.md is generated here.
#pragma once
#include <string>

namespace macheps::reports {

/// Returns a Markdown table for each row type: column, unit, meaning, formula. The tables have every column, in the
/// order of its file. A column without a description does not compile.
std::string columns_markdown();

}  // namespace macheps::reports
