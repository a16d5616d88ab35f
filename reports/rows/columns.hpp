// SPDX-License-Identifier: Apache-2.0
// What the columns of every CSV file hold, in words: docs/columns.md is the text that is made here.
#pragma once
#include <string>

namespace macheps::reports {

/// A table in Markdown for each row type: column, unit, meaning, formula. Every column stands in it, in the order of its
/// file: one without words does not compile.
std::string columns_markdown();

}  // namespace macheps::reports
