// SPDX-License-Identifier: Apache-2.0
// JSON as the program prints it: floating numbers in the shortest decimals that read back the same.
#pragma once
#include "core/text/json_number.hpp"

#include <string>

namespace macheps::cmd {

/// One document, indented, with the newline at its end. Names may come from files: bytes that are no UTF-8 are replaced.
std::string json_text(const Json& json);
/// json_text() on stdout.
void print_json(const Json& json);

}  // namespace macheps::cmd
