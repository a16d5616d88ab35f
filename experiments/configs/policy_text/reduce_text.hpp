// SPDX-License-Identifier: Apache-2.0
// [reduce] of a policy that is imported from a config.
#pragma once
#include <string>

namespace macheps::configs {

class ResolvedConfig;

/// Returns the table, with a comment before it, from the config's fields `reduce` and `predivide`. Always sets
/// `bucket`, even if these fields are not set.
std::string reduce_text(const ResolvedConfig& config);

}  // namespace macheps::configs
