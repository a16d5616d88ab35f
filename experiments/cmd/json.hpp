// SPDX-License-Identifier: Apache-2.0
// JSON as the program prints it: floating numbers in the shortest decimals that read back the same. Reading and writing are
// compiled in json.cpp alone, as they take a compiler seconds.
#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace macheps {

/// JSON has no infinities and no NaN: those are strings.
nlohmann::ordered_json json_number(double x);
/// The shortest decimal of the float, not of the double that it converts to.
nlohmann::ordered_json json_number(float x);

/// One document, indented, with the newline at its end. Names may come from files: bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& json);
/// json_text() on stdout.
void print_json(const nlohmann::ordered_json& json);

/// What a report wrote as text, to be a part of a larger document.
nlohmann::ordered_json parsed_json(const std::string& text);

}  // namespace macheps
