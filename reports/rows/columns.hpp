// SPDX-License-Identifier: Apache-2.0
// Describes the columns of every CSV file. docs/columns.md is generated from these descriptions.
#pragma once
#include <string>

namespace macheps::reports {

/// Returns a Markdown table for each row type: column, unit, meaning, formula. The tables have every column, in the
/// order of its file. A column without a description does not compile.
std::string columns_markdown();

}  // namespace macheps::reports
