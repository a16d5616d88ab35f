// SPDX-License-Identifier: Apache-2.0
// What both readers of formulas ask of a name, and of a call that they have read.
#pragma once
#include "experiments/study/eval/tree.hpp"

namespace macheps::study {

/// Deeper trees are refused: every walk over a tree calls itself for each level.
inline constexpr int most_expression_levels = 256;

const OpRow* find_op(std::string_view name);
bool is_constant(std::string_view name);
bool gives_truth(const Node& node);
/// The format that FPCore calls binary16, binary32 or binary64, or a format by its own name or its widths (e5m6).
std::optional<Format> find_precision(std::string_view name);
/// FPCore's (float E N): N bits, of which E are the exponent, as in IEEE 754. Empty if the precision is not supported.
std::optional<Format> float_precision(std::string_view exponent_bits, std::string_view bits);
/// FPCore's five roundings.
std::optional<Round> find_round(std::string_view name);
/// What is wrong with a call's arguments; empty where nothing is.
std::string wrong_arguments(const Node& node);
/// Whether the whole text is a decimal or hexadecimal number, with a fraction and an exponent at will, or, with
/// `allows_ratio`, a ratio of whole numbers.
bool is_number_text(std::string_view text, bool allows_ratio);

}  // namespace macheps::study
