// SPDX-License-Identifier: Apache-2.0
// Compares the largest forward values of a policy with the largest number of each format, and describes the risk of
// overflows.
#pragma once
#include "reports/logs/format_range.hpp"
#include "reports/rows/event.hpp"

#include <string>
#include <string_view>

namespace macheps::reports {

/// Ratio of the largest input of `mlp.down` to the rms of the inputs, measured in SmolLM2-135M (`pretrained_peak`) and
/// in a model with random weights (`random_peak`). The quotient of the two ratios estimates how much larger the values
/// of a pretrained model may be than the values of the small model in a run.
inline constexpr double pretrained_peak = 653, random_peak = 8.9;

/// Returns the range line of a verdict without the prefix `range: `: "largest forward value 31 of 65504 (fp16); this
/// cannot rule out an overflow in a pretrained model (12 of 300 steps sampled)". Reads the columns `forward_*`,
/// `sampled_steps` and `steps`.
std::string range_words(const SummaryRow& row);

/// Returns true if, judging by these runs, the policy may overflow where fp32 would not. This is the case if a forward
/// value overflowed, or if any forward values were cast, without a scale, to a format with a narrower range than fp32.
bool is_range_open(const SummaryRow& row);

/// Returns the name of a policy that was trained with `--stress`: "amp-fp16+outliers" for the stress "outliers=2^11".
std::string stressed_name(std::string_view policy, std::string_view stress);

}  // namespace macheps::reports
