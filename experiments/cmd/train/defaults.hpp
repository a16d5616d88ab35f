// SPDX-License-Identifier: Apache-2.0
// Defaults of `macheps train`. They are the same with --policy as in the demo, so that a command with --policy shows
// the same effects as the demo.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace macheps::cmd::train {

/// Returns the policies of the demo, which runs if neither --policy nor --config is given.
std::vector<std::string> demo_policies();

/// Three seeds, so that a gap has a confidence interval.
inline constexpr std::int64_t usual_seeds[] = {0, 1, 2};

/// Emulates a batch that is 4096 times as large. At the size of the demo, gradients would not underflow otherwise.
inline constexpr double usual_token_weight = 0x1p-12;
/// Keeps the batch unchanged, for a framework's config (it sets the batch) and for the user's data.
inline constexpr double plain_token_weight = 1;

/// Reads a number, or a power of two such as 2^-12. Throws Error (usage) that names the option `where`.
double parse_weight(const std::string& text, const char* where = "--token-weight");

}  // namespace macheps::cmd::train
