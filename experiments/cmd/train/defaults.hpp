// SPDX-License-Identifier: Apache-2.0
// What `macheps train` takes where it is told nothing: the same with --policy as in the demo, so that the next command shows what
// the demo showed.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace macheps::cmd::train {

/// The policies of the demo, which is what runs without --policy and --config.
std::vector<std::string> demo_policies();

/// Three, so that a gap has an interval.
inline constexpr std::int64_t usual_seeds[] = {0, 1, 2};

/// Stands in for a batch 4096 times as large: at this size gradients do not underflow by themselves.
inline constexpr double usual_token_weight = 0x1p-12;
/// Keeps the batch unchanged, for a framework's config (it sets the batch) and for the user's data.
inline constexpr double plain_token_weight = 1;

/// A number, or a power written 2^-12. Throws Error (usage) that names the option `where`.
double parse_weight(const std::string& text, const char* where = "--token-weight");

}  // namespace macheps::cmd::train
