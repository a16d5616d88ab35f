// SPDX-License-Identifier: Apache-2.0
// Functions that both readers of formulas use to look up names and to check calls.
#pragma once
#include "experiments/study/eval/tree.hpp"

namespace macheps::study {

/// Upper bound of the depth of a tree: every walk over a tree recurses once for each level.
inline constexpr int max_expression_levels = 256;

const OpRow* find_op(std::string_view name);
bool is_constant(std::string_view name);
bool gives_truth(const Node& node);
/// Returns the format that FPCore calls binary16, binary32 or binary64, or a format by its macheps name or widths
/// (e5m6).
std::optional<Format> find_precision(std::string_view name);
/// Returns the format of FPCore's (float E N): N bits, of which E are the exponent, as in IEEE 754. Empty if it is not
/// supported.
std::optional<Format> float_precision(std::string_view exponent_bits, std::string_view bits);
/// Returns one of FPCore's five rounding modes.
std::optional<Round> find_round(std::string_view name);
/// Describes what is wrong with the arguments of a call. Empty if nothing is wrong.
std::string wrong_arguments(const Node& node);
/// Returns whether the whole text is a decimal or hexadecimal number, with an optional fraction and exponent.
/// `allows_ratio` also allows a sign and a ratio of two integers.
bool is_number_text(std::string_view text, bool allows_ratio);

}  // namespace macheps::study
