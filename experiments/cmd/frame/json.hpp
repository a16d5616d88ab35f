// SPDX-License-Identifier: Apache-2.0
// JSON as the program prints it. Floating-point numbers have the fewest digits that read back exactly.
#pragma once
#include "core/text/json_number.hpp"

#include <string>

namespace macheps::cmd {

/// Returns one indented document that ends with a newline. Names may come from files, so bytes that are not UTF-8 are
/// replaced.
std::string json_text(const Json& json);
/// Prints json_text() on stdout.
void print_json(const Json& json);

}  // namespace macheps::cmd
