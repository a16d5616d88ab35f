// SPDX-License-Identifier: Apache-2.0
// Functions that look up names and check calls. The reader of FPCore and the reader of infix formulas share them.
#pragma once
#include "experiments/study/eval/tree.hpp"

namespace macheps::study {

/// Maximum depth of a tree. Functions that visit a tree recurse once for each level.
inline constexpr int max_expression_levels = 256;

const OpRow* find_op(std::string_view name);
bool is_constant(std::string_view name);
bool gives_truth(const Node& node);
/// Finds a format by its FPCore name (binary16, binary32 or binary64), by its macheps name, or by its widths (e5m6).
std::optional<Format> find_precision(std::string_view name);
/// Returns the format that FPCore writes as (float E N): N bits, of which E are the exponent, as in IEEE 754. Returns
/// nothing if the format is not supported.
std::optional<Format> float_precision(std::string_view exponent_bits, std::string_view bits);
/// Finds one of FPCore's five rounding modes by its FPCore name.
std::optional<Round> find_round(std::string_view name);
/// Returns a description of the error in the arguments of a call, or an empty text if they are correct.
std::string wrong_arguments(const Node& node);
/// Returns whether the whole text is a decimal or hexadecimal number, with an optional fraction and exponent.
/// `allows_ratio` also allows a sign and a ratio of two integers.
bool is_number_text(std::string_view text, bool allows_ratio);

}  // namespace macheps::study
